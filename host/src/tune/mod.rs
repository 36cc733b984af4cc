//! Tuning: measuring which configuration is fastest for a shape, and remembering it.
//!
//! [`race()`] finds the fastest of many candidates with early stopping, on whatever runs them; `tune`, with the
//! feature `cuda`, runs them on a device, rested and in shuffled order. [`Cache`] keeps the answers in a file for
//! the device, the driver, the kernels and the [`ShapeClass`] that they hold for, and [`choose`] uses them:
//!
//! ```
//! use hopper_gemm::Problem;
//! use hopper_gemm::select::Request;
//! use hopper_gemm::tune::{self, Cache, Origin, Target};
//! use kernels::catalogue::Element;
//!
//! # fn main() -> hopper_gemm::Result<()> {
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("tune.json");
//! let (cache, _notice) = Cache::read(&path)?;
//! let target = Target::new("NVIDIA H200", "580.95.05");
//! let problem = Problem::new(Element::F16, 4096, 4096, 14336)?;
//! let choice = tune::choose(&cache, &target, &problem, &Request::default())?;
//! assert_eq!(choice.origin, Origin::Default); // nothing was tuned yet
//! # Ok(())
//! # }
//! ```

mod cache;
mod choice;
mod class;
mod race;
#[cfg(feature = "cuda")]
mod run;
mod space;

pub use cache::{Answer, Cache, FORMAT, Notice, Target};
pub use choice::{Choice, Origin, choose};
pub use class::ShapeClass;
pub use race::{Candidate, End, Outcome, Rules, Standing, Track, race};
#[cfg(feature = "cuda")]
pub use run::{Options, Tuned, tune};
pub use space::{Space, answers};
