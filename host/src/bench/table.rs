//! Results as tables: for a terminal, and as Markdown for the README.

use std::fmt::Write as _;
use std::path::Path;

use super::results::{self, ArmResults, Check, Measurement, Results, ShapeResults};
use super::stats::{Estimate, geometric_mean};
use crate::error::{Error, Result};
use crate::units;

/// One of the two ways to measure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Regime {
    /// Short bursts after a pause.
    Rested,
    /// Back to back on a warm chip.
    Sustained,
}

impl Regime {
    /// Both, in the order in which they are measured.
    pub const ALL: [Regime; 2] = [Regime::Rested, Regime::Sustained];

    /// `rested`, `sustained`.
    pub const fn name(self) -> &'static str {
        match self {
            Regime::Rested => "rested",
            Regime::Sustained => "sustained",
        }
    }

    /// What was measured of `arm` in this regime.
    pub fn of(self, arm: &ArmResults) -> Option<&Measurement> {
        match self {
            Regime::Rested => arm.rested.as_ref(),
            Regime::Sustained => arm.sustained.as_ref(),
        }
    }
}

const COLUMNS: [&str; 8] = ["arm", "time", "TFLOPS", "GB/s", "ratio", "MHz", "W", "J"];

/// What was measured of one shape, as text for a terminal: a table for each regime, and what was wrong.
pub fn shape_text(shape: &ShapeResults) -> String {
    let mut out = String::new();
    let sets = match shape.input_sets {
        1 => String::from("one set of inputs"),
        sets => format!("{sets} sets of inputs by turns"),
    };
    let _ = writeln!(out, "{} {}, {sets}", shape.element, shape.size());
    for regime in Regime::ALL {
        let rows: Vec<Vec<String>> = shape.arms.iter().filter_map(|arm| Some(row(arm, regime.of(arm)?))).collect();
        if !rows.is_empty() {
            let _ = writeln!(out, "  {}", regime.name());
            align(&mut out, &rows);
        }
    }
    for arm in &shape.arms {
        if let Check::Failed { reason } = &arm.check {
            let _ = writeln!(out, "  {}: not timed: {reason}", arm.name);
        }
    }
    out
}

/// What concerns all shapes, as text for a terminal: the geometric mean of each arm's ratios where there
/// are several shapes, what is missing, and what it ran on.
pub fn summary_text(results: &Results) -> String {
    let mut out = String::new();
    for regime in Regime::ALL {
        for (name, mean, count) in means(results, regime) {
            let _ = writeln!(out, "geometric mean of {count} ratios, {}: {name} {mean:.3}", regime.name());
        }
    }
    if let Some(reason) = &results.incomplete {
        let _ = writeln!(out, "incomplete: {reason}");
    }
    let _ = writeln!(out, "{}; medians, in brackets the 95 % interval", provenance(results));
    out
}

/// Device, driver, libraries and date.
pub(crate) fn provenance(results: &Results) -> String {
    let machine = &results.machine;
    let driver = machine.driver.as_ref().map(|driver| format!(", driver {driver}")).unwrap_or_default();
    let libraries: String = results.libraries.iter().map(|(name, version)| format!(", {name} {version}")).collect();
    let date = results.date.split('T').next().unwrap_or(&results.date);
    format!("{}, CUDA {}{driver}{libraries}; {date}", machine.device, machine.cuda)
}

fn row(arm: &ArmResults, measured: &Measurement) -> Vec<String> {
    let or_dash =
        |value: Option<f64>, digits: usize| value.map_or(String::from("–"), |value| format!("{value:.digits$}"));
    vec![
        title(arm),
        units::seconds(measured.seconds.median),
        format!("{:.1}", measured.tflops),
        format!("{:.0}", measured.gigabytes_per_second),
        measured.ratio.as_ref().map_or(String::from("–"), ratio),
        or_dash(measured.clock_mhz, 0),
        or_dash(measured.power_w, 0),
        or_dash(measured.joules, 3),
    ]
}

/// The arm's name, and after it the kernel that it stands for where the name does not say so.
pub(super) fn title(arm: &ArmResults) -> String {
    match arm.facts.get("entry").and_then(|entry| entry.as_str()) {
        Some(entry) if !arm.name.starts_with(entry) => format!("{}: {entry}", arm.name),
        _ => arm.name.clone(),
    }
}

/// `0.861 (0.858–0.863)`.
pub(super) fn ratio(estimate: &Estimate) -> String {
    format!("{:.3} ({:.3}–{:.3})", estimate.median, estimate.low, estimate.high)
}

