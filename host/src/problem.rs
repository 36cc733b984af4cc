//! What is to be computed, and every rule that it must keep.
//!
//! The product is C = A·Bᵀ: A is M×K, B is N×K, C is M×N, all row-major, so both operands are contiguous
//! in K. The CPU, the GPU and the simulator all accept exactly what is validated here.

use kernels::catalogue::Element as Kind;

use crate::element::Element;
use crate::error::{Error, Result};
use crate::matrix::{MatMut, MatRef};

/// The largest M, N or K. A tile's origin is a TMA coordinate, which is a signed 32-bit number.
pub const DIMENSION_LIMIT: usize = 1 << 31;
/// What the strides and the base address of a tensor map must be a multiple of, in bytes (CUDA driver
/// API, `cuTensorMapEncodeTiled`).
pub const TMA_ALIGNMENT: usize = 16;
/// Strides of a tensor map must be below this many bytes (CUDA driver API, `cuTensorMapEncodeTiled`).
pub const TMA_STRIDE_LIMIT: usize = 1 << 40;

/// A matrix product C = A·Bᵀ of validated sizes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Problem {
    element: Kind,
    m: usize,
    n: usize,
    k: usize,
    lda: usize,
    ldb: usize,
    ldc: usize,
}

/// What a problem asks of whoever solves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// M or N is 0: C has no elements.
    Nothing,
    /// K is 0: C becomes zero, and A and B are not read.
    Zeros,
    /// A product to compute.
    Product,
}

/// Addresses of the first elements of A, B and C, in whatever memory they are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Addresses {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of C.
    pub c: u64,
}

impl Problem {
    /// A product of matrices without padding between their rows.
    ///
    /// # Errors
    /// When M, N or K is above [`DIMENSION_LIMIT`].
    pub fn new(element: Kind, m: usize, n: usize, k: usize) -> Result<Self> {
        Self::with_leading_dimensions(element, (m, n, k), k, k, n)
    }

    /// A product of M×N×K `sizes`, with the elements from one row to the next of A, B and C.
    ///
    /// # Errors
    /// When a size is above [`DIMENSION_LIMIT`], or a leading dimension is below the length of a row.
    pub fn with_leading_dimensions(
        element: Kind,
        sizes: (usize, usize, usize),
        lda: usize,
        ldb: usize,
        ldc: usize,
    ) -> Result<Self> {
        let (m, n, k) = sizes;
        for (dimension, value) in [("M", m), ("N", n), ("K", k)] {
            if value > DIMENSION_LIMIT {
                return Err(Error::DimensionTooLarge { dimension, value, limit: DIMENSION_LIMIT });
            }
        }
        for (matrix, value, row) in [("A", lda, k), ("B", ldb, k), ("C", ldc, n)] {
            if value < row {
                return Err(Error::LeadingDimensionTooSmall { matrix, value, row });
            }
        }
        Ok(Self { element, m, n, k, lda, ldb, ldc })
    }

    /// The product of `a` and `b` into `c`.
    ///
    /// # Errors
    /// When the shapes do not fit, or are larger than [`DIMENSION_LIMIT`].
    pub fn of<T: Element>(a: &MatRef<'_, T>, b: &MatRef<'_, T>, c: &MatMut<'_, T>) -> Result<Self> {
        let (m, n, k) = sizes((a.rows(), a.cols()), (b.rows(), b.cols()))?;
        check_output((c.rows(), c.cols()), (m, n))?;
        Self::with_leading_dimensions(T::KIND, (m, n, k), a.ld(), b.ld(), c.ld())
    }

    /// Type of the elements.
    pub fn element(&self) -> Kind {
        self.element
    }

    /// Rows of A and C.
    pub fn m(&self) -> usize {
        self.m
    }

    /// Rows of B, columns of C.
    pub fn n(&self) -> usize {
        self.n
    }

    /// Columns of A and B.
    pub fn k(&self) -> usize {
        self.k
    }

    /// Elements from one row of A to the next.
    pub fn lda(&self) -> usize {
        self.lda
    }

    /// Elements from one row of B to the next.
    pub fn ldb(&self) -> usize {
        self.ldb
    }

    /// Elements from one row of C to the next.
    pub fn ldc(&self) -> usize {
        self.ldc
    }

