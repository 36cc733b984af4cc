//! The command line: one module for each command, and what they share.

mod bench;
mod check;
mod device;
mod explain;
mod failure;
mod info;
mod kernels;
mod matmul;
mod output;
mod plot;
mod progress;
mod sass;
mod subject;
mod trace;
mod tune;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Matrix product for NVIDIA Hopper GPUs, with kernels written in Rust and inline PTX.
///
/// The product is C = A·Bᵀ: A is M×K, B is N×K and C is M×N, all row-major; f16 or bf16 in and out, with
/// products summed in f32.
#[derive(Parser)]
#[command(name = "hopper-gemm", version, max_term_width = 100, after_help = failure::EXIT_CODES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    #[command(after_help = failure::EXIT_CODES)]
    Matmul(matmul::Arguments),
    Kernels(kernels::Arguments),
    Bench(Box<bench::Arguments>),
    #[command(after_help = failure::EXIT_CODES)]
    Tune(tune::Arguments),
    Explain(explain::Arguments),
    Plot(plot::Arguments),
    Sass(sass::Arguments),
    Info(info::Arguments),
    #[command(after_help = failure::EXIT_CODES)]
    Check(check::Arguments),
    Trace(trace::Arguments),
}

/// The error of an option's value as clap shows it, after the value itself.
fn said<T>(parsed: hopper_gemm::Result<T>) -> Result<T, String> {
    parsed.map_err(|error| match error {
        hopper_gemm::Error::Syntax { rule, .. } => rule.to_owned(),
        error => error.to_string(),
    })
}

/// Parses a schedule of the simulator.
fn parse_schedule(text: &str) -> Result<sim::Schedule, String> {
    text.parse()
}

/// Parses the arguments, runs the command, and turns its result into an exit code.
pub fn main() -> ExitCode {
    let (result, json) = match Cli::parse().command {
        Command::Matmul(arguments) => (matmul::run(&arguments), arguments.json),
        Command::Kernels(arguments) => (kernels::run(&arguments), arguments.json),
        Command::Bench(arguments) => (bench::run(&arguments), false),
        Command::Tune(arguments) => (tune::run(&arguments), arguments.json),
        Command::Explain(arguments) => (explain::run(&arguments), arguments.json),
        Command::Plot(arguments) => (plot::run(&arguments), false),
        Command::Sass(arguments) => (sass::run(&arguments), false),
        Command::Info(arguments) => (info::run(&arguments), arguments.json),
        Command::Check(arguments) => (check::run(&arguments), arguments.json),
        Command::Trace(arguments) => (trace::run(&arguments), false),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(json),
    }
}
