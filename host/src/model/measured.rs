//! The model against the measurements that its constants and exceptions come from.

use std::collections::BTreeMap;

use kernels::catalogue::{Element, by_entry};
use serde::Deserialize;

use super::*;
use crate::select::shared_name;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/h200-f16-configurations.json");

#[derive(Deserialize)]
struct Measurements {
    shapes: Vec<Shape>,
}

/// Times in microseconds.
#[derive(Deserialize)]
struct Shape {
    m: usize,
    n: usize,
    k: usize,
    torch: f64,
    /// By entry and band, `ENTRY@BAND`, with `ENTRY/PARTS` where clusters share tiles.
    microseconds: BTreeMap<String, f64>,
}

impl Shape {
    fn sizes(&self) -> [usize; 3] {
        [self.m, self.n, self.k]
    }

    fn best(&self) -> (&str, f64) {
        let best = self.microseconds.iter().min_by(|a, b| a.1.total_cmp(b.1)).unwrap();
        (best.0, *best.1)
    }

    /// The time of a configuration over the best; infinite for one that was not measured.
    fn ratio(&self, candidate: &Candidate) -> f64 {
        let name = format!("{}@{}", shared_name(candidate.config.entry, candidate.parts), candidate.band);
        self.microseconds.get(&name).map_or(f64::INFINITY, |us| us / self.best().1)
    }
}

fn measurements() -> Vec<Shape> {
    let text = std::fs::read_to_string(FILE).unwrap();
    let Measurements { shapes } = serde_json::from_str(&text).unwrap();
    assert!(shapes.len() > 50);
    shapes
}

fn alone(shape: &Shape) -> Candidate {
    ranked(Element::F16, None, shape.sizes())[0]
}

fn share_within(ratios: &[f64], limit: f64) -> f64 {
    ratios.iter().filter(|&&ratio| ratio <= limit).count() as f64 / ratios.len() as f64
}

#[test]
fn measured_configurations_are_in_the_catalogue() {
    for shape in measurements() {
        for name in shape.microseconds.keys() {
            let entry = name.split(['@', '/']).next().unwrap();
            assert!(by_entry(entry).is_some_and(|config| KERNELS.contains(&config.kernel)), "{name}");
        }
    }
}

#[test]
fn the_choice_is_near_the_best_that_was_measured() {
    let mut ratios = Vec::new();
    let mut against_torch = 0.0;
    let shapes = measurements();
    for shape in &shapes {
        let Pick { candidate, exception } = choose(Element::F16, None, shape.sizes()).unwrap();
        let (ratio, (best, us)) = (shape.ratio(&candidate), shape.best());
        println!(
            "{:>22} {:36} {:9.2} µs predicted {:9.2} measured {ratio:6.3} of {best}{}",
            format!("{}x{}x{}", shape.m, shape.n, shape.k),
            format!("{}@{}", shared_name(candidate.config.entry, candidate.parts), candidate.band),
            candidate.prediction.seconds * 1e6,
            ratio * us,
            if exception.is_some() { ", an exception" } else { "" },
        );
        ratios.push(ratio);
        against_torch += (shape.torch / (ratio * us)).ln() / shapes.len() as f64;
    }
    let worst = ratios.iter().copied().fold(0.0, f64::max);
    let within = share_within(&ratios, 1.03);
    println!(
        "{:.0} % of {} shapes within 3 % of the best, the worst {worst:.3}; {:.3} of torch.mm's speed",
        100.0 * within,
        ratios.len(),
        against_torch.exp()
    );
    assert!(within >= 0.9, "{within}");
    assert!(worst <= 1.1, "{worst}");
}

#[test]
fn the_model_alone_is_seldom_far_off() {
    let ratios: Vec<f64> = measurements().iter().map(|shape| shape.ratio(&alone(shape))).collect();
    let [near, far] = [1.03, 1.1].map(|limit| share_within(&ratios, limit));
    println!("without exceptions {:.0} % within 3 %, {:.0} % within 10 %", 100.0 * near, 100.0 * far);
    assert!(near >= 0.8 && far >= 0.9, "{near} {far}");
}

/// What would be chosen for `shape` if it had no exception of its own: that of a neighbour's, if one covers it, else the model's.
fn without_its_own(shape: &Shape) -> Candidate {
    let of_others = |exception: &Exception, _: &Config| exception.measured != shape.sizes();
    excepted(Element::F16, shape.sizes(), of_others).map_or_else(|| alone(shape), |pick| pick.candidate)
}

/// An exception for each shape for which the model's own choice is more than 0.5 % behind, or was not measured; and for each that
/// would get a neighbour's, and be so with it.
#[test]
fn exceptions_are_those_that_the_measurements_call_for() {
    let mut wanted = Vec::new();
    for shape in measurements() {
        if [alone(&shape), without_its_own(&shape)].iter().any(|choice| shape.ratio(choice) > 1.005) {
            let (shared, band) = shape.best().0.split_once('@').unwrap();
            let (entry, parts) = shared.split_once('/').unwrap_or((shared, "1"));
            let [m, n, k] = shape.sizes();
            wanted.push(format!("exception([{m}, {n}, {k}], \"{entry}\", {parts}, {band}),"));
        }
    }
    let kept = EXCEPTIONS.iter().map(|&Exception { measured: [m, n, k], entry, parts, band }| {
        format!("exception([{m}, {n}, {k}], \"{entry}\", {parts}, {band}),")
    });
    assert!(kept.eq(wanted.iter().cloned()), "the exceptions are not these:\n    {}", wanted.join("\n    "));
}
