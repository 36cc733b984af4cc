//! The product on the CPU: an answer where there is no GPU, and the reference for answers that have one.
//!
//! Operands are converted to f32, which holds every f16 and bf16 exactly, and products are summed in f32 as
//! the kernels do. C is made a panel of rows at a time, so that a large one is never held in f32 whole.

use rayon::prelude::*;

use crate::element::Element;
use crate::error::Result;
use crate::matrix::{MatMut, MatRef, Matrix};
use crate::problem::{Problem, sizes};

/// Elements of a panel of A or C, at most, unless one row has more.
const PANEL_ELEMENTS: usize = 8 << 20;
/// Rows of a panel, at least, so that all cores have some.
const PANEL_ROWS: usize = 64;

/// A type that sums products: f32 as the kernels do, f64 to judge those that sum in f32.
pub trait Accumulator: sealed::Multiply + Copy + Default + Into<f64> + Send + Sync {}
impl Accumulator for f32 {}
impl Accumulator for f64 {}

mod sealed {
    use rayon::prelude::*;

    pub trait Multiply: Sized {
        /// Multiplications of a panel, at most: about a second on one core, so that progress shows.
        const PANEL_PRODUCTS: usize;

        /// `c` = `a`·`b`ᵀ for `a` of m×`k`, `b` of n×`k` and `c` of m×n, row-major without padding, none
        /// of them empty.
        fn multiply(a: &[f32], b: &[f32], c: &mut [Self], k: usize);
    }

    impl Multiply for f32 {
        const PANEL_PRODUCTS: usize = 1 << 36;

        fn multiply(a: &[f32], b: &[f32], c: &mut [f32], k: usize) {
            let (m, n) = (a.len() / k, b.len() / k);
            // Work for every core, in pieces that are worth packing B for.
            let rows = m.div_ceil(rayon::current_num_threads()).clamp(16, 256);
            c.par_chunks_mut(rows * n).zip(a.par_chunks(rows * k)).for_each(|(c, a)| {
                let m = a.len() / k;
                assert!(a.len() == m * k && b.len() == n * k && c.len() == m * n, "three matrices that fit each other");
                let (k_stride, n_stride) = (k as isize, n as isize);
                // SAFETY: by the assertion, the sizes and strides given stay within the three slices, and
                // `c` is borrowed for writing, so that it overlaps neither of the others.
                unsafe {
                    matrixmultiply::sgemm(
                        m,
                        k,
                        n,
                        1.0,
                        a.as_ptr(),
                        k_stride,
                        1,
                        // Bᵀ: one element of K to the next, one column of C to the next.
                        b.as_ptr(),
                        1,
                        k_stride,
                        0.0,
                        c.as_mut_ptr(),
                        n_stride,
                        1,
                    );
                }
            });
        }
    }

    impl Multiply for f64 {
        const PANEL_PRODUCTS: usize = 1 << 33;

        // Plain dot products that share no code with the f32 path, so that each can be held against the
        // other.
        fn multiply(a: &[f32], b: &[f32], c: &mut [f64], k: usize) {
            /// Rows of A that one row of B is multiplied with while it is in the cache.
            const ROWS: usize = 8;
            let n = b.len() / k;
            c.par_chunks_mut(ROWS * n).zip(a.par_chunks(ROWS * k)).for_each(|(c, a)| {
                for (j, b) in b.chunks_exact(k).enumerate() {
                    for (c, a) in c.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
                        c[j] = dot(a, b);
                    }
                }
            });
        }
    }

    fn dot(a: &[f32], b: &[f32]) -> f64 {
        let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
        let mut lanes = [0f64; 8];
        for (a, b) in a.iter().zip(b) {
            for i in 0..8 {
                lanes[i] += f64::from(a[i]) * f64::from(b[i]);
            }
        }
        let rest: f64 = a_rest.iter().zip(b_rest).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
        lanes.iter().sum::<f64>() + rest
    }
}

