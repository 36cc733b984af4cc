//! Comparing a product with a reference, within a bound that follows from how it is computed.
//!
//! # The bound
//!
//! With r the exact element of A·Bᵀ, two things part the output from it:
//!
//! - **Rounding to the element type**, once: at most u·|x| for the sum x that is rounded, with u the unit
//!   roundoff of the type (2⁻¹¹ for f16, 2⁻⁸ for bf16), or half the spacing of its subnormal numbers.
//! - **Summing in f32.** A tensor core adds 16 products to the accumulator in one step. It truncates 17
//!   terms 25 bits below the largest of them, and the sum to f32: at most 2⁻²² of the largest running sum a step.
//!   The ⌈K/16⌉ steps give α = ⌈K/16⌉·2⁻²², relative to the running sums. A CPU that rounds to nearest
//!   after each product stays well below that.
//!
//! Running sums are not known, but for products whose signs are not sorted along K they stay within λ = 8
//! standard deviations of a random walk with the same norms, or near r: |r| + λ·s with
//! s = ‖aᵢ‖·‖bⱼ‖/√K. For K ≤ 256 this holds whatever the order, since no running sum is larger than
//! (|r| + ‖aᵢ‖·‖bⱼ‖)/2. So an element may be off by
//!
//! > δ = α·(|r| + λ·s), and u·(|r| + δ) for the rounding.
//!
//! Two figures are held against it: the Frobenius norm of all errors, and the largest single error in
//! units of the last place. The unit is that of the larger of |r| and s: where products cancel, an element
//! much smaller than its terms cannot have a smaller error than they do.

use rayon::prelude::*;

use crate::cpu::{self, Accumulator};
use crate::element::Element;
use crate::error::Result;
use crate::matrix::MatRef;

/// How many standard deviations of a random walk running sums stay within.
const LAMBDA: f64 = 8.0;
/// Products that a tensor core adds to the accumulator in one step (f16 and bf16).
const PRODUCTS_PER_STEP: usize = 16;

/// The largest error of one summation of K products in f32, relative to the running sums.
fn summation_error(k: usize) -> f64 {
    k.div_ceil(PRODUCTS_PER_STEP) as f64 * 2f64.powi(-22)
}

/// The largest error that an element of a correct product can have, in units of the last place of `T` (at
/// the scale explained [above](self)): one for rounding, and what K products summed in f32 add.
pub fn ulp_bound<T: Element>(k: usize) -> f64 {
    1.0 + summation_error(k) * (1.0 + LAMBDA) * 2f64.powi(T::PRECISION)
}

/// One element that is compared.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Place {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub column: usize,
    /// What the output has there.
    pub output: f64,
    /// What the reference has there.
    pub reference: f64,
}

/// What a comparison found. [`Report::passed`] is the verdict.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Report {
    /// Elements that were compared.
    pub elements: usize,
    /// ‖output − reference‖, over the elements that are finite in both.
    pub error_norm: f64,
    /// ‖reference‖, over the same elements.
    pub reference_norm: f64,
    /// What `error_norm` may be.
    pub error_norm_bound: f64,
    /// The largest error of an element, in units of the last place; infinite when one is infinite and the
    /// other is not.
    pub max_ulp: f64,
    /// What `max_ulp` may be.
    pub max_ulp_bound: f64,
    /// Where the largest error is, when there is any.
    pub worst: Option<Place>,
    /// Elements that are NaN in the output.
    pub nan: usize,
    /// Elements that are NaN in the reference.
    pub reference_nan: usize,
    /// The first element that is NaN in either.
    pub first_nan: Option<Place>,
    /// Elements that are the same infinity in both: overflow, or infinities in A or B.
    pub infinite: usize,
}

impl Report {
    /// Whether the output is a correct product: both errors within their bounds, and nothing is NaN. A NaN
    /// never passes, even where A or B hold one and the reference agrees.
    pub fn passed(&self) -> bool {
        self.error_norm <= self.error_norm_bound
            && self.max_ulp <= self.max_ulp_bound
            && self.nan == 0
            && self.reference_nan == 0
    }

