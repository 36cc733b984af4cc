//! `hopper-gemm info`: a doctor.

mod libraries;
mod tools;

use clap::Args;
use hopper_gemm::modules::MODULES;
use serde::Serialize;

use super::failure::Failure;
use super::output::{self, Facts};

/// Look at everything that the program can use, and say what is missing and what to do.
#[derive(Args)]
pub struct Arguments {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was found about one thing, and what follows.
#[derive(Serialize)]
struct Finding {
    name: &'static str,
    state: State,
    found: String,
    /// What the thing is for, or what the lack of it means.
    meaning: String,
    /// What to do about it, where something should or can be done.
    advice: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum State {
    /// There and fit.
    Ok,
    /// Not there, or not fit.
    Missing,
}

impl Finding {
    fn ok(name: &'static str, found: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { name, state: State::Ok, found: found.into(), meaning: meaning.into(), advice: None }
    }

    fn missing(name: &'static str, found: impl Into<String>, meaning: impl Into<String>, advice: &str) -> Self {
        Self {
            name,
            state: State::Missing,
            found: found.into(),
            meaning: meaning.into(),
            advice: Some(advice.to_owned()),
        }
    }
}

#[derive(Serialize)]
struct Report {
    findings: Vec<Finding>,
    /// What the findings amount to.
    conclusion: String,
}

/// Runs the command. What is missing is a finding, not a failure.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut findings = vec![program(), cpu()];
    findings.extend(tools::findings());
    let (gpu, usable) = libraries::findings();
    findings.extend(gpu);
    let conclusion = conclusion(usable).to_owned();
    let report = Report { findings, conclusion };
    if arguments.json {
        output::json(&report)?;
    } else {
        output::print(&report.text())?;
    }
    Ok(())
}

fn program() -> Finding {
    let cubins = MODULES.iter().filter(|module| module.cubin.is_some()).count();
    let features: Vec<&str> = [("cuda", cfg!(feature = "cuda")), ("cublas", cfg!(feature = "cublas"))]
        .into_iter()
        .filter_map(|(name, built)| built.then_some(name))
        .collect();
    let with = if features.is_empty() { "neither cuda nor cublas".to_owned() } else { features.join(" and ") };
    let found = format!(
        "{} {}, features: {with}; {} kernels, {cubins} of them assembled",
        env!("CARGO_PKG_NAME"),
        env!("CARGO_PKG_VERSION"),
        MODULES.len()
    );
    if cfg!(feature = "cuda") {
        Finding::ok("program", found, "runs on GPUs, and on the CPU")
    } else {
        Finding::missing(
            "program",
            found,
            "runs on the CPU alone",
            "for GPUs, build with `cargo build --release --features cuda`, or cuda,cublas to measure beside cuBLAS",
        )
    }
}

fn cpu() -> Finding {
    let threads = rayon::current_num_threads();
    Finding::ok("CPU", format!("{threads} threads"), "multiplies where no GPU does, and checks what a GPU computes")
}

fn conclusion(gpu: bool) -> &'static str {
    match (gpu, cfg!(feature = "cuda")) {
        (true, true) => "The GPU can be used.",
        (true, false) => "There is a GPU for these kernels, and this program was built without support for it.",
        (false, _) => "No GPU can be used here; the CPU can.",
    }
}

impl Report {
    fn text(&self) -> String {
        let mut facts = Facts::default();
        for Finding { name, state, found, meaning, advice } in &self.findings {
            let mark = if *state == State::Ok { "ok" } else { "--" };
            facts.add(name, format!("{mark}  {found}"));
            facts.add(name, format!("    {meaning}"));
            if let Some(advice) = advice {
                facts.add(name, format!("    → {advice}"));
            }
        }
        format!("{}\n{}\n", facts.text(), self.conclusion)
    }
}
