//! What a race found, for people and as JSON.

use hopper_gemm::select::shared_name;
use hopper_gemm::tune::{Answer, End, Outcome, ShapeClass, Space, Standing};
use hopper_gemm::units;
use serde::Serialize;

use super::gain;
use crate::cli::output;

/// What was found for one shape.
#[derive(Serialize)]
pub struct ShapeReport {
    m: usize,
    n: usize,
    k: usize,
    #[serde(rename = "type")]
    element: &'static str,
    /// The shapes for which the answers hold.
    class: String,
    /// How long it took, in seconds.
    took_seconds: f64,
    /// Whether every configuration was measured; if not, nothing is remembered.
    complete: bool,
    /// Whether the budget was used up before the last round.
    cut_short: bool,
    candidates: Vec<CandidateReport>,
    refused: Vec<RefusedReport>,
    /// What is remembered.
    answers: Vec<Answer>,
}

#[derive(Serialize)]
struct CandidateReport {
    kernel: &'static str,
    entry: &'static str,
    band: u32,
    parts: u32,
    /// Median of the samples.
    seconds: Option<f64>,
    /// Floating-point operations a second.
    flops_per_second: Option<f64>,
    samples: Vec<f64>,
    #[serde(flatten)]
    end: End,
}

#[derive(Serialize)]
struct RefusedReport {
    kernel: &'static str,
    entry: &'static str,
    reason: String,
}

impl ShapeReport {
    /// Of a race in `space` that took so many seconds.
    pub fn new(space: &Space, outcome: &Outcome, answers: &[Answer], took_seconds: f64) -> ShapeReport {
        let problem = space.problem();
        let candidate = |standing: &Standing| CandidateReport {
            kernel: standing.candidate.config.kernel.name(),
            entry: standing.candidate.config.entry,
            band: standing.candidate.band,
            parts: standing.candidate.parts,
            seconds: standing.seconds(),
            flops_per_second: standing.seconds().map(|seconds| problem.flops() / seconds),
            samples: standing.samples.clone(),
            end: standing.end.clone(),
        };
        ShapeReport {
            m: problem.m(),
            n: problem.n(),
            k: problem.k(),
            element: problem.element().name(),
            class: ShapeClass::of(problem).to_string(),
            took_seconds,
            complete: outcome.complete,
            cut_short: outcome.cut_short,
            candidates: outcome.standings.iter().map(candidate).collect(),
            refused: space
                .refused()
                .into_iter()
                .map(|(config, refusal)| RefusedReport {
                    kernel: config.kernel.name(),
                    entry: config.entry,
                    reason: refusal.to_string(),
                })
                .collect(),
            answers: answers.to_vec(),
        }
    }

    /// The best `top`, what failed, what cannot run, and what is remembered.
    pub fn text(&self, top: usize) -> String {
        let samples: usize = self.candidates.iter().map(|candidate| candidate.samples.len()).sum();
        let ShapeReport { m, n, k, element, .. } = self;
        let mut text = format!(
            "{element} {m}×{n}×{k}: {samples} bursts of {} candidates in {}\n",
            self.candidates.len(),
            units::seconds(self.took_seconds)
        );
        let has_failed = |candidate: &CandidateReport| matches!(candidate.end, End::Failed { .. });
        let measured: Vec<&CandidateReport> =
            self.candidates.iter().filter(|candidate| candidate.seconds.is_some() && !has_failed(candidate)).collect();
        let fastest = measured.first().and_then(|candidate| candidate.seconds).unwrap_or_default();
        let row = |candidate: &&CandidateReport| {
            let seconds = candidate.seconds.unwrap_or(f64::INFINITY);
            vec![
                shared_name(candidate.entry, candidate.parts),
                candidate.band.to_string(),
                units::seconds(seconds),
                format!("{:.1}", candidate.flops_per_second.unwrap_or_default() * 1e-12),
                format!("{:.3}", fastest / seconds),
                candidate.samples.len().to_string(),
                self.remembered(candidate),
            ]
        };
        let header = ["configuration", "band", "time", "TFLOPS", "of best", "bursts", "remembered for"];
        text += &output::table(&header, measured.iter().take(top).map(row));
        let more = measured.len().saturating_sub(top);
        if more > 0 {
            text += &format!("… and {more} that are slower or were stopped early (--top, --json)\n");
        }
        for candidate in &self.candidates {
            if let End::Failed { reason } = &candidate.end {
                let name = shared_name(candidate.entry, candidate.parts);
                text += &format!("{name}, band {}: failed: {reason}\n", candidate.band);
            }
        }
        text += &self.refused_text();
        for answer in &self.answers {
            if answer.default_seconds.is_some() {
                let kernel = answer.kernel.as_deref().unwrap_or("any kernel");
                text += &format!("{kernel}: {} faster than the default\n", gain(answer));
            }
        }
        if !self.complete {
            let unmeasured = self.candidates.iter().filter(|candidate| candidate.end == End::NotMeasured).count();
            text += &format!(
                "the budget was used up before each configuration was measured once ({unmeasured} were not): nothing \
                 is remembered\n"
            );
        } else if self.cut_short {
            text += "the budget was used up before the last round: the best are less certain\n";
        }
        text
    }

