//! Reproducible random matrices.

use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand_distr::{Distribution, StandardNormal};
use rayon::prelude::*;

use crate::element::Element;
use crate::error::Result;
use crate::matrix::Matrix;

/// The stream of random numbers for matrix A.
pub const A: u64 = 0;
/// The stream of random numbers for matrix B.
pub const B: u64 = 1;

/// Elements that come from one state of the generator.
const BLOCK: usize = 1 << 14;

/// A matrix of independent standard normal values, rounded to the element type. It depends on nothing but
/// the shape, the seed and `stream`, which tells apart the matrices of one seed; not on the number of
/// cores.
///
/// # Errors
/// When the memory cannot be had.
pub fn normal<T: Element>(rows: usize, cols: usize, seed: u64, stream: u64) -> Result<Matrix<T>> {
    let mut matrix = Matrix::zeros(rows, cols)?;
    matrix.data_mut().par_chunks_mut(BLOCK).enumerate().for_each(|(block, elements)| {
        let mut generator = ChaCha8Rng::seed_from_u64(seed);
        generator.set_stream(stream << 48 | block as u64);
        for element in elements {
            let value: f32 = StandardNormal.sample(&mut generator);
            *element = T::from_f32(value);
        }
    });
    Ok(matrix)
}

#[cfg(test)]
mod tests {
    use half::{bf16, f16};

    use super::*;

    fn moments<T: Element>(matrix: &Matrix<T>) -> (f64, f64) {
        let count = matrix.data().len() as f64;
        let values = || matrix.data().iter().map(|value| f64::from(value.to_f32()));
        let mean = values().sum::<f64>() / count;
        (mean, values().map(|value| (value - mean).powi(2)).sum::<f64>() / count)
    }

    #[test]
    fn is_standard_normal() {
        let matrix = normal::<f16>(300, 200, 7, A).unwrap();
        let (mean, variance) = moments(&matrix);
        // Four standard errors of 60,000 samples.
        assert!(mean.abs() < 0.017, "{mean}");
        assert!((variance - 1.0).abs() < 0.024, "{variance}");
    }

    #[test]
    fn depends_on_seed_and_stream_alone() {
        let first = normal::<bf16>(130, 150, 1, A).unwrap();
        assert_eq!(first, normal::<bf16>(130, 150, 1, A).unwrap());
        assert_ne!(first, normal::<bf16>(130, 150, 1, B).unwrap());
        assert_ne!(first, normal::<bf16>(130, 150, 2, A).unwrap());
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(first, one_thread.install(|| normal::<bf16>(130, 150, 1, A).unwrap()));
    }

    #[test]
    fn blocks_differ() {
        let matrix = normal::<f16>(2, BLOCK, 1, A).unwrap();
        assert_ne!(matrix.view().row(0), matrix.view().row(1));
    }

    #[test]
    fn the_numbers_of_a_seed_stay_the_same() {
        let matrix = normal::<f16>(1, 4, 1, A).unwrap();
        let bits: Vec<u16> = matrix.data().iter().map(|value| value.to_bits()).collect();
        assert_eq!(bits, [45956, 48549, 13652, 48258]);
    }
}
