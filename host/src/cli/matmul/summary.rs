//! What `hopper-gemm matmul` prints.

use std::path::PathBuf;

use hopper_gemm::check::Report;
use hopper_gemm::problem::Work;
use hopper_gemm::tune::{Choice, Origin};
use hopper_gemm::units;
use serde::Serialize;

use crate::cli::output::Facts;

/// What is printed, for people or as JSON.
#[derive(Serialize)]
pub struct Summary {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    #[serde(rename = "type")]
    pub element: &'static str,
    pub a: Source,
    pub b: Source,
    pub device: DeviceSummary,
    pub kernel: Option<KernelSummary>,
    pub simulation: Option<SimulationSummary>,
    /// Of one product, without copies between host and device.
    pub seconds: f64,
    /// Runs of which `seconds` is the median.
    pub runs: usize,
    pub flops_per_second: f64,
    pub check: Option<CheckSummary>,
    pub out: Option<Written>,
    pub notes: Vec<String>,
}

/// Where a matrix came from.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Random { seed: u64 },
    File { path: PathBuf, stored: String, exact: bool, overflowed: usize },
}

/// Where the product was computed.
#[derive(Serialize)]
pub struct DeviceSummary {
    /// As the option `--device` names it.
    pub option: String,
    pub name: String,
    /// Why this one, where the program chose.
    pub why: Option<String>,
}

/// What computed it.
#[derive(Serialize)]
pub struct KernelSummary {
    pub entry: &'static str,
    /// As the driver has it, where a GPU ran it.
    #[serde(flatten)]
    pub usage: Option<Usage>,
    /// What made the machine code, or took its place.
    pub code: &'static str,
    pub chosen: Chosen,
}

/// Why this kernel.
#[derive(Serialize)]
pub struct Chosen {
    /// `request`, `tuning` or `default`.
    pub by: &'static str,
    /// Rows of tiles that are taken together.
    pub band: usize,
    /// Clusters that share the K of each tile.
    pub parts: u32,
    /// Where it was tuned: for which shapes, and when.
    #[serde(flatten)]
    pub tuned: Option<TunedFor>,
}

/// What an answer of the tuner holds for.
#[derive(Serialize)]
pub struct TunedFor {
    pub class: String,
    pub date: String,
}

impl Chosen {
    /// What is to be said of `choice`.
    pub fn new(choice: &Choice) -> Chosen {
        let (by, tuned) = match &choice.origin {
            Origin::Request => ("request", None),
            Origin::Default => ("default", None),
            Origin::Tuned(answer) => {
                ("tuning", Some(TunedFor { class: answer.class.clone(), date: answer.date.clone() }))
            }
        };
        let band = choice.band.map_or(choice.config.band(), |band| band as usize);
        Chosen { by, band, parts: choice.parts, tuned }
    }

    fn text(&self) -> String {
        let why = match &self.tuned {
            Some(TunedFor { class, date }) => {
                format!("tuned for {class} on {}", date.split('T').next().unwrap_or_default())
            }
            None if self.by == "default" => "the default for this shape".to_owned(),
            None => "as asked for".to_owned(),
        };
        let shared = if self.parts == 1 { String::new() } else { format!(", each shared by {} clusters", self.parts) };
        format!("{why}; tiles in bands of {} rows{shared}", self.band)
    }
}

/// What a kernel takes of a multiprocessor.
#[derive(Serialize)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    pub blocks_per_multiprocessor: u32,
}

/// What the simulator did.
#[derive(Serialize)]
pub struct SimulationSummary {
    /// Schedules that the kernel ran under.
    pub schedules: usize,
    /// Warp instructions of all of them.
    pub instructions: u64,
    pub instructions_per_second: f64,
}

#[derive(Serialize)]
pub struct CheckSummary {
    pub passed: bool,
    pub reference: &'static str,
    pub relative_error: f64,
    pub relative_error_bound: f64,
    pub max_ulp: f64,
    pub max_ulp_bound: f64,
    /// The first NaN, or else where the largest error is.
    pub worst: Option<Worst>,
    pub nan: usize,
    pub reference_nan: usize,
    pub infinite: usize,
    pub seconds: f64,
}

/// An element of C and of the reference.
#[derive(Serialize)]
pub struct Worst {
    pub row: usize,
    pub column: usize,
    pub output: f64,
    pub reference: f64,
}

#[derive(Serialize)]
pub struct Written {
    pub path: PathBuf,
    pub stored: String,
}

impl CheckSummary {
    /// What `report` says of a comparison with `reference` that took `seconds`.
    pub fn new(report: &Report, reference: &'static str, seconds: f64) -> Self {
        let place = report.first_nan.or(report.worst);
        CheckSummary {
            passed: report.passed(),
            reference,
            relative_error: report.relative_error(),
            relative_error_bound: report.relative_error_bound(),
            max_ulp: report.max_ulp,
            max_ulp_bound: report.max_ulp_bound,
            worst: place.map(|place| Worst {
                row: place.row,
                column: place.column,
                output: place.output,
                reference: place.reference,
            }),
            nan: report.nan,
            reference_nan: report.reference_nan,
            infinite: report.infinite,
            seconds,
        }
    }

