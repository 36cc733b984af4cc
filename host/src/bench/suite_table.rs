//! Results of a suite as tables: a line for each shape, geometric means of the groups, and every loss.

use std::fmt::Write as _;

use super::results::{ArmResults, Check, Measurement, Results, ShapeResults};
use super::stats::{Estimate, geometric_mean};
use super::table::{Regime, provenance, ratio, title};
use crate::units;

/// A ratio to the baseline below this is a loss.
const LOSS: f64 = 1.0;
/// One below this is a heavy loss.
const HEAVY_LOSS: f64 = 0.95;

/// Whether the results are of a suite: its shapes belong to groups.
pub fn is_suite(results: &Results) -> bool {
    results.shapes.iter().any(|shape| shape.group.is_some())
}

/// `loss` or `LOSS` for a ratio that is one.
fn mark(ratio: &Estimate) -> &'static str {
    match ratio.median {
        heavy if heavy < HEAVY_LOSS => "LOSS",
        light if light < LOSS => "loss",
        _ => "",
    }
}

/// `launch` where the time of the arm or of the baseline may be that of launching it.
fn launch_mark(shape: &ShapeResults, arm: &ArmResults, regime: Regime) -> &'static str {
    let is_bound = |arm: &ArmResults| regime.of(arm).is_some_and(|measured| arm.is_launch_bound(measured));
    let bound = shape.arms.iter().any(|it| (it.name == arm.name || is_baseline(shape, it)) && is_bound(it));
    if bound { "launch" } else { "" }
}

const LEGEND: &str = "loss: slower than the baseline; LOSS: by more than 5 %; launch: one of the two is so short that \
                      the host cannot launch it faster";

/// What was measured of `shape`, as lines for a terminal: one for each arm and regime beside the baseline, and
/// before them a heading where `after`, the shape before it, is of another group.
pub fn shape_lines(shape: &ShapeResults, after: Option<&ShapeResults>) -> String {
    let mut out = String::new();
    if after.is_none_or(|after| after.group != shape.group) {
        let name = shape.group.as_deref().unwrap_or("no group");
        let _ = writeln!(
            out,
            "{name:<20} {:<9} {:>10} {:>7} {:>6}  {:>8}  {:<33}  arm",
            "regime", "time", "TFLOPS", "GB/s", "baseline", "ratio"
        );
    }
    for arm in &shape.arms {
        if let Check::Failed { reason } = &arm.check {
            let _ = writeln!(out, "{:<20} {}: not timed: {reason}", shape.size(), arm.name);
            continue;
        }
        if is_baseline(shape, arm) && shape.arms.len() > 1 {
            continue;
        }
        for regime in Regime::ALL {
            let Some(measured) = regime.of(arm) else { continue };
            let baseline = baseline(shape, regime).map_or(String::from("–"), |it| format!("{:.1}", it.tflops));
            let marked = |it| [ratio(it).as_str(), mark(it), launch_mark(shape, arm, regime)].join(" ");
            let against = measured.ratio.as_ref().map_or(String::from("–"), marked);
            let _ = writeln!(
                out,
                "{:<20} {:<9} {:>10} {:>7.1} {:>6.0}  {baseline:>8}  {against:<33}  {}",
                shape.size(),
                regime.name(),
                units::seconds(measured.seconds.median),
                measured.tflops,
                measured.gigabytes_per_second,
                title(arm),
            );
        }
    }
    out
}

/// The geometric means of each group and of all shapes, and how the operands were stored and rotated, for a
/// terminal.
pub fn summary_text(results: &Results) -> String {
    let mut out = String::new();
    for regime in Regime::ALL {
        let tallies: Vec<Tally> = tallies(&[results]).into_iter().filter(|tally| tally.regime == regime).collect();
        for (i, tally) in tallies.iter().enumerate() {
            if i == 0 {
                let _ = writeln!(
                    out,
                    "{:<20} {:>6}  {:>9}  {:>7}  {:>11}  arm, {}",
                    "group",
                    "shapes",
                    "geo. mean",
                    "below 1",
                    "below 0.95",
                    regime.name()
                );
            }
            let _ = writeln!(
                out,
                "{:<20} {:>6}  {:>9}  {:>7}  {:>11}  {}",
                tally.group_name(),
                tally.count(),
                tally.mean_text(),
                tally.below(LOSS),
                tally.below(HEAVY_LOSS),
                tally.arm,
            );
        }
    }
    for line in [LEGEND.to_string()].into_iter().chain(conditions(results)) {
        let _ = writeln!(out, "{line}");
    }
    if let Some(reason) = &results.incomplete {
        let _ = writeln!(out, "incomplete: {reason}");
    }
    let _ = writeln!(out, "{}; medians, in brackets the 95 % interval", provenance(results));
    out
}

