//! The command line: one module for each command, and what they share.

mod bench;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod failure {
    /// Why a command did not succeed.
    #[derive(Debug)]
    pub enum Failure {
        /// The result is wrong. What is wrong has been printed.
        Check,
        /// The library's error.
        Library(hopper_gemm::Error),
    }

    impl From<hopper_gemm::Error> for Failure {
        fn from(error: hopper_gemm::Error) -> Self {
            Failure::Library(error)
        }
    }
}

/// Matrix product for NVIDIA Hopper GPUs, with kernels written in Rust and inline PTX.
#[derive(Parser)]
#[command(name = "hopper-gemm", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure kernels beside each other and beside cuBLAS
    Bench(Box<bench::Arguments>),
}

/// Parses the arguments, runs the command, and turns its result into an exit code.
pub fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(arguments) => bench::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure::Failure::Check) => ExitCode::from(1),
        Err(failure::Failure::Library(error)) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}