    /// For which kernels `candidate` is the answer.
    fn remembered(&self, candidate: &CandidateReport) -> String {
        let is_it = |answer: &&Answer| {
            answer.entry == candidate.entry && (answer.band, answer.parts) == (candidate.band, candidate.parts)
        };
        let name = |answer: &Answer| answer.kernel.clone().unwrap_or_else(|| "any".to_owned());
        self.answers.iter().filter(is_it).map(name).collect::<Vec<_>>().join(", ")
    }

    /// The configurations that cannot run, those with the same reason in one row.
    fn refused_text(&self) -> String {
        let mut reasons: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for RefusedReport { kernel, entry, reason } in &self.refused {
            match reasons.iter_mut().find(|(other, why, _)| other == kernel && why == reason) {
                Some((_, _, entries)) => entries.push(entry),
                None => reasons.push((kernel, reason, vec![entry])),
            }
        }
        if reasons.is_empty() {
            return String::new();
        }
        let rows = reasons.into_iter().map(|(kernel, reason, entries)| {
            let first = entries.first().copied().unwrap_or_default();
            let named = match entries.len() {
                1 => first.to_owned(),
                count => format!("{first} and {} others", count - 1),
            };
            vec![kernel.to_owned(), named, reason.to_owned()]
        });
        let table = output::table(&["kernel", "not measured", "because it"], rows);
        format!(
            "{} configurations cannot run (`hopper-gemm kernels --refused` lists them):\n{table}",
            self.refused.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use hopper_gemm::Problem;
    use hopper_gemm::tune::{Candidate, Rules, Target, Track, answers, race};
    use indicatif::ProgressBar;
    use kernels::catalogue::{Element, Kernel};

    use super::*;

    /// Takes longer the more stages there are; one configuration is wrong.
    struct Model {
        left: usize,
    }

    impl Track for Model {
        fn enter(&mut self, _: &Candidate) -> hopper_gemm::Result<Result<(), String>> {
            Ok(Ok(()))
        }

        fn time(&mut self, candidate: &Candidate) -> hopper_gemm::Result<f64> {
            self.left -= 1;
            let tile = candidate.config.tile;
            let work = 128.0 * 64.0 / (tile.n * tile.k) as f64;
            Ok(1e-3 * work * (1.0 + 0.1 * candidate.config.stages as f64) + 1e-6 * f64::from(candidate.band))
        }

        fn check(&mut self, candidate: &Candidate) -> hopper_gemm::Result<Result<(), String>> {
            let wrong = candidate.config.entry == "v3_f16_128x128x64_s2";
            Ok(if wrong { Err(String::from("C[1, 2] is NaN")) } else { Ok(()) })
        }

        fn leave(&mut self, _: &Candidate) {}

        fn is_over(&self) -> bool {
            self.left == 0
        }
    }

    fn report(bursts: usize) -> ShapeReport {
        let space = Space::new(&Problem::new(Element::F16, 4096, 4096, 4096).unwrap(), &[Kernel::V3]).unwrap();
        let variants = |candidate: &Candidate| space.variants(candidate);
        let mut track = Model { left: bursts };
        let (starters, defaults) = (space.starters(), space.defaults());
        let outcome =
            race(&starters, &defaults, variants, &mut track, &Rules::default(), &ProgressBar::hidden()).unwrap();
        let target = Target::new("NVIDIA H200", "580.95");
        let answers = answers(&space, &outcome, &target, "2026-11-29T12:00:00Z");
        ShapeReport::new(&space, &outcome, &answers, 12.5)
    }

    #[test]
    fn the_best_come_first_and_what_cannot_run_has_its_reason() {
        let report = report(usize::MAX);
        let text = report.text(5);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("f16 4096×4096×4096: ") && lines[0].ends_with("in 12.500 s"), "{text}");
        // The second fastest configuration, for the fastest is wrong; with the lowest band.
        assert!(lines[2].starts_with("v3_f16_128x128x64_s3") && lines[2].ends_with("v3"), "{text}");
        assert_eq!(report.answers[0].band, 4);
        let band = kernels::catalogue::by_entry("v3_f16_128x128x64_s2").unwrap().band();
        assert!(text.contains(&format!("v3_f16_128x128x64_s2, band {band}: failed: C[1, 2] is NaN")), "{text}");
        assert!(text.contains("512 accumulator registers") && text.contains("256 accumulator registers"), "{text}");
        assert!(text.contains("v3_f16_256x256x16_s2 and 17 others"), "{text}");
        assert!(text.contains("slower or were stopped early"), "{text}");
        assert!(!text.contains("budget"), "{text}");
    }

    #[test]
    fn a_budget_that_was_too_small_is_said() {
        let text = report(3).text(5);
        assert!(text.contains("(33 were not): nothing is remembered"), "{text}");
        let text = report(40).text(5);
        assert!(text.contains("the best are less certain"), "{text}");
    }

    #[test]
    fn json_has_every_candidate_and_refusal() {
        let json = serde_json::to_value(report(usize::MAX)).unwrap();
        let candidates = json["candidates"].as_array().unwrap();
        assert!(candidates.len() > 36);
        let how = |how: &str| candidates.iter().filter(|candidate| candidate["how"] == how).count();
        assert!(how("finished") >= 1 && how("stopped") >= 18);
        assert!(candidates.iter().any(|candidate| candidate["reason"] == "C[1, 2] is NaN"));
        assert_eq!(json["refused"].as_array().unwrap().len(), 54);
        assert_eq!(json["answers"][0]["kernel"], "v3");
        assert_eq!(json["class"], "f16 4096x4096x4096");
    }
}
