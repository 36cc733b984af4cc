//! `hopper-gemm check`: a kernel in the simulator, under many schedules.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use hopper_gemm::select::{parse_kernel, parse_sizes};
use hopper_gemm::{Error, units};
use kernels::catalogue::{COMPILED, Config};
use serde::Serialize;
use sim::description::Description;
use sim::{Control, Finding, Kind, Outcome, Program, Schedule};

use super::failure::Failure;
use super::output;
use super::progress::Progress;
use super::subject::{Sizes, Subject};
use super::{parse_schedule, said};

/// Run a kernel in the simulator under many schedules, and report races, deadlocks and wrong results.
///
/// The kernel is one of the catalogue, or the PTX of any Hopper kernel with a launch description in TOML
/// beside it (the format is in the documentation of the crate `sim`, module `description`). Each finding is
/// printed with the command that shows it again.
#[derive(Args)]
pub struct Arguments {
    /// Kernel such as v3, entry such as v3_f16_128x128x64_s2, or launch description FILE.toml
    kernel: String,
    #[command(flatten)]
    subject: Subject,
    /// Sizes of the product, MxNxK or one number, or several with commas between [default: a little more than one
    /// tile each way, and more tiles of K than stages]
    #[arg(long, value_name = "MxNxK", value_delimiter = ',', value_parser = |text: &str| said(parse_sizes(text)), help_heading = "Kernel")]
    shape: Vec<Sizes>,
    /// Every compiled configuration of the kernel, or those of one --type
    #[arg(long, conflicts_with_all = ["tile", "stages", "cluster", "splits"])]
    all: bool,
    /// Random schedules, besides the timing model's and the extreme ones
    #[arg(long, value_name = "N", default_value_t = 20, help_heading = "Schedules")]
    schedules: u64,
    /// Seed of the first random schedule
    #[arg(long, value_name = "S", default_value_t = 0, help_heading = "Schedules")]
    seed: u64,
    /// Only this schedule, as a finding names it
    #[arg(long, value_name = "SCHEDULE", conflicts_with_all = ["schedules", "seed"], value_parser = parse_schedule, help_heading = "Schedules")]
    schedule: Option<Schedule>,
    /// In place of these, every order of events of a tiny product, up to N: first those that let each agent
    /// run until it waits, then those that depart from that once, twice, and so on
    #[arg(long, value_name = "N", conflicts_with_all = ["schedules", "seed", "schedule", "all"], help_heading = "Schedules")]
    explore: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A little more than one tile each way, and once around the ring and a ragged step more.
fn ragged(config: &Config) -> Sizes {
    let Config { tile, cluster, stages, .. } = config;
    (tile.m * cluster.m + 2, tile.n * cluster.n + 5, tile.k * (stages + 1) + 8)
}

/// What one kernel came to on one product.
#[derive(Serialize)]
struct Report {
    kernel: String,
    /// M, N and K, of a kernel of the catalogue.
    shape: Option<Sizes>,
    runs: usize,
    /// Whether the runs were every order of events that there is.
    complete: bool,
    /// Warp instructions of all runs without a finding.
    instructions: u64,
    seconds: f64,
    instructions_per_second: f64,
    findings: Vec<FindingReport>,
}

#[derive(Serialize)]
struct FindingReport {
    kind: &'static str,
    message: String,
    ptx_line: u32,
    source: Option<String>,
    threads: String,
    /// Schedules that show it, of those that were tried.
    schedules: Vec<String>,
    replay: String,
    report: String,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let reports = if arguments.kernel.ends_with(".toml") {
        vec![check_description(arguments)?]
    } else {
        let subjects = subjects(arguments)?;
        subjects.iter().map(|&(config, shape)| check_config(arguments, config, shape)).collect::<Result<_, _>>()?
    };
    if arguments.json {
        output::json(&reports)?;
    } else {
        output::print(&text(&reports))?;
    }
    if reports.iter().any(|report| !report.findings.is_empty()) { Err(Failure::Check) } else { Ok(()) }
}

/// The configurations to check, each with the sizes of the product.
fn subjects(arguments: &Arguments) -> Result<Vec<(&'static Config, Sizes)>, Failure> {
    let shapes: Vec<Option<Sizes>> =
        if arguments.shape.is_empty() { vec![None] } else { arguments.shape.iter().copied().map(Some).collect() };
    let mut subjects = Vec::new();
    for shape in shapes {
        let configs: Vec<_> = if arguments.all {
            let kernel = parse_kernel(&arguments.kernel)?;
            let allowed = |config: &&Config| config.kernel == kernel && arguments.subject.allows(config.element);
            COMPILED.iter().filter(allowed).collect()
        } else {
            vec![arguments.subject.config(&arguments.kernel, shape)?]
        };
        subjects.extend(configs.into_iter().map(|config| (config, shape.unwrap_or_else(|| ragged(config)))));
    }
    Ok(subjects)
}

/// The schedules to try, for clusters of this many warps.
fn schedules(arguments: &Arguments, warps: u32) -> Vec<Schedule> {
    if let Some(schedule) = &arguments.schedule {
        return vec![schedule.clone()];
    }
    let random = (0..arguments.schedules).map(|i| Schedule::Random(arguments.seed.wrapping_add(i)));
    [Schedule::Timed].into_iter().chain(Schedule::extremes(warps)).chain(random).collect()
}

fn check_config(arguments: &Arguments, config: &'static Config, shape: Sizes) -> Result<Report, Failure> {
    if !config.kernel.loads() {
        return Err(Error::NoProduct { kernel: config.kernel.name() }.into());
    }
    let simulation = arguments.subject.simulation(config, shape)?;
    let reference = simulation.reference();
    let replay = format!("hopper-gemm check {} {}", config.entry, arguments.subject.options(shape));
    if let Some(most) = arguments.explore {
        let start = Instant::now();
        let mut report = Report::new(config.entry, Some(shape));
        match simulation.explore(&reference, most) {
            Ok(explored) => {
                (report.runs, report.complete) = (explored.orders, explored.complete);
                report.instructions = explored.instructions;
            }
            Err(sim::gemm::Error::Finding(finding)) => report.add(&finding, &replay),
            Err(error) => return Err(error.into()),
        }
        report.end(start);
        return Ok(report);
    }
    let schedules = schedules(arguments, simulation.warps());
    survey(Report::new(config.entry, Some(shape)), &schedules, &replay, |schedule| {
        match simulation.check(&reference, schedule, Control::default()) {
            Ok(outcome) => Ok(Ok(outcome)),
            Err(sim::gemm::Error::Finding(finding)) => Ok(Err(finding)),
            Err(error) => Err(error.into()),
        }
    })
}

fn check_description(arguments: &Arguments) -> Result<Report, Failure> {
    let path = Path::new(&arguments.kernel);
    let text = std::fs::read_to_string(path).map_err(|source| Error::File {
        action: "read",
        path: path.to_owned(),
        source,
    })?;
    let at = |message: String| Failure::File(format!("{}: {message}", path.display()));
    let description = Description::parse(&text).map_err(at)?;
    let prepared = description.prepare(path.parent().unwrap_or(Path::new("."))).map_err(at)?;
    let program = Program::load(&prepared.text, prepared.entry()).map_err(|error| at(error.to_string()))?;
    let (_, launch) = prepared.launch().map_err(at)?;
    let warps = launch.threads().div_ceil(32) * launch.cluster_blocks();
    let schedules = schedules(arguments, warps);
    let replay = format!("hopper-gemm check {}", arguments.kernel);
    survey(Report::new(prepared.entry(), None), &schedules, &replay, |schedule| {
        let (mut memory, launch) = prepared.launch().map_err(at)?;
        let result = sim::run(&program, &launch, &mut memory, &prepared.options, schedule, Control::default());
        let outcome = match result {
            Ok(outcome) => outcome,
            Err(finding) => return Ok(Err(finding)),
        };
        let differences = prepared.differences(&memory);
        Ok(if differences.is_empty() {
            Ok(outcome)
        } else {
            Err(wrong_result(prepared.entry(), schedule, &differences))
        })
    })
}

fn wrong_result(entry: &str, schedule: &Schedule, differences: &[String]) -> Box<Finding> {
    Box::new(Finding {
        kind: Kind::WrongResult,
        kernel: entry.to_owned(),
        message: differences.join("; "),
        place: sim::report::Place::NONE,
        threads: String::new(),
        notes: Vec::new(),
        history: Vec::new(),
        schedule: schedule.to_string(),
    })
}

/// Runs every schedule, and puts findings of the same kind at the same place together.
fn survey(
    mut report: Report,
    schedules: &[Schedule],
    replay: &str,
    mut each: impl FnMut(&Schedule) -> Result<Result<Outcome, Box<Finding>>, Failure>,
) -> Result<Report, Failure> {
    let task = Progress::new(false).task(&format!("checking {}", report.kernel), Some(schedules.len()));
    let start = Instant::now();
    for schedule in schedules {
        match each(schedule)? {
            Ok(outcome) => report.instructions += outcome.instructions,
            Err(finding) => report.add(&finding, replay),
        }
        report.runs += 1;
        task.set(report.runs);
    }
    report.end(start);
    Ok(report)
}

impl Report {
    fn new(entry: &str, shape: Option<Sizes>) -> Report {
        Report {
            kernel: entry.to_owned(),
            shape,
            runs: 0,
            complete: false,
            instructions: 0,
            seconds: 0.0,
            instructions_per_second: 0.0,
            findings: Vec::new(),
        }
    }

