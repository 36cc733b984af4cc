//! Measuring kernels beside each other and beside cuBLAS.
//!
//! Two regimes, because a chip that is bound by power gives two answers:
//!
//! - **rested**: a pause, then a burst of about ten milliseconds, every arm once a round, in an order that
//!   is shuffled each round. The order matters: an arm that follows a hungry one inherits a warm chip.
//! - **sustained**: the chip is warmed for seconds, then each arm takes slots of a second beside slots of the
//!   baseline, and ratios are taken pair by pair, so that a drift of the chip cancels.
//!
//! Operands are standard normal: zeros and small integers let the chip clock higher and prove nothing.
//! Before an arm is timed its result is checked; one that is wrong is reported and not timed.
//!
//! Operands are rotated: where a copy of A, B and C is smaller than three times the L2 cache, launches take
//! several copies by turns.
//!
//! [`results`], [`table`], [`suite`] and [`counters`] work on any machine; what measures needs the feature `cuda`.

#[cfg(feature = "cuda")]
pub mod arm;
pub mod counters;
#[cfg(feature = "cuda")]
mod inputs;
#[cfg(feature = "cublas")]
mod library;
#[cfg(feature = "cuda")]
mod monitor;
#[cfg(feature = "cuda")]
mod once;
#[cfg(feature = "cuda")]
mod regimes;
pub mod results;
#[cfg(feature = "cuda")]
mod run;
pub mod stats;
pub mod suite;
pub mod suite_table;
pub mod table;
#[cfg(feature = "cuda")]
mod verify;

#[cfg(feature = "cuda")]
pub use inputs::Inputs;
#[cfg(feature = "cuda")]
pub(crate) use monitor::driver_version;
#[cfg(feature = "cuda")]
pub use once::once;
#[cfg(feature = "cuda")]
pub use regimes::{Burst, burst, products_for};
#[cfg(feature = "cuda")]
pub(crate) use regimes::{Runner, Timer};
#[cfg(feature = "cuda")]
pub use run::{Options, Shape, run};
#[cfg(feature = "cuda")]
pub use verify::Verifier;
