//! `hopper-gemm info`: a doctor.

use clap::Args;

use super::failure::Failure;

/// Look at everything that the program can use, and say what is missing and what to do.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(_arguments: &Arguments) -> Result<(), Failure> {
    Ok(())
}
