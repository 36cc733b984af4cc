//! Reads, checks and finishes PTX text.
//!
//! - [`finish`] turns the module that rustc emits into one finished module per kernel: launch bounds,
//!   tensor-map alignment, and a manifest of what a launch must provide. It refuses what must not be in a
//!   kernel.
//! - [`ptxas`] assembles a finished module and reports its registers, spills and tensor-core
//!   instructions, and refuses what would make it slow or wrong.

pub mod finish;
pub mod ptxas;