    /// Notes how long all runs took, from `start` on.
    fn end(&mut self, start: Instant) {
        self.seconds = start.elapsed().as_secs_f64();
        self.instructions_per_second = self.instructions as f64 / self.seconds;
    }

    fn add(&mut self, finding: &Finding, replay: &str) {
        let same =
            |known: &&mut FindingReport| known.kind == finding.kind.name() && known.ptx_line == finding.place.line;
        match self.findings.iter_mut().find(same) {
            Some(known) => known.schedules.push(finding.schedule.clone()),
            None => self.findings.push(FindingReport {
                kind: finding.kind.name(),
                message: finding.message.clone(),
                ptx_line: finding.place.line,
                source: finding.place.source.clone(),
                threads: finding.threads.clone(),
                schedules: vec![finding.schedule.clone()],
                replay: format!("{replay} --schedule {}", finding.schedule),
                report: finding.to_string(),
            }),
        }
    }
}

/// Reports as text for people: all findings, then a line for one kernel or a table for several.
fn text(reports: &[Report]) -> String {
    let mut text = String::new();
    for report in reports {
        for finding in &report.findings {
            text += &finding.report;
            text += &format!("  seen     in {} of {} schedules\n", finding.schedules.len(), report.runs);
            text += &format!("  again    {}\n\n", finding.replay);
        }
    }
    if let [report] = reports {
        let several = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let findings = match report.findings.len() as u64 {
            0 => "no findings".to_owned(),
            n => several(n, "finding"),
        };
        let Report { kernel, runs, instructions, instructions_per_second, .. } = report;
        let runs =
            if report.complete { format!("all {runs} orders of events") } else { several(*runs as u64, "schedule") };
        let (time, rate) = (units::seconds(report.seconds), units::per_second(*instructions_per_second));
        return text + &format!("{kernel}: {findings} in {runs}, {instructions} warp instructions, {time}, {rate}\n");
    }
    let header = ["kernel", "M×N×K", "schedules", "findings", "warp instructions", "seconds", "million a second"];
    let rows = reports.iter().map(|report| {
        let (m, n, k) = report.shape.unwrap_or_default();
        vec![
            report.kernel.clone(),
            format!("{m}×{n}×{k}"),
            report.runs.to_string(),
            report.findings.len().to_string(),
            report.instructions.to_string(),
            format!("{:.3}", report.seconds),
            format!("{:.2}", report.instructions_per_second * 1e-6),
        ]
    });
    text + &output::table(&header, rows)
}
