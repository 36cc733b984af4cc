//! Matrix product for NVIDIA Hopper GPUs.
//!
//! The product is C = A·Bᵀ: A is M×K, B is N×K and C is M×N, all row-major; f16 or bf16 in and out, with
//! products accumulated in f32.

pub mod bench;
pub mod check;
pub mod cpu;
#[cfg(feature = "cublas")]
pub mod cublas;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod element;
pub mod error;
pub mod matrix;
pub mod modules;
pub mod npy;
pub mod problem;
pub mod random;
pub mod search;
pub mod select;
pub mod simulator;
pub mod tensor_map;
pub mod units;

pub use element::Element;
pub use error::{Error, Result};
pub use matrix::{MatMut, MatRef, Matrix};
pub use problem::Problem;