/// `c` = `a`·`b`ᵀ on all cores, with products summed in f32 and rounded to the element type once.
/// `progress` is told how many rows of C are done, from time to time.
///
/// # Errors
/// When the shapes do not fit, or memory for f32 copies (all of B, and a panel of A and C) cannot be had.
pub fn multiply<T: Element>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: &mut MatMut<'_, T>,
    progress: &mut dyn FnMut(usize),
) -> Result<()> {
    Problem::of(&a, &b, c)?;
    let (ld, n) = (c.ld(), c.cols());
    panels(a, b, |first, panel: MatRef<'_, f32>| {
        let rows = &mut c.data()[first * ld..];
        rows.par_chunks_mut(ld)
            .zip(panel.data().par_chunks(n))
            .for_each(|(to, from)| T::convert_from_f32(from, &mut to[..n]));
        progress(first + panel.rows());
    })
}

/// Calls `each(first, panel)` with consecutive panels of rows of A·Bᵀ, the first row of which is `first`;
/// not at all when the product has no elements. Products are summed in `R`, and not rounded further.
///
/// # Errors
/// When A and B differ in K, or memory cannot be had.
pub fn panels<T: Element, R: Accumulator>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    mut each: impl FnMut(usize, MatRef<'_, R>),
) -> Result<()> {
    let (m, n, k) = sizes((a.rows(), a.cols()), (b.rows(), b.cols()))?;
    if m == 0 || n == 0 {
        return Ok(());
    }
    let by_products = (R::PANEL_PRODUCTS / n / k.max(1)).max(PANEL_ROWS);
    let panel = (PANEL_ELEMENTS / n.max(k)).min(by_products).clamp(1, m);
    let b_f32 = to_f32(b)?;
    let mut c = Matrix::filled(panel, n, R::default())?;
    for first in (0..m).step_by(panel) {
        let rows = panel.min(m - first);
        let c = &mut c.data_mut()[..rows * n];
        if k > 0 {
            R::multiply(to_f32(a.row_range(first, rows))?.data(), b_f32.data(), c, k);
        }
        each(first, MatRef::new(c, rows, n, n)?);
    }
    Ok(())
}

