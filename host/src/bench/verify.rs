//! Whether an arm computes the product, before it is timed.

use super::arm::Arm;
use super::inputs::Inputs;
use super::results::Check;
use crate::check::{self, Report};
use crate::cuda::Stream;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::matrix::Matrix;

/// Floating-point operations that the CPU is asked for at most; beyond that it computes some rows only.
const CPU_FLOPS: f64 = 4e10;
/// The fewest rows it computes.
const ROWS: usize = 16;
/// How long one product may take before it counts as one that hangs.
const LIMIT: std::time::Duration = std::time::Duration::from_secs(60);

/// Holds the first result against the CPU, and those that follow against the first.
pub struct Verifier<T> {
    first: Option<First<T>>,
}

/// The first result that was right.
struct First<T> {
    output: Matrix<T>,
    /// ‖C − R‖ / ‖R‖ that a right result may have, with R the exact product.
    bound: f64,
}

impl<T: Element> Default for Verifier<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Element> Verifier<T> {
    /// Has seen nothing yet.
    pub fn new() -> Self {
        Verifier { first: None }
    }

    /// Runs `arm` once on the first set of inputs and checks what it made.
    ///
    /// # Errors
    /// When memory cannot be had, or when the arm hangs. An arm that fails is not an error but a failed check.
    pub fn check<'a>(&mut self, arm: &mut (dyn Arm + 'a), stream: &Stream, inputs: &Inputs<T>) -> Result<Check> {
        let problem = inputs.problem();
        let mut output = Matrix::zeros(problem.m(), problem.n())?;
        let mut launch = || -> Result<()> {
            // What the arm leaves out stays NaN.
            inputs.c_mut(0).fill(stream, T::from_f32(f32::NAN))?;
            arm.launch(stream, 0)?;
            stream.synchronize_within(LIMIT)?;
            inputs.c(0).download(stream, &mut output.view_mut())
        };
        match launch() {
            // The device is lost, and with it all that was to be measured.
            Err(error @ Error::Hang { .. }) => return Err(error),
            Err(error) => return Ok(Check::Failed { reason: error.to_string() }),
            Ok(()) => {}
        }
        if !arm.multiplies() {
            return Ok(Check::NotAProduct);
        }
        let Some(first) = &self.first else {
            return Ok(match against_cpu(inputs, &output, arm.rounds_once())? {
                Ok(report) => {
                    self.first = Some(First { output, bound: report.relative_error_bound() });
                    Check::Passed { difference: None }
                }
                Err(reason) => Check::Failed { reason },
            });
        };
        // Each may be off by the bound, in opposite directions.
        let (difference, allowed) = (difference(&first.output, &output), 2.0 * first.bound);
        // False for NaN.
        let close = difference <= allowed;
        Ok(if close {
            Check::Passed { difference: Some(difference) }
        } else {
            Check::Failed {
                reason: format!("it differs from the first arm by {difference:e} of its norm; {allowed:e} is allowed"),
            }
        })
    }
}

/// Compares rows of `output` with the CPU's: all of them, or panels at the top, in the middle and at the
/// end. The inner result is in words what is wrong.
fn against_cpu<T: Element>(
    inputs: &Inputs<T>,
    output: &Matrix<T>,
    rounds_once: bool,
) -> Result<Result<Report, String>> {
    let problem = inputs.problem();
    let m = problem.m();
    let rows = ((CPU_FLOPS / problem.flops() * m as f64) as usize).max(ROWS).min(m);
    let panels = if rows == m { vec![(0, m)] } else { panels(m, rows) };
    let mut last = None;
    for (first, count) in panels {
        let (a, b) = (inputs.host_a.view().row_range(first, count), inputs.host_b.view());
        let report = check::compare::<T, f32>(a, b, output.view().row_range(first, count), &mut |_| ())?;
        let close_enough = report.first_nan.is_none() && report.relative_error() <= report.relative_error_bound();
        if !(if rounds_once { report.passed() } else { close_enough }) {
            return Ok(Err(describe(&report, first)));
        }
        last = Some(report);
    }
    Ok(last.ok_or_else(|| String::from("there was nothing to compare")))
}

/// A third of `rows` rows each at the top, in the middle and at the end of `m` rows.
fn panels(m: usize, rows: usize) -> Vec<(usize, usize)> {
    let count = (rows / 3).max(1);
    vec![(0, count), (m / 2, count.min(m - m / 2)), (m - count, count)]
}

fn describe(report: &Report, first_row: usize) -> String {
    if let Some(place) = report.first_nan {
        return format!("C[{}, {}] is NaN", first_row + place.row, place.column);
    }
    let place = report.worst.map_or(String::new(), |place| {
        let (row, column) = (first_row + place.row, place.column);
        format!("; C[{row}, {column}] is {}, should be {}", place.output, place.reference)
    });
    format!(
        "its error is {:e} of the norm, {:e} is allowed{place}",
        report.relative_error(),
        report.relative_error_bound()
    )
}

/// ‖other − first‖ / ‖first‖; NaN when either holds a NaN.
fn difference<T: Element>(first: &Matrix<T>, other: &Matrix<T>) -> f64 {
    use rayon::prelude::*;
    const CHUNK: usize = 1 << 16;
    let (error, norm) = first
        .data()
        .par_chunks(CHUNK)
        .zip(other.data().par_chunks(CHUNK))
        .map(|(first, other)| {
            first.iter().zip(other).fold((0f64, 0f64), |(error, norm), (first, other)| {
                let (first, other) = (f64::from(first.to_f32()), f64::from(other.to_f32()));
                // Equal infinities are equal.
                let apart = if first == other { 0.0 } else { other - first };
                (error + apart * apart, norm + if first.is_finite() { first * first } else { 0.0 })
            })
        })
        .reduce(|| (0.0, 0.0), |one, other| (one.0 + other.0, one.1 + other.1));
    if error == 0.0 { 0.0 } else { (error / norm).sqrt() }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn panels_lie_within_the_matrix() {
        for (m, rows) in [(100, 48), (17, 16), (3, 2), (2, 1)] {
            for (first, count) in panels(m, rows) {
                assert!(count > 0 && first + count <= m, "{m} {rows}: {first}+{count}");
            }
        }
    }

    #[test]
    fn differences_are_relative_and_see_nan() {
        let ones = Matrix::filled(3, 4, f16::ONE).unwrap();
        let twos = Matrix::filled(3, 4, f16::from_f32(2.0)).unwrap();
        assert_eq!(difference(&ones, &ones), 0.0);
        assert!((difference(&ones, &twos) - 1.0).abs() < 1e-12);
        let mut broken = ones.clone();
        broken.data_mut()[7] = f16::NAN;
        assert!(difference(&ones, &broken).is_nan());
    }
}
