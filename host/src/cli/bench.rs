//! `hopper-gemm bench`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args, ValueEnum};
use hopper_gemm::Result;
use hopper_gemm::bench::counters::Counters;
use hopper_gemm::bench::results::Results;
use hopper_gemm::bench::suite::Suite;
use hopper_gemm::bench::suite_table;
use hopper_gemm::bench::table::{self, Made};

use super::failure::{Failure, in_files};
use super::output;
#[cfg(feature = "cuda")]
use super::progress;

/// Measure kernels beside each other and beside cuBLAS.
#[derive(Args)]
#[command(group = ArgGroup::new("shown").args(["table", "counters"]))]
pub struct Arguments {
    /// Shapes, as M=N=K or MxNxK.
    #[arg(long, alias = "shape", value_delimiter = ',', default_value = "8192", value_name = "LIST")]
    shapes: Vec<String>,

    /// Measure the shapes of a suite: of this TOML file, or of the one that the program brings,
    /// benches/suite.toml. Rounds are fewer and shorter than for --shapes, and every loss is marked.
    #[arg(long, value_name = "FILE", num_args = 0..=1, conflicts_with_all = ["shapes", "quick"])]
    suite: Option<Option<PathBuf>>,

    /// Only these groups of the suite; names, with wildcards.
    #[arg(long, value_name = "GROUPS", value_delimiter = ',', requires = "suite")]
    filter: Vec<String>,

    /// What to measure: kernels (v3), auto (what the library chooses for the shape), entries with wildcards
    /// (v3_f16_128x128x64_s*), cublas (cuBLASLt, the fastest of its proposals), gemmex (cublasGemmEx); behind
    /// a kernel, /P has each tile of C shared by P clusters, and @N takes the tiles in bands of N rows. [default: v3,cublas; of a suite auto,cublas]
    #[arg(long, value_name = "LIST")]
    kernels: Option<String>,

    /// Tile of the kernels that are given by name, as MxNxK.
    #[arg(long)]
    tile: Option<String>,

    /// Stages of the kernels that are given by name.
    #[arg(long)]
    stages: Option<usize>,

    /// Cluster of the kernels that are given by name, as MxN tiles.
    #[arg(long)]
    cluster: Option<String>,

    /// Blocks of a cluster that share the K of a tile, of the kernels that are given by name.
    #[arg(long, value_name = "N")]
    splits: Option<usize>,

    /// Clusters that share the K of a tile, of the kernels that are given by name.
    #[arg(long, value_name = "N")]
    parts: Option<u32>,

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

    /// In one regime of one shape, begin no round after this many seconds; the first is always run.
    #[arg(long, value_name = "SECONDS")]
    shape_budget: Option<f64>,

    /// Proposals of cuBLASLt to try. [default: 16; of a suite 8]
    #[arg(long)]
    proposals: Option<usize>,

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
    #[arg(long, value_name = "ENTRY", conflicts_with_all = ["kernels", "json", "table", "suite"])]
    once: Option<String>,

    /// Measure nothing; print a Markdown table of these results: of all arms, or where they are of a suite, of
    /// its groups and shapes.
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["kernels", "json", "suite"])]
    table: Vec<PathBuf>,

    /// Measure nothing; print a Markdown table of these counters of Nsight Compute, a CSV file with the
    /// columns kernel, metric, unit and value.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kernels", "json", "suite"])]
    counters: Option<PathBuf>,

    /// What the table shows: names of arms, or of entries in counters [default: all]
    #[arg(long, value_delimiter = ',', value_name = "LIST", requires = "shown")]
    arms: Vec<String>,

    /// Put the table into this Markdown file, between its marks.
    #[arg(long, value_name = "FILE", requires = "shown")]
    into: Option<PathBuf>,
}

/// What a suite measures by default, and what other shapes.
#[cfg(feature = "cuda")]
const DEFAULT_KERNELS: [&str; 2] = if cfg!(feature = "cublas") { ["auto,cublas", "v3,cublas"] } else { ["auto", "v3"] };
/// How many proposals of cuBLASLt are tried by default in a suite, and for other shapes.
#[cfg(feature = "cuda")]
const DEFAULT_PROPOSALS: [usize; 2] = [8, 16];

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum RegimeChoice {
    Rested,
    Sustained,
    Both,
}