fn align(out: &mut String, rows: &[Vec<String>]) {
    let header: Vec<String> = COLUMNS.iter().map(|name| name.to_string()).collect();
    let width = |column: usize| {
        std::iter::once(&header).chain(rows).map(|row| row[column].chars().count()).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..COLUMNS.len()).map(width).collect();
    for row in std::iter::once(&header).chain(rows) {
        out.push_str("   ");
        for (i, (cell, width)) in row.iter().zip(&widths).enumerate() {
            let _ = if i == 0 { write!(out, " {cell:<width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.push('\n');
    }
}

/// Geometric mean of the ratios of each arm that was measured on several shapes, with their number.
fn means(results: &Results, regime: Regime) -> Vec<(String, f64, usize)> {
    let mut groups: Vec<(String, Vec<f64>)> = Vec::new();
    for shape in &results.shapes {
        for arm in &shape.arms {
            let is_baseline = shape.baseline.as_ref() == Some(&arm.name);
            let Some(ratio) = regime.of(arm).and_then(|measured| measured.ratio) else { continue };
            if is_baseline {
                continue;
            }
            match groups.iter_mut().find(|(name, _)| *name == arm.name) {
                Some((_, ratios)) => ratios.push(ratio.median),
                None => groups.push((arm.name.clone(), vec![ratio.median])),
            }
        }
    }
    groups
        .into_iter()
        .filter(|(_, ratios)| ratios.len() > 1)
        .filter_map(|(name, ratios)| Some((name, geometric_mean(ratios.iter().copied())?, ratios.len())))
        .collect()
}

/// The results as a Markdown table, one row for each shape and arm, with a line that says what they were
/// measured on and, of all arms, by which command. `arms` are the names of those that are shown, in this order; all when there are none.
///
/// # Errors
/// When an arm is in none of the results.
pub fn markdown(results: &[Results], arms: &[String]) -> Result<String> {
    results::require_arms(results, arms)?;
    let mut out = String::new();
    out.push_str(
        "| type | M×N×K | arm | rested TFLOPS | of baseline | sustained TFLOPS | of baseline | J a product |\n",
    );
    out.push_str("|---|---|---|--:|--:|--:|--:|--:|\n");
    for shape in results.iter().flat_map(|results| &results.shapes) {
        for arm in shape.choose(arms) {
            if arm.rested.is_some() || arm.sustained.is_some() {
                markdown_row(&mut out, shape, arm);
            }
        }
    }
    for results in results {
        // What is not the whole is not what the command made.
        let _ = match arms {
            [] => writeln!(out, "\n{}; `{}`", provenance(results), results.command),
            _ => writeln!(out, "\n{}", provenance(results)),
        };
    }
    Ok(out)
}

fn markdown_row(out: &mut String, shape: &ShapeResults, arm: &ArmResults) {
    let is_baseline = shape.baseline.as_ref() == Some(&arm.name);
    let cells = |measured: Option<&Measurement>| match measured {
        None => (String::from("–"), String::from("–")),
        Some(measured) => {
            let against = match &measured.ratio {
                Some(_) if is_baseline => String::from("1"),
                Some(estimate) => ratio(estimate),
                None => String::from("–"),
            };
            (format!("{:.0}", measured.tflops), against)
        }
    };
    let (rested, sustained) = (cells(arm.rested.as_ref()), cells(arm.sustained.as_ref()));
    let joules = arm.sustained.as_ref().and_then(|measured| measured.joules);
    let joules = joules.map_or(String::from("–"), |joules| format!("{joules:.3}"));
    let _ = writeln!(
        out,
        "| {} | {} | {} | {} | {} | {} | {} | {joules} |",
        shape.element,
        shape.size(),
        title(arm),
        rested.0,
        rested.1,
        sustained.0,
        sustained.1
    );
}

/// What a table in a Markdown file is made from, which the lines around it say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// From results.
    FromResults,
    /// From counters of Nsight Compute.
    FromCounters,
}

impl Made {
    /// The line before the table.
    pub const fn begin(self) -> &'static str {
        match self {
            Made::FromResults => "<!-- results: written by `hopper-gemm bench --table` -->",
            Made::FromCounters => "<!-- counters: written by `hopper-gemm bench --counters` -->",
        }
    }

    /// The line after it.
    pub const fn end(self) -> &'static str {
        match self {
            Made::FromResults => "<!-- end of results -->",
            Made::FromCounters => "<!-- end of counters -->",
        }
    }
}

