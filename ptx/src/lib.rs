//! Reads, checks and finishes PTX text.
//!
//! - [`finish`] turns the module that rustc emits into one finished module per kernel: launch bounds,
//!   tensor-map alignment, and a manifest of what a launch must provide. It refuses what must not be in a
//!   kernel.
//! - [`ptxas`] assembles a finished module and reports its registers, spills and tensor-core
//!   instructions, and refuses what would make it slow or wrong.
//! - [`parse()`] reads a whole module into the [`ast`] that the simulator runs.

pub mod ast;
mod error;
pub mod finish;
mod lex;
mod parse;
pub mod ptxas;

pub use error::{Error, Result};
pub use parse::parse;
