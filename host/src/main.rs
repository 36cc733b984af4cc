//! The command line of hopper-gemm.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