/// Replaces what lies between the two lines of `made` in the file at `path` with `table`.
///
/// # Errors
/// When the file cannot be read or written, or does not have both lines once, in that order.
pub fn insert(path: &Path, made: Made, table: &str) -> Result<()> {
    let failed = |reason: String| Error::ResultsFile { path: path.to_path_buf(), reason };
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let text = replace(&text, made, table)
        .ok_or_else(|| failed(format!("it must have the lines `{}` and `{}`, each once", made.begin(), made.end())))?;
    std::fs::write(path, text).map_err(|error| failed(error.to_string()))
}

fn replace(text: &str, made: Made, table: &str) -> Option<String> {
    let (begin, end) = (made.begin(), made.end());
    let (before, rest) = text.split_once(begin)?;
    let (between, after) = rest.split_once(end)?;
    if between.contains(begin) || after.contains(begin) || after.contains(end) {
        return None;
    }
    Some(format!("{before}{begin}\n\n{}\n\n{end}{after}", table.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::tests::example;

    #[test]
    fn text_says_what_was_measured_and_what_was_wrong() {
        let results = example();
        let text: String = results.shapes.iter().map(shape_text).chain([summary_text(&results)]).collect();
        for part in
            ["f16 8192×8192×8192", "rested", "sustained", "0.800 (0.800–0.800)", "1500", "not timed: C[3, 4] is NaN"]
        {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        // The wrong arm has one ratio left, so there is no mean of it.
        assert!(!text.contains("geometric mean"), "{text}");
    }

    #[test]
    fn the_geometric_mean_is_over_shapes() {
        let mut results = example();
        results.shapes[1] = results.shapes[0].clone();
        let text = summary_text(&results);
        assert!(text.contains("geometric mean of 2 ratios, rested: v3_f16_128x128x64_s2 0.800"), "{text}");
        assert!(!text.contains("rested: cublas"), "{text}");
    }

    #[test]
    fn columns_line_up() {
        let text = shape_text(&example().shapes[0]);
        let table: Vec<&str> = text.lines().filter(|line| line.starts_with("    ")).collect();
        let widths: Vec<usize> = table[..3].iter().map(|line| line.chars().count()).collect();
        assert!(widths.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
    }

    #[test]
    fn markdown_leaves_out_what_was_not_timed() {
        let table = markdown(&[example()], &[]).unwrap();
        assert_eq!(table.lines().filter(|line| line.starts_with("| f16")).count(), 3, "{table}");
        assert!(table.contains("NVIDIA H200, CUDA 13.0, driver 580.95, cuBLASLt 13.0.2; 2026-11-29"), "{table}");
    }

    #[test]
    fn markdown_shows_the_arms_that_are_asked_for() {
        let table = markdown(&[example()], &["cublas".to_owned()]).unwrap();
        assert_eq!(table.lines().filter(|line| line.starts_with("| f16")).count(), 2, "{table}");
        assert!(
            !table.contains("hopper-gemm bench") && markdown(&[example()], &[]).unwrap().contains("hopper-gemm bench")
        );
        let error = markdown(&[example()], &["v9".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("v9") && error.contains("cublas"), "{error}");
    }

    #[test]
    fn arms_of_several_results_need_not_be_in_all() {
        let mut other = example();
        other.shapes.truncate(1);
        other.shapes[0].arms[0].name = "v4".to_owned();
        let names = ["v4".to_owned(), "v3_f16_128x128x64_s2".to_owned()];
        let table = markdown(&[example(), other], &names).unwrap();
        let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| f16")).collect();
        assert!(rows.len() == 2 && rows[0].contains("v3_") && rows[1].contains("v4"), "{table}");
    }

    #[test]
    fn tables_are_replaced_between_their_marks() {
        for made in [Made::FromResults, Made::FromCounters] {
            let (begin, end) = (made.begin(), made.end());
            let text = format!("before\n{begin}\nold\n{end}\nafter\n");
            let replaced = replace(&text, made, "new\n").unwrap();
            assert_eq!(replaced, format!("before\n{begin}\n\nnew\n\n{end}\nafter\n"));
            assert_eq!(replace(&replaced, made, "new").unwrap(), replaced);
            assert!(replace("no marks", made, "new").is_none());
            assert!(replace(&format!("{end}{begin}"), made, "new").is_none());
            assert!(replace(&format!("{text}{text}"), made, "new").is_none());
        }
        let text = format!("{}{}", Made::FromResults.begin(), Made::FromResults.end());
        assert!(replace(&text, Made::FromCounters, "new").is_none());
    }
}