/// The results as Markdown: a table of the groups, one of the shapes, and on what they were measured.
pub fn markdown(results: &[Results]) -> String {
    let mut out = String::from(
        "| type | group | shapes | arm | rested | below 1 | below 0.95 | sustained | below 1 | below 0.95 |\n\
         |---|---|--:|---|--:|--:|--:|--:|--:|--:|\n",
    );
    let all: Vec<&Results> = results.iter().collect();
    let tallies = tallies(&all);
    let mut rows: Vec<[Option<&Tally>; 2]> = Vec::new();
    for tally in &tallies {
        let column = usize::from(tally.regime == Regime::Sustained);
        let same = |row: &&mut [Option<&Tally>; 2]| row.iter().flatten().any(|other| other.is_beside(tally));
        match rows.iter_mut().find(same) {
            Some(row) => row[column] = Some(tally),
            None => {
                let mut row = [None, None];
                row[column] = Some(tally);
                rows.push(row);
            }
        }
    }
    for row in &rows {
        let Some(any) = row.iter().flatten().next() else { continue };
        let cells = row.map(|tally| match tally {
            None => String::from("– | – | –"),
            Some(tally) => format!("{} | {} | {}", tally.mean_text(), tally.below(LOSS), tally.below(HEAVY_LOSS)),
        });
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} |",
            any.element,
            any.group_name(),
            any.count(),
            any.arm,
            cells[0],
            cells[1]
        );
    }
    out.push_str(
        "\n| type | group | M×N×K | arm | time | TFLOPS | GB/s | of baseline | sustained TFLOPS | of baseline |\n\
         |---|---|---|---|--:|--:|--:|--:|--:|--:|\n",
    );
    for shape in results.iter().flat_map(|results| &results.shapes) {
        for arm in shape.arms.iter().filter(|arm| !is_baseline(shape, arm)) {
            let _ = writeln!(out, "{}", markdown_row(shape, arm));
        }
    }
    let _ = writeln!(out, "\nTime, TFLOPS and GB/s are rested where that was measured. {LEGEND}.");
    for results in results {
        let conditions: String = conditions(results).map(|line| format!("; {line}")).collect();
        let incomplete = results.incomplete.as_ref().map(|it| format!("; incomplete: {it}")).unwrap_or_default();
        let _ = write!(out, "\n{}{conditions}{incomplete}; `{}`\n", provenance(results), results.command);
    }
    out
}

fn markdown_row(shape: &ShapeResults, arm: &ArmResults) -> String {
    let against = |regime: Regime| match regime.of(arm).and_then(|measured| measured.ratio) {
        None => String::from("–"),
        Some(it) => {
            let shown = if mark(&it).is_empty() { ratio(&it) } else { format!("**{}** {}", ratio(&it), mark(&it)) };
            [shown.as_str(), launch_mark(shape, arm, regime)].join(" ").trim_end().to_string()
        }
    };
    let group = shape.group.as_deref().unwrap_or("–");
    let first = Regime::ALL.into_iter().find_map(|regime| regime.of(arm));
    let numbers = match (&arm.check, first) {
        (Check::Failed { reason }, _) => {
            format!("not timed: {} | – | –", reason.replace('|', "\\|").replace('\n', " "))
        }
        (_, None) => String::from("– | – | –"),
        (_, Some(it)) => {
            format!("{} | {:.0} | {:.0}", units::seconds(it.seconds.median), it.tflops, it.gigabytes_per_second)
        }
    };
    let sustained = arm.sustained.as_ref().map_or(String::from("–"), |it| format!("{:.0}", it.tflops));
    format!(
        "| {} | {group} | {} | {} | {numbers} | {} | {sustained} | {} |",
        shape.element,
        shape.size(),
        title(arm),
        against(Regime::Rested),
        against(Regime::Sustained),
    )
}

/// How the operands were rotated and stored, in words.
fn conditions(results: &Results) -> impl Iterator<Item = String> {
    let rotated: Vec<&ShapeResults> = results.shapes.iter().filter(|shape| shape.input_sets > 1).collect();
    let l2 = results.machine.l2_bytes;
    let times = |shape: &&ShapeResults| shape.input_sets as f64 * shape.bytes() / l2.max(1) as f64;
    let fewest = rotated.iter().map(times).fold(f64::INFINITY, f64::min);
    let rotation = (!rotated.is_empty()).then(|| {
        format!(
            "shapes whose launches take their operands by turns from several sets, which together hold at least \
             {fewest:.1} times the L2 cache of {}: {} of {}",
            units::bytes(l2 as u128),
            rotated.len(),
            results.shapes.len()
        )
    });
    let is_padded = |shape: &&ShapeResults| shape.leading_dimensions.is_some_and(|[lda, ..]| lda != shape.k);
    let padded = results.shapes.iter().filter(is_padded).count();
    let padding =
        (padded > 0).then(|| format!("shapes whose rows of A and B are padded to 16 bytes, for every arm: {padded}"));
    rotation.into_iter().chain(padding)
}