    /// ‖output − reference‖ / ‖reference‖; 0 when both are 0.
    pub fn relative_error(&self) -> f64 {
        relative(self.error_norm, self.reference_norm)
    }

    /// What [`Report::relative_error`] may be.
    pub fn relative_error_bound(&self) -> f64 {
        relative(self.error_norm_bound, self.reference_norm)
    }
}

fn relative(error: f64, reference: f64) -> f64 {
    if error == 0.0 { 0.0 } else { error / reference }
}

/// Compares `c` with the product of `a` and `b` summed in `R` on the CPU: f32 is quick, f64 is slower and
/// shares no code with [`cpu::multiply`]. `progress` is told how many rows are done, from time to time.
///
/// # Errors
/// When the shapes do not fit, or memory cannot be had.
pub fn compare<T: Element, R: Accumulator>(
    a: MatRef<'_, T>,
    b: MatRef<'_, T>,
    c: MatRef<'_, T>,
    progress: &mut dyn FnMut(usize),
) -> Result<Report> {
    let mut comparison = Comparison::new(a, b, c)?;
    cpu::panels(a, b, |first, panel: MatRef<'_, R>| {
        comparison.add(first, panel);
        progress(first + panel.rows());
    })?;
    Ok(comparison.report())
}

/// A comparison in progress: the reference comes a panel of rows at a time.
pub struct Comparison<'a, T> {
    c: MatRef<'a, T>,
    k: usize,
    a_norms: Vec<f64>,
    b_norms: Vec<f64>,
    sums: Sums,
}

impl<'a, T: Element> Comparison<'a, T> {
    /// A comparison of `c` with references for `a`·`b`ᵀ.
    ///
    /// # Errors
    /// When the shapes do not fit.
    pub fn new(a: MatRef<'_, T>, b: MatRef<'_, T>, c: MatRef<'a, T>) -> Result<Self> {
        let (m, n, k) = crate::problem::sizes((a.rows(), a.cols()), (b.rows(), b.cols()))?;
        crate::problem::check_output((c.rows(), c.cols()), (m, n))?;
        Ok(Self { c, k, a_norms: row_norms(a), b_norms: row_norms(b), sums: Sums::default() })
    }

    /// Compares the rows of C from row `first` on with `reference`, a panel of as many columns as C.
    ///
    /// # Panics
    /// When the panel lies outside C.
    pub fn add<R: Accumulator>(&mut self, first: usize, reference: MatRef<'_, R>) {
        let output = self.c.row_range(first, reference.rows());
        assert_eq!(reference.cols(), output.cols(), "a reference of other columns than C");
        let alpha = summation_error(self.k);
        let per_row = |i: usize| {
            let mut sums = Sums::default();
            let scale = self.a_norms[first + i] / (self.k.max(1) as f64).sqrt();
            let row = output.row(i).iter().zip(reference.row(i)).zip(&self.b_norms).enumerate();
            for (column, ((&output, &reference), b_norm)) in row {
                let place =
                    Place { row: first + i, column, output: f64::from(output.to_f32()), reference: reference.into() };
                sums.add::<T>(place, scale * b_norm, alpha);
            }
            sums
        };
        let sums = (0..reference.rows()).into_par_iter().map(per_row).reduce(Sums::default, Sums::merge);
        self.sums = std::mem::take(&mut self.sums).merge(sums);
    }

    /// What was found in all that was compared.
    pub fn report(&self) -> Report {
        let sums = &self.sums;
        Report {
            elements: sums.elements,
            error_norm: sums.error.sqrt(),
            reference_norm: sums.reference.sqrt(),
            error_norm_bound: sums.bound.sqrt(),
            max_ulp: sums.max_ulp,
            max_ulp_bound: ulp_bound::<T>(self.k),
            worst: sums.worst,
            nan: sums.nan,
            reference_nan: sums.reference_nan,
            first_nan: sums.first_nan,
            infinite: sums.infinite,
        }
    }
}