/// Does what `arguments` ask.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (made, markdown) = if let Some(path) = &arguments.counters {
        let counters = Counters::read(path)?;
        (Made::FromCounters, counters.markdown(&arguments.arms).map_err(in_files(std::slice::from_ref(path)))?)
    } else if !arguments.table.is_empty() {
        let results = arguments.table.iter().map(|path| Results::read(path)).collect::<Result<Vec<_>>>()?;
        let is_suite = arguments.arms.is_empty() && results.iter().any(suite_table::is_suite);
        let markdown = if is_suite {
            suite_table::markdown(&results)
        } else {
            table::markdown(&results, &arguments.arms).map_err(in_files(&arguments.table))?
        };
        (Made::FromResults, markdown)
    } else {
        // What is wrong with the suite is said on any machine.
        let suite = arguments.suite.as_ref().map(|file| suite(file.as_deref(), &arguments.filter)).transpose()?;
        return measure(arguments, suite);
    };
    match &arguments.into {
        Some(path) => table::insert(path, made, &markdown)?,
        None => output::print(&markdown)?,
    }
    Ok(())
}

/// The suite of `file`, or the program's own, with the groups that `filter` names.
fn suite(file: Option<&Path>, filter: &[String]) -> Result<Suite> {
    file.map_or_else(Suite::ours, Suite::read)?.filtered(filter)
}

#[cfg(not(feature = "cuda"))]
fn measure(_: &Arguments, _: Option<Suite>) -> Result<(), Failure> {
    Err(hopper_gemm::Error::NotBuilt { what: "support for GPUs", feature: "cuda" }.into())
}

#[cfg(feature = "cuda")]
fn measure(arguments: &Arguments, suite: Option<Suite>) -> Result<(), Failure> {
    use std::time::Duration;

    use hopper_gemm::Error;
    use hopper_gemm::bench::arm::ArmSpec;
    use hopper_gemm::bench::results::{Check, Settings};
    use hopper_gemm::bench::table::Regime;
    use hopper_gemm::bench::{Options, Shape};
    use hopper_gemm::select::{self, Request};

    let shapes = arguments.shapes.iter().map(|shape| select::parse_sizes(shape)).collect::<Result<Vec<_>>>()?;
    let is_suite = suite.is_some();
    let by_suite = usize::from(!is_suite);
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
        splits: arguments.splits,
        parts: arguments.parts,
    };
    let mut settings = match (is_suite, arguments.quick) {
        (true, _) => Settings::SUITE,
        (false, true) => Settings::QUICK,
        (false, false) => Settings::THOROUGH,
    };
    settings.seed = arguments.seed;
    if let Some(rounds) = arguments.rounds {
        (settings.rested_rounds, settings.sustained_rounds) = (rounds, rounds);
    }
    let seconds = |value: Option<f64>| {
        let rule = "a budget is a number of seconds, 0 or more";
        let read =
            |value| Duration::try_from_secs_f64(value).map_err(|_| Error::Syntax { value: value.to_string(), rule });
        value.map(read).transpose()
    };
    let shapes = match &suite {
        Some(suite) => suite.shapes().map(|(group, sizes)| Shape { sizes, group: Some(group.to_string()) }).collect(),
        None => shapes.into_iter().map(Shape::from).collect(),
    };
    let kernels = arguments.kernels.as_deref().unwrap_or(DEFAULT_KERNELS[by_suite]);
    let options = Options {
        device: arguments.device,
        element,
        shapes,
        arms: ArmSpec::parse_list(kernels, element, &request)?,
        regimes: match arguments.regime {
            RegimeChoice::Rested => vec![Regime::Rested],
            RegimeChoice::Sustained => vec![Regime::Sustained],
            RegimeChoice::Both => Regime::ALL.to_vec(),
        },
        settings,
        proposals: arguments.proposals.unwrap_or(DEFAULT_PROPOSALS[by_suite]).max(1),
        budget: seconds(arguments.budget)?,
        shape_budget: seconds(arguments.shape_budget)?,
        command: command_line(),
        progress: progress::steps(),
    };
    let mut printed = 0;
    let mut print_new = |results: &Results| {
        let mut new = String::new();
        for (index, shape) in results.shapes.iter().enumerate().skip(printed) {
            new += &if is_suite {
                suite_table::shape_lines(shape, index.checked_sub(1).map(|before| &results.shapes[before]))
            } else {
                table::shape_text(shape) + "\n"
            };
        }
        printed = results.shapes.len();
        output::print(&new)
    };
    let results = hopper_gemm::bench::run(&options, |results| {
        // A measurement goes on when nobody listens any more, for its results may go to a file.
        let _ = print_new(results);
        arguments.json.as_ref().map_or(Ok(()), |path| results.write(path))
    })?;
    print_new(&results)?;
    let summary = if is_suite { suite_table::summary_text(&results) } else { table::summary_text(&results) };
    output::print(&summary)?;
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
