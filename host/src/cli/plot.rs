//! `hopper-gemm plot`: figures of results.

use std::path::PathBuf;

use clap::Args;
use hopper_gemm::bench::results::Results;
use hopper_gemm::select::parse_sizes;
use hopper_gemm::{Error, Result, plot};

use super::failure::{Failure, in_files};
use super::output;

/// Draw results of `hopper-gemm bench` as a figure: the speed of each arm beside the baseline and the dense
/// peak.
#[derive(Args)]
pub struct Arguments {
    /// Files that `bench --json` wrote
    #[arg(required = true, value_name = "RESULTS")]
    results: Vec<PathBuf>,
    /// File to write, .svg
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Arms, in the order of the bars [default: all but the baseline, which is a line]
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    arms: Vec<String>,
    /// Shapes, as M=N=K or MxNxK [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST", value_parser = parse_sizes)]
    shapes: Vec<(usize, usize, usize)>,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { results: files, out, arms, shapes } = arguments;
    if out.extension().is_none_or(|extension| extension != "svg") {
        let value = out.display().to_string();
        return Err(Error::Syntax { value, rule: "the file of a figure ends in .svg" }.into());
    }
    let results = files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>>>()?;
    let choice = plot::Choice { arms: arms.clone(), shapes: shapes.clone() };
    let figure = plot::svg(&results, &choice).map_err(in_files(files))?;
    let failed = |source| Error::File { action: "write", path: out.clone(), source };
    std::fs::write(out, figure).map_err(failed)?;
    output::print(&format!("{}\n", out.display()))?;
    Ok(())
}
