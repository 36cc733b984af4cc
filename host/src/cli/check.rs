//! `hopper-gemm check`: a kernel in the simulator, under many schedules.

use std::path::Path;
use std::time::Instant;

use clap::Args;
use hopper_gemm::select::parse_kernel;
use hopper_gemm::{Error, units};
use kernels::catalogue::{COMPILED, Config};
use serde::Serialize;
use sim::description::Description;
use sim::{Control, Finding, Kind, Outcome, Program, Schedule};

use super::failure::Failure;
use super::output;
use super::progress::Progress;
use super::subject::Subject;

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
    /// Every compiled configuration of the kernel that the options allow
    #[arg(long, conflicts_with_all = ["tile", "stages", "cluster"])]
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

fn parse_schedule(text: &str) -> Result<Schedule, String> {
    text.parse()
}

/// A little more than one tile each way, and once around the ring and a ragged step more.
fn ragged(config: &Config) -> (usize, usize, usize) {
    let Config { tile, cluster, stages, .. } = config;
    (tile.m * cluster.m + 2, tile.n * cluster.n + 5, tile.k * (stages + 1) + 8)
}

/// What one kernel came to.
#[derive(Serialize)]
struct Report {
    kernel: String,
    runs: usize,
    instructions: u64,
    seconds: f64,
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
    } else if arguments.all {
        let kernel = parse_kernel(&arguments.kernel)?;
        let configs = COMPILED.iter().filter(|config| config.kernel == kernel);
        configs.map(|config| check_config(arguments, config)).collect::<Result<Vec<_>, _>>()?
    } else {
        vec![check_config(arguments, arguments.subject.config(&arguments.kernel)?)?]
    };
    if arguments.json {
        output::json(&reports)?;
    } else {
        for report in &reports {
            output::print(&report.text())?;
        }
    }
    if reports.iter().any(|report| !report.findings.is_empty()) { Err(Failure::Check) } else { Ok(()) }
}

/// The schedules to try, for clusters of this many warps.
fn schedules(arguments: &Arguments, warps: u32) -> Vec<Schedule> {
    if let Some(schedule) = &arguments.schedule {
        return vec![schedule.clone()];
    }
    let random = (0..arguments.schedules).map(|i| Schedule::Random(arguments.seed.wrapping_add(i)));
    [Schedule::Timed].into_iter().chain(Schedule::extremes(warps)).chain(random).collect()
}

fn check_config(arguments: &Arguments, config: &'static Config) -> Result<Report, Failure> {
    if !config.kernel.loads() {
        return Err(Error::Syntax {
            value: config.kernel.name().to_owned(),
            rule: "a kernel that is checked computes the product of its operands; this one does not load them",
        }
        .into());
    }
    let shape = arguments.subject.shape(config, ragged);
    let simulation = arguments.subject.simulation(config, shape)?;
    let reference = simulation.reference();
    let replay = format!("hopper-gemm check {} {}", config.entry, arguments.subject.options(shape));
    if let Some(most) = arguments.explore {
        let start = Instant::now();
        let mut report = Report::new(config.entry);
        match simulation.explore(&reference, most) {
            Ok((tried, _)) => report.runs = tried,
            Err(sim::gemm::Error::Finding(finding)) => report.add(&finding, &replay),
            Err(error) => return Err(error.into()),
        }
        report.seconds = start.elapsed().as_secs_f64();
        return Ok(report);
    }
    let schedules = schedules(arguments, simulation.warps());
    survey(config.entry, &schedules, &replay, |schedule| {
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
    survey(prepared.entry(), &schedules, &replay, |schedule| {
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
        place: sim::report::Place { line: 0, text: String::new(), source: None },
        threads: String::new(),
        notes: Vec::new(),
        history: Vec::new(),
        schedule: schedule.to_string(),
    })
}

/// Runs every schedule, and puts findings of the same kind at the same place together.
fn survey(
    entry: &str,
    schedules: &[Schedule],
    replay: &str,
    mut each: impl FnMut(&Schedule) -> Result<Result<Outcome, Box<Finding>>, Failure>,
) -> Result<Report, Failure> {
    let task = Progress::new(false).task(&format!("checking {entry}"), Some(schedules.len()));
    let start = Instant::now();
    let mut report = Report::new(entry);
    for schedule in schedules {
        match each(schedule)? {
            Ok(outcome) => report.instructions += outcome.instructions,
            Err(finding) => report.add(&finding, replay),
        }
        report.runs += 1;
        task.set(report.runs);
    }
    report.seconds = start.elapsed().as_secs_f64();
    Ok(report)
}

impl Report {
    fn new(entry: &str) -> Report {
        Report { kernel: entry.to_owned(), runs: 0, instructions: 0, seconds: 0.0, findings: Vec::new() }
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

    /// As text for people.
    fn text(&self) -> String {
        let mut text = String::new();
        for finding in &self.findings {
            text += &finding.report;
            text += &format!("  seen     in {} of {} schedules\n", finding.schedules.len(), self.runs);
            text += &format!("  again    {}\n\n", finding.replay);
        }
        let verdict = match self.findings.len() {
            0 => "no findings".to_owned(),
            1 => "1 finding".to_owned(),
            n => format!("{n} findings"),
        };
        text += &format!(
            "{}: {verdict} in {} schedules, {} warp instructions, {}\n",
            self.kernel,
            self.runs,
            self.instructions,
            units::seconds(self.seconds)
        );
        text
    }
}