/// Sums over some of the elements.
#[derive(Clone, Default)]
struct Sums {
    elements: usize,
    /// Sums of squares.
    error: f64,
    reference: f64,
    bound: f64,
    max_ulp: f64,
    worst: Option<Place>,
    nan: usize,
    reference_nan: usize,
    first_nan: Option<Place>,
    infinite: usize,
}

impl Sums {
    /// Adds one element. `scale` is s, `alpha` is α of the [bound](self).
    #[inline]
    fn add<T: Element>(&mut self, place: Place, scale: f64, alpha: f64) {
        self.elements += 1;
        let Place { output, reference, .. } = place;
        if output.is_nan() || reference.is_nan() {
            self.nan += usize::from(output.is_nan());
            self.reference_nan += usize::from(reference.is_nan());
            self.first_nan = self.first_nan.or(Some(place));
            return;
        }
        let summation = alpha * (reference.abs() + LAMBDA * scale);
        if output.is_infinite() {
            // Overflow is right where the sum can have reached what rounds to infinity.
            let reaches = reference * output.signum() + summation >= T::overflow_threshold();
            if reaches {
                self.infinite += 1;
            } else {
                self.found(f64::INFINITY, place);
            }
            return;
        }
        if reference.is_infinite() {
            self.found(f64::INFINITY, place);
            return;
        }
        let error = (output - reference).abs();
        let rounding = (T::unit_roundoff() * (reference.abs() + summation)).max(T::ulp(0.0) / 2.0);
        self.error += error * error;
        self.reference += reference * reference;
        self.bound += (summation + rounding).powi(2);
        self.found(error / T::ulp(reference.abs().max(scale)), place);
    }

    #[inline]
    fn found(&mut self, ulp: f64, place: Place) {
        if ulp > self.max_ulp {
            self.max_ulp = ulp;
            self.worst = Some(place);
        }
    }

    /// Both together; `other` comes after.
    fn merge(self, other: Self) -> Self {
        let worse = other.max_ulp > self.max_ulp;
        Self {
            elements: self.elements + other.elements,
            error: self.error + other.error,
            reference: self.reference + other.reference,
            bound: self.bound + other.bound,
            max_ulp: self.max_ulp.max(other.max_ulp),
            worst: if worse { other.worst } else { self.worst },
            nan: self.nan + other.nan,
            reference_nan: self.reference_nan + other.reference_nan,
            first_nan: self.first_nan.or(other.first_nan),
            infinite: self.infinite + other.infinite,
        }
    }
}