    /// What is to be done.
    pub fn work(&self) -> Work {
        if self.m == 0 || self.n == 0 {
            Work::Nothing
        } else if self.k == 0 {
            Work::Zeros
        } else {
            Work::Product
        }
    }

    /// Floating-point operations: one multiplication and one addition for each of M·N·K products.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Checks what the TMA unit asks of A and B, and the stores of C: base addresses and strides of A and
    /// B are multiples of 16 bytes, and C is aligned to its elements. Only a problem whose
    /// [`work`](Problem::work) is a product is restricted, since otherwise no kernel runs.
    ///
    /// # Errors
    /// When a leading dimension of A or B is not a multiple of [`leading_dimension_unit`] or too large for
    /// a tensor map, or an address is misaligned.
    pub fn check_tma(&self, addresses: Addresses) -> Result<()> {
        if self.work() != Work::Product {
            return Ok(());
        }
        let multiple = leading_dimension_unit(self.element);
        let limit = TMA_STRIDE_LIMIT / self.element.bytes();
        for (matrix, value) in [("A", self.lda), ("B", self.ldb)] {
            if !value.is_multiple_of(multiple) {
                return Err(Error::LeadingDimensionUnaligned { matrix, value, multiple });
            }
            if value >= limit {
                return Err(Error::LeadingDimensionTooLarge { matrix, value, limit });
            }
        }
        let element = self.element.bytes() as u64;
        for (matrix, address, alignment) in [
            ("A", addresses.a, TMA_ALIGNMENT as u64),
            ("B", addresses.b, TMA_ALIGNMENT as u64),
            ("C", addresses.c, element),
        ] {
            if !address.is_multiple_of(alignment) {
                return Err(Error::Misaligned { matrix, address, alignment });
            }
        }
        Ok(())
    }
}

/// What leading dimensions of A and B must be a multiple of for TMA, in elements.
pub const fn leading_dimension_unit(element: Kind) -> usize {
    TMA_ALIGNMENT / element.bytes()
}

/// The smallest leading dimension with which TMA can read rows of `cols` elements.
pub const fn padded_leading_dimension(element: Kind, cols: usize) -> usize {
    cols.next_multiple_of(leading_dimension_unit(element))
}

/// M, N and K of the product of an A and a B, each given by its rows and columns.
///
/// # Errors
/// When A and B differ in their number of columns, K.
pub fn sizes(a: (usize, usize), b: (usize, usize)) -> Result<(usize, usize, usize)> {
    if a.1 != b.1 {
        return Err(Error::InnerDimensions { a, b });
    }
    Ok((a.0, b.0, a.1))
}

