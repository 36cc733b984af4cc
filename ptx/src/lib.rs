//! Reads, checks and finishes PTX text.
//!
//! [`parse`] turns a module into the [`ast`] that the simulator runs.

pub mod ast;
mod error;
mod lex;
mod parse;

pub use error::{Error, Result};
pub use parse::parse;
