//! Matrix product for NVIDIA Hopper GPUs.
//!
//! The product is C = A·Bᵀ: A is M×K, B is N×K and C is M×N, all row-major; f16 or bf16 in and out, with
//! products accumulated in f32.
//!
//! On a GPU (feature `cuda`), `cuda::Gemm` does it, on matrices in device memory or in host memory. On any
//! machine, [`cpu::multiply`] does it, and [`check::compare`] judges the result of either:
//!
//! ```
//! use half::f16;
//! use hopper_gemm::{Matrix, check, cpu, random};
//!
//! # fn main() -> hopper_gemm::Result<()> {
//! let a = random::normal::<f16>(100, 64, 0, random::A)?;
//! let b = random::normal::<f16>(10, 64, 0, random::B)?;
//! let mut c = Matrix::<f16>::zeros(100, 10)?;
//! cpu::multiply(a.view(), b.view(), &mut c.view_mut(), &mut |_rows_done| ())?;
//! let report = check::compare::<f16, f64>(a.view(), b.view(), c.view(), &mut |_| ())?;
//! assert!(report.passed());
//! # Ok(())
//! # }
//! ```
//!
//! [`problem`] has every rule that a product must keep, [`select`] chooses a row of the kernel catalogue,
//! with the cost [`model`] where it is free to, [`tune`] measures which row is fastest and remembers it, and [`npy`] reads and writes matrices.

pub mod bench;
pub mod check;
pub mod cpu;
#[cfg(feature = "cublas")]
pub mod cublas;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod element;
pub mod error;
mod files;
pub mod matrix;
pub mod model;
pub mod modules;
pub mod npy;
pub mod plot;
pub mod problem;
pub mod random;
pub mod search;
pub mod select;
pub mod simulator;
pub mod tensor_map;
pub mod tune;
pub mod units;

pub use element::Element;
pub use error::{Error, Result};
pub use matrix::{MatMut, MatRef, Matrix};
pub use problem::Problem;