/// Euclidean norm of each row.
fn row_norms<T: Element>(matrix: MatRef<'_, T>) -> Vec<f64> {
    let norm = |i| {
        let squares = matrix.row(i).iter().map(|value| f64::from(value.to_f32()).powi(2));
        squares.sum::<f64>().sqrt()
    };
    (0..matrix.rows()).into_par_iter().map(norm).collect()
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;
    use crate::matrix::Matrix;
    use crate::random;

    /// A, B and their product by the CPU.
    fn product<T: Element>(m: usize, n: usize, k: usize) -> [Matrix<T>; 3] {
        let a = random::normal::<T>(m, k, 1, random::A).unwrap();
        let b = random::normal::<T>(n, k, 1, random::B).unwrap();
        let mut c = Matrix::zeros(m, n).unwrap();
        cpu::multiply(a.view(), b.view(), &mut c.view_mut(), &mut |_| ()).unwrap();
        [a, b, c]
    }

    fn against<T: Element, R: Accumulator>([a, b, c]: &[Matrix<T>; 3]) -> Report {
        compare::<T, R>(a.view(), b.view(), c.view(), &mut |_| ()).unwrap()
    }

    fn corrupted<T: Element>(correct: &[Matrix<T>; 3], at: usize, value: T) -> Report {
        let [a, b, mut c] = correct.clone();
        c.data_mut()[at] = value;
        against::<T, f32>(&[a, b, c])
    }

    fn correct_products_pass<T: Element>() {
        for (m, n, k) in [(1, 1, 1), (7, 5, 3), (40, 30, 16), (64, 64, 1000), (3, 3, 20000)] {
            let matrices = product::<T>(m, n, k);
            for report in [against::<T, f32>(&matrices), against::<T, f64>(&matrices)] {
                assert!(report.passed(), "{m}×{n}×{k}: {report:?}");
                assert_eq!(report.elements, m * n);
                assert!(report.max_ulp > 0.0 || m * n * k == 1, "rounding shows: {report:?}");
            }
        }
    }

    #[test]
    fn a_correct_product_passes() {
        correct_products_pass::<f16>();
        correct_products_pass::<bf16>();
    }

    #[test]
    fn the_bound_is_near_what_rounding_alone_gives() {
        let report = against::<f16, f64>(&product::<f16>(64, 64, 1024));
        assert!(report.relative_error_bound() < 1e-3, "{report:?}");
        assert!(report.relative_error() > 0.2 * report.relative_error_bound(), "{report:?}");
        assert!(report.max_ulp > 0.3 * report.max_ulp_bound, "{report:?}");
        assert!((ulp_bound::<f16>(8192) - 3.25).abs() < 1e-9);
        assert!((ulp_bound::<bf16>(8192) - 1.28125).abs() < 1e-9);
    }

    #[test]
    fn one_wrong_element_fails() {
        fn check<T: Element>() {
            let correct = product::<T>(50, 40, 64);
            for at in [0, 41, 1999] {
                let right = f64::from(correct[2].data()[at].to_f32());
                // Three units of the last place, at the scale of these elements: √64.
                let report = corrupted(&correct, at, T::from_f64(right + 3.0 * T::ulp(8f64.max(right))));
                assert!(!report.passed());
                let worst = report.worst.unwrap();
                assert_eq!((worst.row, worst.column), (at / 40, at % 40));
            }
        }
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn a_small_error_of_every_element_fails() {
        // Each is off by less than the largest error allowed for one, but so are all of them.
        let [a, b, mut c] = product::<f16>(64, 64, 64);
        for value in c.data_mut() {
            let bits = value.to_bits();
            *value = f16::from_bits(bits + 1);
        }
        let report = against::<f16, f64>(&[a, b, c]);
        assert!(report.error_norm > report.error_norm_bound, "{report:?}");
        assert!(!report.passed());
    }

    #[test]
    fn a_missing_slice_of_k_fails() {
        let [a, b, c] = product::<f16>(32, 32, 512);
        let [mut a_short, ..] = [a.clone()];
        for row in a_short.data_mut().chunks_mut(512) {
            row[496..].fill(f16::ZERO);
        }
        assert!(!against::<f16, f32>(&[a_short, b, c]).passed());
    }

    #[test]
    fn transposed_and_shifted_outputs_fail() {
        let [a, b, c] = product::<f16>(16, 16, 32);
        let mut transposed = c.clone();
        let mut shifted = c.clone();
        for i in 0..16 {
            for j in 0..16 {
                transposed.data_mut()[j * 16 + i] = c.data()[i * 16 + j];
            }
        }
        shifted.data_mut().rotate_right(1);
        assert!(!against::<f16, f32>(&[a.clone(), b.clone(), transposed]).passed());
        assert!(!against::<f16, f32>(&[a, b, shifted]).passed());
    }

    #[test]
    fn nan_never_passes() {
        let correct = product::<f16>(8, 8, 8);
        let report = corrupted(&correct, 9, f16::NAN);
        assert_eq!((report.nan, report.reference_nan, report.passed()), (1, 0, false));
        let place = report.first_nan.unwrap();
        assert_eq!((place.row, place.column), (1, 1));

        let all = Matrix::filled(8, 8, f16::NAN).unwrap();
        let [a, b, _] = correct;
        assert!(!against::<f16, f32>(&[a.clone(), b.clone(), all.clone()]).passed());

        // Not even where it is right: A is NaN too.
        let report = against::<f16, f32>(&[all.clone(), b, all]);
        assert_eq!((report.nan, report.reference_nan, report.passed()), (64, 64, false));
    }

    #[test]
    fn infinity_passes_only_where_it_belongs() {
        let correct = product::<f16>(8, 8, 8);
        let report = corrupted(&correct, 9, f16::INFINITY);
        assert_eq!((report.max_ulp, report.passed()), (f64::INFINITY, false));

        // 16·64² is 65536, which rounds to infinity in f16.
        let large = Matrix::filled(2, 16, f16::from_f32(64.0)).unwrap();
        let overflow = Matrix::filled(2, 2, f16::INFINITY).unwrap();
        let report = against::<f16, f32>(&[large.clone(), large.clone(), overflow]);
        assert_eq!((report.infinite, report.passed()), (4, true));
        let negative = Matrix::filled(2, 2, f16::NEG_INFINITY).unwrap();
        assert!(!against::<f16, f32>(&[large.clone(), large, negative]).passed());

        // Infinity in A gives infinity in a row of C, and a finite number there is wrong.
        let mut a = Matrix::filled(2, 4, f16::ONE).unwrap();
        a.data_mut()[0] = f16::INFINITY;
        let b = Matrix::filled(2, 4, f16::ONE).unwrap();
        let four = f16::from_f32(4.0);
        let right = Matrix::from_vec(vec![f16::INFINITY, f16::INFINITY, four, four], 2, 2).unwrap();
        assert!(against::<f16, f32>(&[a.clone(), b.clone(), right]).passed());
        assert!(!against::<f16, f32>(&[a, b, Matrix::filled(2, 2, four).unwrap()]).passed());
    }

    #[test]
    fn products_that_cancel_pass() {
        // Each element is 1024 − 1024 + a little: its error is that of its terms.
        let (m, k) = (4, 64);
        let mut a = Matrix::<f16>::filled(m, k, f16::from_f32(0.001)).unwrap();
        let b = Matrix::filled(m, k, f16::ONE).unwrap();
        for row in a.data_mut().chunks_mut(k) {
            (row[0], row[k - 1]) = (f16::from_f32(1024.0), f16::from_f32(-1024.0));
        }
        let mut c = Matrix::zeros(m, m).unwrap();
        cpu::multiply(a.view(), b.view(), &mut c.view_mut(), &mut |_| ()).unwrap();
        assert!(against::<f16, f64>(&[a, b, c]).passed());
    }

    #[test]
    fn subnormal_results_pass() {
        let a = Matrix::filled(2, 3, f16::from_f32(0.0003)).unwrap();
        let b = Matrix::filled(2, 3, f16::from_f32(0.0007)).unwrap();
        let mut c = Matrix::zeros(2, 2).unwrap();
        cpu::multiply(a.view(), b.view(), &mut c.view_mut(), &mut |_| ()).unwrap();
        assert!(against::<f16, f64>(&[a, b, c]).passed());
    }

    #[test]
    fn zeros_must_be_zeros() {
        let (a, b) = (Matrix::<f16>::zeros(2, 0).unwrap(), Matrix::<f16>::zeros(3, 0).unwrap());
        let report = against::<f16, f32>(&[a.clone(), b.clone(), Matrix::zeros(2, 3).unwrap()]);
        assert_eq!((report.relative_error(), report.passed()), (0.0, true));
        assert!(!against::<f16, f32>(&[a, b, Matrix::filled(2, 3, f16::ONE).unwrap()]).passed());
    }

    #[test]
    fn shapes_must_fit() {
        let [a, b, _] = product::<f16>(4, 3, 8);
        let c = Matrix::<f16>::zeros(3, 4).unwrap();
        assert!(Comparison::new(a.view(), b.view(), c.view()).is_err());
    }
}