fn is_baseline(shape: &ShapeResults, arm: &ArmResults) -> bool {
    shape.baseline.as_ref() == Some(&arm.name)
}

fn baseline(shape: &ShapeResults, regime: Regime) -> Option<&Measurement> {
    regime.of(shape.arms.iter().find(|arm| is_baseline(shape, arm))?)
}

/// What an arm's ratios in one regime come to, in one group or in all.
struct Tally<'a> {
    element: &'a str,
    /// `None` for all.
    group: Option<&'a str>,
    arm: &'a str,
    regime: Regime,
    ratios: Vec<f64>,
    /// Shapes that were measured and of which this arm has no ratio.
    missing: usize,
}

impl Tally<'_> {
    fn group_name(&self) -> &str {
        self.group.unwrap_or("all")
    }

    /// `9`, or `8 of 9` where some have no ratio.
    fn count(&self) -> String {
        match self.missing {
            0 => self.ratios.len().to_string(),
            missing => format!("{} of {}", self.ratios.len(), self.ratios.len() + missing),
        }
    }

    fn mean_text(&self) -> String {
        geometric_mean(self.ratios.iter().copied()).map_or(String::from("–"), |mean| format!("{mean:.3}"))
    }

    fn below(&self, limit: f64) -> usize {
        self.ratios.iter().filter(|&&ratio| ratio < limit).count()
    }

    /// Whether it is the same in another regime.
    fn is_beside(&self, other: &Tally<'_>) -> bool {
        (self.element, self.group, self.arm) == (other.element, other.group, other.arm)
    }
}