    /// What is wrong, when anything is.
    pub fn fault(&self) -> Option<String> {
        let Self { nan, reference_nan, .. } = self;
        if self.passed {
            None
        } else if *reference_nan > 0 {
            Some(format!(
                "{reference_nan} elements of A·Bᵀ are NaN, because A or B hold NaN or infinities, and so are {nan} of C; \
                 NaN never passes"
            ))
        } else if *nan > 0 {
            Some(format!("the product is wrong: {nan} elements of C are NaN, and none of A·Bᵀ"))
        } else {
            Some("the product is wrong: it differs from the reference by more than rounding explains".to_owned())
        }
    }

    fn add_to(&self, facts: &mut Facts) {
        let verdict = if self.passed { "passed" } else { "FAILED" };
        facts.add("check", format!("{verdict}, against {} ({})", self.reference, units::seconds(self.seconds)));
        if self.nan > 0 || self.reference_nan > 0 {
            facts
                .add("check", format!("NaN in {} elements of C and {} of the reference", self.nan, self.reference_nan));
        }
        if self.infinite > 0 {
            facts.add("check", format!("{} elements are the same infinity in both", self.infinite));
        }
        if self.relative_error_bound.is_finite() {
            facts.add(
                "check",
                format!(
                    "‖C − reference‖/‖reference‖ = {:.3e}, bound {:.3e}",
                    self.relative_error, self.relative_error_bound
                ),
            );
        } else {
            facts.add("check", format!("the reference is zero, ‖C‖/‖reference‖ = {}", self.relative_error));
        }
        facts.add("check", format!("largest error {:.3} ulp, bound {:.3}", self.max_ulp, self.max_ulp_bound));
        if let Some(worst) = self.worst.as_ref().filter(|_| !self.passed) {
            let Worst { row, column, output, reference } = worst;
            facts.add("check", format!("row {row}, column {column}: {output} in place of {reference}"));
        }
    }
}

impl Summary {
    /// As lines for people.
    pub fn text(&self, work: Work) -> String {
        let mut facts = Facts::default();
        let Summary { m, n, k, element, .. } = self;
        facts.add("C = A·Bᵀ", format!("{m}×{n} from A {m}×{k} and B {n}×{k}, {element}"));
        for (name, source) in [("A", &self.a), ("B", &self.b)] {
            facts.add(name, source.text(element));
        }
        let why = self.device.why.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        facts.add("device", format!("{}{why}", self.device.name));
        if let Some(kernel) = &self.kernel {
            let usage = kernel.usage.as_ref().map_or(String::new(), |usage| {
                format!(
                    "{} registers, {} blocks on a multiprocessor, ",
                    usage.registers, usage.blocks_per_multiprocessor
                )
            });
            facts.add("kernel", format!("{}, {usage}{}", kernel.entry, kernel.code));
            facts.add("kernel", kernel.chosen.text());
        }
        facts.add(
            "time",
            match work {
                Work::Nothing => "nothing to compute: C has no elements".to_owned(),
                Work::Zeros => "nothing to multiply: K is 0, so C is zero".to_owned(),
                Work::Product => {
                    let runs = if self.runs > 1 { format!(", median of {} runs", self.runs) } else { String::new() };
                    format!("{}, {}{runs}", units::seconds(self.seconds), units::flops(self.flops_per_second))
                }
            },
        );
        if let Some(simulation) = &self.simulation {
            let SimulationSummary { schedules, instructions, instructions_per_second } = simulation;
            let schedules = if *schedules == 1 { "1 schedule".to_owned() } else { format!("{schedules} schedules") };
            let rate = units::per_second(*instructions_per_second);
            facts.add("simulation", format!("{schedules}, {instructions} warp instructions, {rate}"));
        }
        if let Some(check) = &self.check {
            check.add_to(&mut facts);
        }
        if let Some(Written { path, stored }) = &self.out {
            facts.add("written", format!("{}, {stored}", path.display()));
        }
        for note in &self.notes {
            facts.add("note", note);
        }
        facts.text()
    }
}

impl Source {
    fn text(&self, element: &str) -> String {
        match self {
            Source::Random { seed } => format!("random normal, seed {seed}"),
            Source::File { path, stored, exact, overflowed } => {
                let mut text = format!("{}, {stored}", path.display());
                if !exact {
                    text += &format!(", rounded to {element}");
                }
                if *overflowed > 0 {
                    text += &format!("; {overflowed} elements are too large for {element} and became infinite");
                }
                text
            }
        }
    }
}
