//! `hopper-gemm tune`: measure which configuration is fastest, and remember it.

#[cfg(feature = "cuda")]
mod measured;
#[cfg(any(feature = "cuda", test))]
mod report;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use hopper_gemm::select::{parse_element, parse_kernel, parse_sizes, shared_name};
use hopper_gemm::tune::{Answer, Cache, Space, Target};
use hopper_gemm::units;
use hopper_gemm::{Error, Problem};
use kernels::catalogue::{self, Kernel};
use serde::Serialize;

use super::failure::Failure;
use super::output;
use super::said;

/// Measure which configuration is fastest for a shape, and remember it.
///
/// Every compiled configuration of the kernels is measured in short bursts after a pause, in an order that is
/// shuffled each round; those that are far behind drop out early, those that are left are tried with other bands
/// of tiles. The fastest whose product is right is kept in a file, for this device, driver, program and class of
/// shapes: M, N and K rounded up to powers of two or one and a half times one. `hopper-gemm matmul` uses it where
/// it is free to choose.
#[derive(Args)]
pub struct Arguments {
    /// Shapes, as MxNxK, or one number for a square product
    #[arg(long, alias = "shape", value_delimiter = ',', value_name = "LIST", value_parser = |text: &str| said(parse_sizes(text)), required_unless_present_any = ["show", "clear"])]
    shapes: Vec<(usize, usize, usize)>,
    /// Kernels [default: all]
    #[arg(long, alias = "kernels", value_delimiter = ',', value_name = "LIST", value_parser = |text: &str| said(parse_kernel(text)))]
    kernel: Vec<Kernel>,
    /// Element type
    #[arg(long = "type", value_name = "f16|bf16", default_value = "f16", value_parser = |text: &str| said(parse_element(text)))]
    element: catalogue::Element,
    /// Begin no measurement after this many seconds; each shape gets its share
    #[arg(long, value_name = "SECONDS", default_value_t = 120.0)]
    budget: f64,
    /// How many of the best to show
    #[arg(long, value_name = "N", default_value_t = 10)]
    top: usize,
    /// Seed of the operands and of the orders
    #[arg(long, value_name = "S", default_value_t = 1)]
    seed: u64,
    /// Number of the CUDA device
    #[arg(long, value_name = "N", default_value_t = 0)]
    device: u32,

    /// Measure nothing; show what is remembered
    #[arg(long, conflicts_with_all = ["shapes", "kernel", "clear"])]
    show: bool,
    /// Measure nothing; forget everything that is remembered
    #[arg(long, conflicts_with_all = ["shapes", "kernel"])]
    clear: bool,
    /// The file of answers [default: hopper-gemm/tune.json in $XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FILE")]
    cache: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let path = match &arguments.cache {
        Some(path) => path.clone(),
        None => Cache::default_path()?,
    };
    if arguments.show {
        show(path, arguments.json)
    } else if arguments.clear {
        clear(path, arguments.json)
    } else {
        measure(arguments, path)
    }
}

/// What `--show` prints as JSON.
#[derive(Serialize)]
struct Shown<'a> {
    cache: PathBuf,
    /// The kernels of this program; answers for others are not used.
    kernels: &'static str,
    answers: &'a [Answer],
    notice: Option<String>,
}

fn show(path: PathBuf, json: bool) -> Result<(), Failure> {
    let (cache, notice) = Cache::read(&path)?;
    let notice = notice.map(|notice| notice.to_string());
    if json {
        output::json(&Shown { cache: path, kernels: Target::kernel_set(), answers: cache.answers(), notice })?;
        return Ok(());
    }
    if let Some(notice) = notice {
        output::complain("note", &notice);
    }
    let shown = path.display();
    if cache.answers().is_empty() {
        output::print(&format!("nothing is remembered in {shown}\n"))?;
        return Ok(());
    }
    output::print(&format!("{}\nremembered in {shown}\n", answers_text(cache.answers())))?;
    Ok(())
}

/// A table of answers.
fn answers_text(answers: &[Answer]) -> String {
    let rows = answers.iter().map(|answer| {
        let state = if answer.target.is_of_this_program() { "this program" } else { "other kernels" };
        vec![
            answer.class.clone(),
            answer.kernel.clone().unwrap_or_else(|| "any".to_owned()),
            shared_name(&answer.entry, answer.parts),
            answer.band.to_string(),
            units::seconds(answer.seconds),
            gain(answer),
            answer.target.device.clone(),
            answer.target.driver.clone(),
            state.to_owned(),
            answer.date.split('T').next().unwrap_or_default().to_owned(),
        ]
    });
    let header = ["shapes up to", "kernel", "fastest", "band", "time", "gain", "device", "driver", "for", "measured"];
    output::table(&header, rows)
}

/// By how much the answer is faster than what would have been launched without it.
fn gain(answer: &Answer) -> String {
    let percent = |default: f64| format!("{:.1} %", (default / answer.seconds - 1.0) * 100.0);
    answer.default_seconds.map_or_else(|| "-".to_owned(), percent)
}

/// What `--clear` prints as JSON.
#[derive(Serialize)]
struct Cleared {
    cache: PathBuf,
    /// Answers that were removed; null where there was no file.
    removed: Option<usize>,
}

fn clear(path: PathBuf, json: bool) -> Result<(), Failure> {
    let removed = Cache::clear(&path)?;
    if json {
        output::json(&Cleared { cache: path, removed })?;
        return Ok(());
    }
    let shown = path.display();
    output::print(&match removed {
        None => format!("nothing is remembered in {shown}\n"),
        Some(count) => format!("removed {shown} (answers: {count})\n"),
    })?;
    Ok(())
}

/// The candidates of each shape, checked before anything is measured.
fn spaces(arguments: &Arguments) -> Result<Vec<Space>, Error> {
    let space = |&(m, n, k): &(usize, usize, usize)| {
        let problem = Problem::new(arguments.element, m, n, k)?;
        Space::new(&problem, &arguments.kernel)
    };
    arguments.shapes.iter().map(space).collect()
}

fn budget(arguments: &Arguments) -> Result<Duration, Error> {
    let rule = "a budget is a number of seconds, 0 or more";
    let syntax = |_| Error::Syntax { value: arguments.budget.to_string(), rule };
    Duration::try_from_secs_f64(arguments.budget).map_err(syntax)
}

#[cfg(not(feature = "cuda"))]
fn measure(arguments: &Arguments, _: PathBuf) -> Result<(), Failure> {
    // What is wrong with the request is said on any machine.
    spaces(arguments)?;
    budget(arguments)?;
    Err(Error::NotBuilt { what: "support for GPUs", feature: "cuda" }.into())
}

#[cfg(feature = "cuda")]
fn measure(arguments: &Arguments, path: PathBuf) -> Result<(), Failure> {
    measured::measure(arguments, path)
}