/// A copy in f32, without padding between its rows.
fn to_f32<T: Element>(from: MatRef<'_, T>) -> Result<Matrix<f32>> {
    let mut to = Matrix::filled(from.rows(), from.cols(), 0f32)?;
    let cols = from.cols();
    if cols > 0 {
        let rows = to.data_mut().par_chunks_mut(cols).enumerate();
        rows.for_each(|(i, row)| T::convert_to_f32(from.row(i), row));
    }
    Ok(to)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::random;

    /// The definition, one element at a time.
    fn definition<T: Element>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Vec<f64> {
        let element = |i: usize, j: usize| -> f64 {
            a.row(i).iter().zip(b.row(j)).map(|(a, b)| f64::from(a.to_f32()) * f64::from(b.to_f32())).sum()
        };
        (0..a.rows()).flat_map(|i| (0..b.rows()).map(move |j| element(i, j))).collect()
    }

    fn whole<T: Element, R: Accumulator>(a: MatRef<'_, T>, b: MatRef<'_, T>) -> Vec<R> {
        let mut c = Vec::new();
        panels(a, b, |first, panel: MatRef<'_, R>| {
            assert_eq!(first * b.rows(), c.len());
            c.extend_from_slice(panel.data());
        })
        .unwrap();
        c
    }

    fn both_agree_with_the_definition<T: Element>() {
        for (m, n, k) in [(1, 1, 1), (3, 5, 7), (17, 9, 8), (33, 65, 129)] {
            let a = random::normal::<T>(m, k, 1, random::A).unwrap();
            let b = random::normal::<T>(n, k, 1, random::B).unwrap();
            let wanted = definition(a.view(), b.view());
            for (got, wanted) in whole::<T, f64>(a.view(), b.view()).iter().zip(&wanted) {
                assert!((got - wanted).abs() <= 1e-12 * k as f64, "{m}×{n}×{k}: {got} {wanted}");
            }
            for (got, wanted) in whole::<T, f32>(a.view(), b.view()).iter().zip(&wanted) {
                assert!((f64::from(*got) - wanted).abs() <= 1e-6 * k as f64, "{m}×{n}×{k}: {got} {wanted}");
            }
        }
    }

    #[test]
    fn agree_with_the_definition() {
        both_agree_with_the_definition::<f16>();
        both_agree_with_the_definition::<bf16>();
    }

    #[test]
    fn sums_in_f32() {
        // 4096 ones: an f16 sum would stop at 2048.
        let ones = Matrix::filled(1, 4096, f16::ONE).unwrap();
        let mut c = Matrix::<f16>::zeros(1, 1).unwrap();
        multiply(ones.view(), ones.view(), &mut c.view_mut(), &mut |_| ()).unwrap();
        assert_eq!(c.data(), [f16::from_f32(4096.0)]);
    }

    #[test]
    fn writes_only_its_own_columns() {
        let a = Matrix::filled(3, 4, f16::ONE).unwrap();
        let b = Matrix::filled(2, 4, f16::ONE).unwrap();
        let mut c = vec![f16::NAN; 3 * 5];
        multiply(a.view(), b.view(), &mut MatMut::new(&mut c, 3, 2, 5).unwrap(), &mut |_| ()).unwrap();
        for (i, value) in c.iter().enumerate() {
            if i % 5 < 2 {
                assert_eq!(value.to_f32(), 4.0);
            } else {
                assert!(value.is_nan());
            }
        }
    }

    #[test]
    fn reads_only_its_own_columns() {
        let mut padded = vec![f16::NAN; 2 * 8];
        for i in [0, 1, 2, 8, 9, 10] {
            padded[i] = f16::ONE;
        }
        let a = MatRef::new(&padded, 2, 3, 8).unwrap();
        assert_eq!(whole::<f16, f32>(a, a), [3.0; 4]);
        assert_eq!(whole::<f16, f64>(a, a), [3.0; 4]);
    }

    #[test]
    fn empty_products() {
        let empty = Matrix::<f16>::zeros(0, 4).unwrap();
        let b = Matrix::filled(2, 4, f16::ONE).unwrap();
        let mut c = Matrix::<f16>::zeros(0, 2).unwrap();
        multiply(empty.view(), b.view(), &mut c.view_mut(), &mut |_| ()).unwrap();

        let (a, b) = (Matrix::<f16>::zeros(3, 0).unwrap(), Matrix::<f16>::zeros(2, 0).unwrap());
        let mut c = Matrix::filled(3, 2, f16::NAN).unwrap();
        multiply(a.view(), b.view(), &mut c.view_mut(), &mut |_| ()).unwrap();
        assert_eq!(c.data(), [f16::ZERO; 6]);
    }

    #[test]
    fn several_panels_make_the_whole() {
        // K is long enough for a panel of four rows.
        let k = PANEL_ELEMENTS / 4;
        let mut a = Matrix::<bf16>::zeros(6, k).unwrap();
        for i in 0..6 {
            a.data_mut()[i * k + k - 1] = bf16::from_f32(i as f32);
        }
        let b = Matrix::filled(1, k, bf16::ONE).unwrap();
        let mut c = Matrix::<bf16>::zeros(6, 1).unwrap();
        let mut done = Vec::new();
        multiply(a.view(), b.view(), &mut c.view_mut(), &mut |rows| done.push(rows)).unwrap();
        assert_eq!(c.data(), [0, 1, 2, 3, 4, 5].map(|i| bf16::from_f32(i as f32)));
        assert_eq!(done, [4, 6]);
    }

    #[test]
    fn special_values_reach_only_their_row_and_column() {
        let mut a = Matrix::filled(4, 16, f16::ONE).unwrap();
        a.data_mut()[16 + 3] = f16::NAN;
        a.data_mut()[32 + 3] = f16::INFINITY;
        let b = Matrix::filled(3, 16, f16::ONE).unwrap();
        let c = whole::<f16, f32>(a.view(), b.view());
        for (i, row) in c.chunks(3).enumerate() {
            match i {
                1 => assert!(row.iter().all(|value| value.is_nan())),
                2 => assert_eq!(row, [f32::INFINITY; 3]),
                _ => assert_eq!(row, [16.0; 3]),
            }
        }
    }
}
