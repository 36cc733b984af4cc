//! The measurement.

use std::path::PathBuf;
use std::time::Duration;

use hopper_gemm::Result;
use hopper_gemm::tune::{Cache, Options, Rules, Tuned, tune};
use serde::Serialize;

use super::report::ShapeReport;
use super::{Arguments, budget, spaces};
use crate::cli::failure::Failure;
use crate::cli::{output, progress};

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    cache: PathBuf,
    shapes: Vec<ShapeReport>,
    notices: Vec<String>,
}

/// Tunes, prints, and remembers after each shape.
pub fn measure(arguments: &Arguments, path: PathBuf) -> Result<(), Failure> {
    let options = Options {
        device: arguments.device,
        spaces: spaces(arguments)?,
        rules: Rules { seed: arguments.seed, ..Rules::default() },
        pause: Options::PAUSE,
        burst: Options::BURST,
        budget: budget(arguments)?,
        seed: arguments.seed,
        progress: progress::steps(),
    };
    let duration = duration(&options);
    if arguments.json {
        output::complain("note", &duration);
    } else {
        output::print(&format!("{duration}\n"))?;
    }
    let mut report = Report { cache: path, shapes: Vec::new(), notices: Vec::new() };
    tune(&options, |tuned: &Tuned<'_>| {
        if !tuned.answers.is_empty() {
            let notice = Cache::merge(&report.cache, &tuned.answers)?;
            report.notices.extend(notice.map(|notice| notice.to_string()));
        }
        let shape = ShapeReport::new(tuned.space, &tuned.outcome, &tuned.answers, tuned.took.as_secs_f64());
        if !arguments.json {
            // Tuning goes on when nobody listens any more, for its answers go to a file.
            let _ = output::print(&format!("\n{}", shape.text(arguments.top)));
        }
        report.shapes.push(shape);
        Ok(())
    })?;
    if arguments.json {
        output::json(&report)?;
    } else {
        report.notices.iter().for_each(|notice| output::complain("note", notice));
        output::print(&format!("\nremembered in {}\n", report.cache.display()))?;
    }
    Ok(())
}

/// How long it will take.
fn duration(options: &Options) -> String {
    let first: Duration = options.spaces.iter().map(|space| options.first_round(space)).sum();
    let candidates: usize = options.spaces.iter().map(|space| space.starters().len()).sum();
    format!(
        "configurations: {candidates}, shapes: {}; about {:.0} s to measure each once, at most {:.0} s in all (--budget)",
        options.spaces.len(),
        first.as_secs_f64(),
        options.budget.as_secs_f64(),
    )
}