/// Checks that C has the rows and columns of the product.
///
/// # Errors
/// When it does not.
pub fn check_output(c: (usize, usize), product: (usize, usize)) -> Result<()> {
    if c == product { Ok(()) } else { Err(Error::OutputShape { c, product }) }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    const ALIGNED: Addresses = Addresses { a: 0x1000, b: 0x2000, c: 0x3002 };

    fn problem(sizes: (usize, usize, usize), lda: usize, ldb: usize, ldc: usize) -> Result<Problem> {
        Problem::with_leading_dimensions(Kind::F16, sizes, lda, ldb, ldc)
    }

    #[test]
    fn views_give_the_sizes() {
        let (a, b, mut c) = ([f16::ZERO; 80], [f16::ZERO; 80], [f16::ZERO; 80]);
        let a = MatRef::new(&a, 3, 5, 8).unwrap();
        let b = MatRef::new(&b, 4, 5, 16).unwrap();
        let c = MatMut::new(&mut c, 3, 4, 7).unwrap();
        let problem = Problem::of(&a, &b, &c).unwrap();
        assert_eq!((problem.m(), problem.n(), problem.k()), (3, 4, 5));
        assert_eq!((problem.lda(), problem.ldb(), problem.ldc()), (8, 16, 7));
        assert_eq!((problem.element(), problem.flops(), problem.work()), (Kind::F16, 120.0, Work::Product));
    }

    #[test]
    fn mismatched_shapes_are_refused() {
        let (a, b, mut c) = ([f16::ZERO; 80], [f16::ZERO; 80], [f16::ZERO; 80]);
        let a = MatRef::new(&a, 3, 5, 5).unwrap();
        let transposed = MatRef::new(&b, 5, 4, 4).unwrap();
        let error = sizes((a.rows(), a.cols()), (transposed.rows(), transposed.cols())).unwrap_err();
        assert_eq!(error.to_string(), "A is 3×5 and B is 5×4: C = A·Bᵀ needs A of M×K and B of N×K with the same K");
        assert!(error.hint().unwrap().ends_with("4×5"));

        let b = MatRef::new(&b, 4, 5, 5).unwrap();
        let c = MatMut::new(&mut c, 4, 3, 3).unwrap();
        let error = Problem::of(&a, &b, &c).unwrap_err();
        assert_eq!(error.to_string(), "C is 4×3, but A·Bᵀ is 3×4");
    }

    #[test]
    fn the_hint_about_transposition_needs_shapes_that_fit_so() {
        assert!(sizes((3, 5), (6, 7)).unwrap_err().hint().is_none());
    }

    #[test]
    fn dimensions_are_bounded() {
        assert!(Problem::new(Kind::F16, DIMENSION_LIMIT, 1, 8).is_ok());
        for (name, m, n, k) in
            [("M", DIMENSION_LIMIT + 1, 1, 8), ("N", 1, DIMENSION_LIMIT + 1, 8), ("K", 1, 1, 1usize << 33)]
        {
            match Problem::new(Kind::F16, m, n, k).unwrap_err() {
                Error::DimensionTooLarge { dimension, .. } => assert_eq!(dimension, name),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn leading_dimensions_hold_a_row() {
        assert!(problem((4, 4, 8), 8, 8, 4).is_ok());
        for (name, lda, ldb, ldc) in [("A", 7, 8, 4), ("B", 8, 7, 4), ("C", 8, 8, 3)] {
            match problem((4, 4, 8), lda, ldb, ldc).unwrap_err() {
                Error::LeadingDimensionTooSmall { matrix, .. } => assert_eq!(matrix, name),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn tma_wants_strides_of_16_bytes() {
        assert!(problem((4, 3, 8), 8, 16, 3).unwrap().check_tma(ALIGNED).is_ok());
        for (name, lda, ldb) in [("A", 12, 16), ("B", 16, 12)] {
            let error = problem((4, 3, 8), lda, ldb, 3).unwrap().check_tma(ALIGNED).unwrap_err();
            match &error {
                Error::LeadingDimensionUnaligned { matrix, value: 12, multiple: 8 } => assert_eq!(*matrix, name),
                other => panic!("{other}"),
            }
            assert_eq!(error.hint().unwrap(), "pad the rows to 16 elements");
        }
    }

    #[test]
    fn tma_wants_strides_below_its_limit() {
        let limit = TMA_STRIDE_LIMIT / 2;
        assert!(problem((4, 3, 8), limit - 8, 8, 3).unwrap().check_tma(ALIGNED).is_ok());
        let error = problem((4, 3, 8), limit, 8, 3).unwrap().check_tma(ALIGNED).unwrap_err();
        assert!(matches!(error, Error::LeadingDimensionTooLarge { matrix: "A", .. }), "{error}");
    }

    #[test]
    fn addresses_are_aligned() {
        let problem = problem((4, 3, 8), 8, 8, 3).unwrap();
        for (name, addresses) in [
            ("A", Addresses { a: 0x1008, ..ALIGNED }),
            ("B", Addresses { b: 0x2002, ..ALIGNED }),
            ("C", Addresses { c: 0x3001, ..ALIGNED }),
        ] {
            match problem.check_tma(addresses).unwrap_err() {
                Error::Misaligned { matrix, .. } => assert_eq!(matrix, name),
                other => panic!("{other}"),
            }
        }
    }

    #[test]
    fn empty_problems_ask_for_no_product() {
        for (sizes, work) in [
            ((0, 4, 8), Work::Nothing),
            ((4, 0, 8), Work::Nothing),
            ((0, 0, 0), Work::Nothing),
            ((4, 4, 0), Work::Zeros),
        ] {
            let problem = problem(sizes, 9, 9, 5).unwrap();
            assert_eq!(problem.work(), work);
            // No kernel runs, so TMA's rules do not matter.
            assert!(problem.check_tma(Addresses { a: 1, b: 1, c: 1 }).is_ok());
        }
    }

    #[test]
    fn rows_are_padded_to_16_bytes() {
        for (cols, padded) in [(0, 0), (1, 8), (8, 8), (9, 16), (64, 64)] {
            assert_eq!(padded_leading_dimension(Kind::F16, cols), padded);
        }
    }
}