/// The tallies of every type, arm, regime and group, the groups in their order and then all.
fn tallies<'a>(results: &[&'a Results]) -> Vec<Tally<'a>> {
    let shapes: Vec<&ShapeResults> = results.iter().flat_map(|results| &results.shapes).collect();
    let mut elements: Vec<&str> = Vec::new();
    let mut groups: Vec<Option<&str>> = Vec::new();
    let mut arms: Vec<&str> = Vec::new();
    fn add<T: PartialEq>(list: &mut Vec<T>, item: T) {
        if !list.contains(&item) {
            list.push(item);
        }
    }
    for shape in &shapes {
        add(&mut elements, &shape.element);
        if let Some(group) = &shape.group {
            add(&mut groups, Some(group));
        }
        shape.arms.iter().filter(|arm| !is_baseline(shape, arm)).for_each(|arm| add(&mut arms, &arm.name));
    }
    groups.push(None);
    let mut tallies = Vec::new();
    for &element in &elements {
        for &arm in &arms {
            for &group in &groups {
                for regime in Regime::ALL {
                    let mut tally = Tally { element, group, arm, regime, ratios: Vec::new(), missing: 0 };
                    let within = |shape: &&&ShapeResults| {
                        shape.element == element && group.is_none_or(|group| shape.group.as_deref() == Some(group))
                    };
                    for shape in shapes.iter().filter(within) {
                        let Some(found) = shape.arms.iter().find(|other| other.name == arm) else { continue };
                        // Where nothing was measured in this regime, nothing is missing.
                        if shape.arms.iter().all(|arm| regime.of(arm).is_none()) {
                            continue;
                        }
                        match regime.of(found).and_then(|measured| measured.ratio) {
                            Some(ratio) if !is_baseline(shape, found) => tally.ratios.push(ratio.median),
                            _ => tally.missing += 1,
                        }
                    }
                    if tally.ratios.len() + tally.missing > 0 {
                        tallies.push(tally);
                    }
                }
            }
        }
    }
    tallies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::LAUNCH_SECONDS;
    use crate::bench::results::tests::example;

    /// Two groups: in the first the kernel has 0.8 of the baseline and once is wrong, in the second 1.02 and 0.97.
    fn suite() -> Results {
        let mut results = example();
        for shape in &mut results.shapes {
            shape.group = Some(String::from("squares"));
        }
        for (size, ratio) in [(1000, 1.02), (1001, 0.97)] {
            let mut shape = results.shapes[0].clone();
            (shape.m, shape.n, shape.k) = (size, size, size);
            shape.group = Some(String::from("ragged"));
            shape.input_sets = 32;
            shape.leading_dimensions = Some([size.next_multiple_of(8); 3]);
            shape.arms[0].sustained = None;
            shape.arms[1].sustained = None;
            for arm in &mut shape.arms {
                if let Some(Measurement { ratio: Some(estimate), .. }) =
                    arm.rested.as_mut().filter(|_| arm.name != "cublas")
                {
                    *estimate = Estimate { median: ratio, low: ratio, high: ratio, ..*estimate };
                }
            }
            results.shapes.push(shape);
        }
        results
    }

    #[test]
    fn lines_name_time_ratio_and_losses() {
        let results = suite();
        let mut text = String::new();
        for (i, shape) in results.shapes.iter().enumerate() {
            text += &shape_lines(shape, i.checked_sub(1).map(|before| &results.shapes[before]));
        }
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.iter().filter(|line| line.contains("regime")).count(), 2, "a heading a group\n{text}");
        let line = |part: &str, regime: &str| {
            lines.iter().find(|line| line.contains(part) && line.contains(regime)).copied().unwrap_or_default()
        };
        assert!(line("8192×8192×8192", "sustained").contains("0.800 (0.800–0.800) LOSS"), "{text}");
        assert!(line("1001×1001×1001", "rested").contains("0.970 (0.970–0.970) loss"), "{text}");
        assert!(!line("1000×1000×1000", "rested").to_lowercase().contains("loss"), "{text}");
        assert!(text.contains("v3_f16_128x128x64_s2: not timed: C[3, 4] is NaN"), "{text}");
        assert!(is_suite(&results) && !is_suite(&example()));
    }

    #[test]
    fn means_are_of_groups_and_of_all() {
        let text = summary_text(&suite());
        let row = |name: &str| -> Vec<String> {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
            line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_string).collect()
        };
        assert_eq!(row("squares")[1..5], ["1 of 2", "0.800", "1", "1"], "{text}");
        assert_eq!(row("ragged")[1..5], ["2", "0.995", "1", "0"], "{text}");
        let all = (0.8f64 * 1.02 * 0.97).cbrt();
        assert_eq!(row("all")[1..5], ["3 of 4", &format!("{all:.3}"), "2", "1"], "{text}");
        // 32 sets of 1000×1000×1000 are 192 MB of 52.4.
        assert!(text.contains("3.7 times the L2 cache of 50.0 MiB: 2 of 4"), "{text}");
        assert!(text.contains("rows of A and B are padded to 16 bytes, for every arm: 1"), "{text}");
    }

    #[test]
    fn markdown_has_groups_shapes_and_losses() {
        let text = markdown(&[suite()]);
        assert!(
            text.contains("| f16 | squares | 1 of 2 | v3_f16_128x128x64_s2 | 0.800 | 1 | 1 | 0.800 | 1 | 1 |"),
            "{text}"
        );
        assert!(text.contains("| f16 | ragged | 2 | v3_f16_128x128x64_s2 | 0.995 | 1 | 0 | – | – | – |"), "{text}");
        assert!(text.contains("**0.970 (0.970–0.970)** loss"), "{text}");
        assert!(text.contains("not timed: C[3, 4] is NaN"), "{text}");
        assert!(text.contains("`hopper-gemm bench`"), "{text}");
        // Rows of one table have as many cells as its head.
        for table in text.split("\n\n").filter(|part| part.starts_with("| type")) {
            let cells: Vec<usize> = table.lines().map(|line| line.matches('|').count()).collect();
            assert!(cells.iter().all(|&count| count == cells[0]), "{table}");
        }
    }

    #[test]
    fn what_the_host_cannot_launch_faster_is_marked() {
        let mut results = suite();
        let shape = results.shapes.last_mut().unwrap();
        let seconds = shape.arms[1].rested.as_ref().unwrap().seconds.median;
        shape.arms[1].facts.insert(LAUNCH_SECONDS.to_string(), (0.5 * seconds).into());
        assert!(!shape_lines(shape, None).contains("loss launch"));
        shape.arms[1].facts.insert(LAUNCH_SECONDS.to_string(), (0.95 * seconds).into());
        let lines = shape_lines(shape, None);
        assert!(lines.contains("0.970 (0.970–0.970) loss launch"), "{lines}");
        assert!(markdown(&[results]).contains("| **0.970 (0.970–0.970)** loss launch |"));
    }

    #[test]
    fn a_baseline_that_failed_is_a_hole_in_the_mean_and_not_a_win() {
        let mut results = suite();
        let shape = results.shapes.last_mut().unwrap();
        shape.baseline = Some(shape.arms[0].name.clone());
        shape.arms[1].check = Check::Failed { reason: String::from("no proposal that runs") };
        shape.arms[1].rested = None;
        let text = summary_text(&results);
        let ragged = text.lines().find(|line| line.starts_with("ragged")).unwrap();
        assert!(ragged.contains("1 of 2") && ragged.contains("1.020"), "{text}");
    }
}
