//! `hopper-gemm bench`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use hopper_gemm::Result;
use hopper_gemm::bench::results::Results;
use hopper_gemm::bench::table;

use super::failure::Failure;
use super::output;

/// Measure kernels beside each other and beside cuBLAS.
#[derive(Args)]
pub struct Arguments {
    /// Shapes, as M=N=K or MxNxK.
    #[arg(long, alias = "shape", value_delimiter = ',', default_value = "8192", value_name = "LIST")]
    shapes: Vec<String>,

    /// What to measure: kernels (v3), entries with wildcards (v3_f16_128x128x64_s*), cublas (cuBLASLt, the
    /// fastest of its proposals), gemmex (cublasGemmEx).
    #[arg(long, default_value = DEFAULT_KERNELS, value_name = "LIST")]
    kernels: String,

    /// Tile of the kernels that are given by name, as MxNxK.
    #[arg(long)]
    tile: Option<String>,

    /// Stages of the kernels that are given by name.
    #[arg(long)]
    stages: Option<usize>,

    /// Cluster of the kernels that are given by name, as MxN tiles.
    #[arg(long)]
    cluster: Option<String>,

    /// Type of the elements.
    #[arg(long = "type", default_value = "f16", value_name = "f16|bf16")]
    element: String,

    /// How to measure: short bursts after a pause, back to back on a warm chip, or both.
    #[arg(long, value_enum, default_value_t = RegimeChoice::Both)]
    regime: RegimeChoice,

    /// Fewer and shorter rounds: a first impression.
    #[arg(long)]
    quick: bool,

    /// Rounds in each regime.
    #[arg(long)]
    rounds: Option<usize>,

    /// Begin no round or shape after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    budget: Option<f64>,

    /// Proposals of cuBLASLt to try.
    #[arg(long, default_value_t = 16)]
    proposals: usize,

    /// Seed of the operands and of the order of the arms.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Number of the CUDA device.
    #[arg(long, default_value_t = 0)]
    device: u32,

    /// Write the results to this file, after each shape.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Launch this kernel exactly once on the first shape and check the result: for profilers and
    /// sanitizers.
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["kernels", "json", "table"])]
    once: Option<String>,

    /// Measure nothing; print a Markdown table of these results.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kernels", "json"])]
    table: Vec<PathBuf>,

    /// Put the table into this Markdown file, between its marks.
    #[arg(long, value_name = "FILE", requires = "table")]
    into: Option<PathBuf>,
}

const DEFAULT_KERNELS: &str = if cfg!(feature = "cublas") { "v3,cublas" } else { "v3" };

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RegimeChoice {
    Rested,
    Sustained,
    Both,
}

/// Does what `arguments` ask.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    if arguments.table.is_empty() {
        return measure(arguments);
    }
    let results = arguments.table.iter().map(|path| Results::read(path)).collect::<Result<Vec<_>>>()?;
    let markdown = table::markdown(&results);
    match &arguments.into {
        Some(path) => table::insert(path, &markdown)?,
        None => output::print(&markdown)?,
    }
    Ok(())
}

#[cfg(not(feature = "cuda"))]
fn measure(_: &Arguments) -> Result<(), Failure> {
    Err(hopper_gemm::Error::NotBuilt { what: "support for GPUs", feature: "cuda" }.into())
}

#[cfg(feature = "cuda")]
fn measure(arguments: &Arguments) -> Result<(), Failure> {
    use std::time::Duration;

    use hopper_gemm::Error;
    use hopper_gemm::bench::Options;
    use hopper_gemm::bench::arm::ArmSpec;
    use hopper_gemm::bench::results::{Check, Settings};
    use hopper_gemm::bench::table::Regime;
    use hopper_gemm::select::{self, Request};

    let shapes = arguments.shapes.iter().map(|shape| select::parse_sizes(shape)).collect::<Result<Vec<_>>>()?;
    if let Some(entry) = &arguments.once {
        let config = ::kernels::catalogue::by_entry(entry).ok_or(Error::UnknownEntry { entry: entry.clone() })?;
        let sizes = *shapes.first().ok_or(Error::Syntax { value: String::new(), rule: "a shape is expected" })?;
        let verdict = match hopper_gemm::bench::once(arguments.device, config, sizes, arguments.seed)? {
            Check::Passed { .. } | Check::NotAProduct => Ok(()),
            Check::Failed { reason } => Err(reason),
        };
        let shown = verdict.as_ref().map_or_else(|reason| format!("wrong: {reason}"), |()| String::from("right"));
        output::print(&format!("{entry} on {}×{}×{}: {shown}\n", sizes.0, sizes.1, sizes.2))?;
        return verdict.map_err(|_| Failure::Check);
    }

    let element = select::parse_element(&arguments.element)?;
    let request = Request {
        kernel: None,
        tile: arguments.tile.as_deref().map(select::parse_tile).transpose()?,
        stages: arguments.stages,
        cluster: arguments.cluster.as_deref().map(select::parse_cluster).transpose()?,
    };
    let mut settings = if arguments.quick { Settings::QUICK } else { Settings::THOROUGH };
    settings.seed = arguments.seed;
    if let Some(rounds) = arguments.rounds {
        (settings.rested_rounds, settings.sustained_rounds) = (rounds, rounds);
    }
    let budget = arguments.budget.map(Duration::try_from_secs_f64).transpose().map_err(|_| Error::Syntax {
        value: arguments.budget.unwrap_or_default().to_string(),
        rule: "a budget is a number of seconds, 0 or more",
    })?;
    let options = Options {
        device: arguments.device,
        element,
        shapes,
        arms: ArmSpec::parse_list(&arguments.kernels, element, &request)?,
        regimes: match arguments.regime {
            RegimeChoice::Rested => vec![Regime::Rested],
            RegimeChoice::Sustained => vec![Regime::Sustained],
            RegimeChoice::Both => Regime::ALL.to_vec(),
        },
        settings,
        proposals: arguments.proposals.max(1),
        budget,
        command: command_line(),
        progress: progress_bar(),
    };
    let mut printed = 0;
    let mut print_new = |results: &Results| {
        let new = results.shapes[printed..].iter().map(|shape| table::shape_text(shape) + "\n");
        printed = results.shapes.len();
        output::print(&new.collect::<String>())
    };
    let results = hopper_gemm::bench::run(&options, |results| {
        // A measurement goes on when nobody listens any more, for its results may go to a file.
        let _ = print_new(results);
        arguments.json.as_ref().map_or(Ok(()), |path| results.write(path))
    })?;
    print_new(&results)?;
    output::print(&table::summary_text(&results))?;
    if let Some(path) = &arguments.json {
        results.write(path)?;
    }
    let mut arms = results.shapes.iter().flat_map(|shape| &shape.arms).peekable();
    // Nothing measured is no success either.
    let wrong = arms.peek().is_none() || arms.any(|arm| matches!(arm.check, Check::Failed { .. }));
    if wrong { Err(Failure::Check) } else { Ok(()) }
}

/// The command line with the name of the program and not where it lies.
#[cfg(feature = "cuda")]
fn command_line() -> String {
    let arguments = std::env::args().skip(1);
    std::iter::once(env!("CARGO_PKG_NAME").to_string()).chain(arguments).collect::<Vec<_>>().join(" ")
}

/// A progress bar on the standard error output; hidden where that is not a terminal.
#[cfg(feature = "cuda")]
fn progress_bar() -> indicatif::ProgressBar {
    let style = indicatif::ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}");
    indicatif::ProgressBar::new(0).with_style(style.unwrap_or_else(|_| indicatif::ProgressStyle::default_bar()))
}
