//! What a benchmark writes and what tables and plots are made from.

use std::collections::BTreeMap;
use std::path::Path;

use kernels::catalogue::Element;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stats::Estimate;
use crate::error::{Error, Result};
use crate::files;

/// Version of the format: a change that readers must know of raises it.
pub const FORMAT: u32 = 1;

/// Among the facts of an arm: what a launch takes of the host, in seconds, where the product is so short that it may
/// matter.
pub const LAUNCH_SECONDS: &str = "launch_seconds";
/// A time that is not longer than a launch by more than this factor may be that of launching.
const LAUNCHING: f64 = 1.1;

/// One run of the benchmark. Times are in seconds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Results {
    /// [`FORMAT`].
    pub format: u32,
    /// Name and version of the program.
    pub program: String,
    /// The command line.
    pub command: String,
    /// When it started, in UTC, as RFC 3339 writes it.
    pub date: String,
    /// What it ran on.
    pub machine: Machine,
    /// Versions of the libraries that were compared with.
    pub libraries: BTreeMap<String, String>,
    /// How it measured.
    pub settings: Settings,
    /// What it measured.
    pub shapes: Vec<ShapeResults>,
    /// Why something that was asked for is missing.
    pub incomplete: Option<String>,
}

/// The device and its driver.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    /// Name of the device.
    pub device: String,
    /// Its multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of its L2 cache.
    pub l2_bytes: usize,
    /// The CUDA version that the driver supports.
    pub cuda: String,
    /// Version of the driver, where NVML says it.
    pub driver: Option<String>,
    /// Power limit in force, in watts, where NVML says it.
    pub power_limit_w: Option<f64>,
    /// Highest clock of the multiprocessors, in MHz, where NVML says it.
    pub max_clock_mhz: Option<f64>,
}

/// How the times were taken.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Settings {
    /// Seed of the operands and of the order of the arms.
    pub seed: u64,
    /// Rested: rounds, each one burst of every arm in an order of its own.
    pub rested_rounds: usize,
    /// Rested: pause before each burst.
    pub pause_s: f64,
    /// Rested: length of a burst.
    pub burst_s: f64,
    /// Sustained: how long the chip is warmed.
    pub warm_s: f64,
    /// Sustained: rounds, each one slot of every arm beside one of the baseline.
    pub sustained_rounds: usize,
    /// Sustained: length of a slot.
    pub slot_s: f64,
    /// Sustained: what is left out at the start of a slot.
    pub settle_s: f64,
}

/// One shape.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ShapeResults {
    /// Element type, `f16` or `bf16`.
    pub element: String,
    /// Rows of A and C.
    pub m: usize,
    /// Rows of B, columns of C.
    pub n: usize,
    /// Columns of A and B.
    pub k: usize,
    /// The group of a suite that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Leading dimensions of A, B and C, in elements: TMA reads rows that are multiples of 16 bytes apart, so
    /// where K is none, the rows of A and B are padded, for every arm.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leading_dimensions: Option<[usize; 3]>,
    /// Copies of A, B and C that the launches take in turn: more than one where a single copy would stay in
    /// the L2 cache.
    pub input_sets: usize,
    /// Name of the arm that ratios compare with.
    pub baseline: Option<String>,
    /// The arms, in the order in which they were asked for.
    pub arms: Vec<ArmResults>,
}

/// One way to compute the product.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ArmResults {
    /// Its name.
    pub name: String,
    /// What is known about it: registers and occupancy of a kernel, the algorithm of a library.
    pub facts: BTreeMap<String, Value>,
    /// Whether its result was right. One that was not is not timed.
    pub check: Check,
    /// Short bursts after a pause.
    pub rested: Option<Measurement>,
    /// Back to back on a chip that is warm.
    pub sustained: Option<Measurement>,
}

/// Whether a result was right.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Check {
    /// It was.
    Passed {
        /// ‖C − C₀‖ / ‖C₀‖ with C₀ of the first arm that was right; absent for that one.
        difference: Option<f64>,
    },
    /// It was not meant to be: the arm measures something else than a product.
    NotAProduct,
    /// It was not, or the arm failed.
    Failed {
        /// What was wrong.
        reason: String,
    },
}

/// What was measured of an arm in one regime.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// Time of one product.
    pub seconds: Estimate,
    /// 10¹² floating-point operations a second, at the median.
    pub tflops: f64,
    /// 10⁹ bytes of A, B and C a second, each counted once, at the median.
    pub gigabytes_per_second: f64,
    /// Time of the baseline over the time of the arm, pair by pair: above 1 the arm is faster.
    pub ratio: Option<Estimate>,
    /// Clock of the multiprocessors while it ran, in MHz: the median of the samples.
    pub clock_mhz: Option<f64>,
    /// Power while it ran, in watts: the median of the samples.
    pub power_w: Option<f64>,
    /// Energy of one product, from the device's energy counter: the median of the samples.
    pub joules: Option<f64>,
    /// Every sample, in the order in which they were taken.
    pub samples: Vec<Sample>,
}

/// One burst, or one slot.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Sample {
    /// The round it belongs to.
    pub round: usize,
    /// How many products were timed.
    pub products: usize,
    /// Time of one of them.
    pub seconds: f64,
    /// Time of the baseline in the same round or pair.
    pub baseline_seconds: Option<f64>,
    /// Clock of the multiprocessors, in MHz.
    pub clock_mhz: Option<f64>,
    /// Power, in watts.
    pub power_w: Option<f64>,
    /// Energy of one product.
    pub joules: Option<f64>,
}

impl ArmResults {
    /// Whether `measured`, of this arm, may be the time of launching and not of the product.
    pub fn is_launch_bound(&self, measured: &Measurement) -> bool {
        let launch = self.facts.get(LAUNCH_SECONDS).and_then(Value::as_f64);
        launch.is_some_and(|launch| measured.seconds.median < LAUNCHING * launch)
    }
}

impl ShapeResults {
    /// `4096×4096×14336`.
    pub fn size(&self) -> String {
        format!("{}×{}×{}", self.m, self.n, self.k)
    }

    /// The arm of this name.
    pub fn arm(&self, name: &str) -> Option<&ArmResults> {
        self.arms.iter().find(|arm| arm.name == name)
    }

    /// Those of the arms called `names` that there are, in the order of the names; all arms where there are no
    /// names.
    pub fn choose(&self, names: &[String]) -> Vec<&ArmResults> {
        if names.is_empty() {
            self.arms.iter().collect()
        } else {
            names.iter().filter_map(|name| self.arm(name)).collect()
        }
    }

    /// Floating-point operations of one product.
    pub fn flops(&self) -> f64 {
        2.0 * self.m as f64 * self.n as f64 * self.k as f64
    }

    /// Bytes of A, B and C.
    pub fn bytes(&self) -> f64 {
        let (m, n, k) = (self.m as f64, self.n as f64, self.k as f64);
        let element = Element::ALL.into_iter().find(|element| element.name() == self.element);
        (m * k + n * k + m * n) * element.map_or(2, Element::bytes) as f64
    }

    /// Sums up `samples` of one arm; `None` when there are none.
    pub fn measurement(&self, samples: Vec<Sample>) -> Option<Measurement> {
        let seconds = Estimate::of(&samples.iter().map(|sample| sample.seconds).collect::<Vec<_>>())?;
        let ratios: Vec<f64> =
            samples.iter().filter_map(|sample| Some(sample.baseline_seconds? / sample.seconds)).collect();
        let middle = |of: fn(&Sample) -> Option<f64>| super::stats::median(samples.iter().filter_map(of));
        Some(Measurement {
            tflops: self.flops() / seconds.median * 1e-12,
            gigabytes_per_second: self.bytes() / seconds.median * 1e-9,
            ratio: Estimate::of(&ratios),
            clock_mhz: middle(|sample| sample.clock_mhz),
            power_w: middle(|sample| sample.power_w),
            joules: middle(|sample| sample.joules),
            seconds,
            samples,
        })
    }
}

/// Refuses a name of `names` that no arm of `results` has.
pub(crate) fn require_arms(results: &[Results], names: &[String]) -> Result<()> {
    let shapes = || results.iter().flat_map(|results| &results.shapes);
    let Some(name) = names.iter().find(|name| !shapes().any(|shape| shape.arm(name).is_some())) else {
        return Ok(());
    };
    let mut known: Vec<String> = Vec::new();
    for arm in shapes().flat_map(|shape| &shape.arms) {
        if !known.contains(&arm.name) {
            known.push(arm.name.clone());
        }
    }
    Err(Error::NotInResults { what: format!("arm {name}"), known })
}

impl Results {
    /// Reads a file that [`Results::write`] wrote.
    pub fn read(path: &Path) -> Result<Results> {
        let failed = |reason: String| Error::ResultsFile { path: path.to_path_buf(), reason };
        let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
        let results: Results = serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?;
        if results.format != FORMAT {
            return Err(failed(format!("it has format {}; this program reads {FORMAT}", results.format)));
        }
        Ok(results)
    }

    /// Writes them as JSON, whole or not at all.
    pub fn write(&self, path: &Path) -> Result<()> {
        let failed = |reason: String| Error::ResultsFile { path: path.to_path_buf(), reason };
        let mut text = serde_json::to_string_pretty(self).map_err(|error| failed(error.to_string()))?;
        text.push('\n');
        files::write_whole(path, &text).map_err(|error| failed(error.to_string()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Results with two shapes and two arms, one of them wrong in the second shape.
    pub(crate) fn example() -> Results {
        let shape = |m, n, k, broken| {
            let mut shape = ShapeResults {
                element: String::from("f16"),
                m,
                n,
                k,
                group: None,
                leading_dimensions: None,
                input_sets: 1,
                baseline: Some(String::from("cublas")),
                arms: Vec::new(),
            };
            for (name, slower) in [("v3_f16_128x128x64_s2", 1.25), ("cublas", 1.0)] {
                let samples: Vec<Sample> = (0..7)
                    .map(|round| {
                        let baseline = 1e-3 * (1.0 + 0.01 * round as f64);
                        Sample {
                            round,
                            products: 10,
                            seconds: baseline * slower,
                            baseline_seconds: Some(baseline),
                            clock_mhz: Some(1500.0),
                            power_w: Some(600.0),
                            joules: Some(0.6 * slower),
                        }
                    })
                    .collect();
                let wrong = broken && name != "cublas";
                let measurement = if wrong { None } else { shape.measurement(samples) };
                shape.arms.push(ArmResults {
                    name: name.to_string(),
                    facts: BTreeMap::from([(String::from("registers"), Value::from(168))]),
                    check: if wrong {
                        Check::Failed { reason: String::from("C[3, 4] is NaN") }
                    } else {
                        Check::Passed { difference: Some(1e-5) }
                    },
                    rested: measurement.clone(),
                    sustained: if m == 8192 { measurement } else { None },
                });
            }
            shape
        };
        Results {
            format: FORMAT,
            program: String::from("hopper-gemm 0.1.0"),
            command: String::from("hopper-gemm bench"),
            date: String::from("2026-11-29T12:00:00Z"),
            machine: Machine {
                device: String::from("NVIDIA H200"),
                multiprocessors: 132,
                l2_bytes: 50 << 20,
                cuda: String::from("13.0"),
                driver: Some(String::from("580.95")),
                power_limit_w: Some(700.0),
                max_clock_mhz: Some(1980.0),
            },
            libraries: BTreeMap::from([(String::from("cuBLASLt"), String::from("13.0.2"))]),
            settings: Settings {
                seed: 1,
                rested_rounds: 7,
                pause_s: 0.15,
                burst_s: 0.01,
                warm_s: 5.0,
                sustained_rounds: 7,
                slot_s: 1.0,
                settle_s: 0.25,
            },
            shapes: vec![shape(8192, 8192, 8192, false), shape(4096, 4096, 14336, true)],
            incomplete: None,
        }
    }

    #[test]
    fn files_come_back_as_they_were_written() {
        let folder = std::env::temp_dir().join(format!("hopper-gemm-results-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("results.json");
        let results = example();
        results.write(&path).unwrap();
        let back = Results::read(&path).unwrap();
        assert!(serde_json::to_value(&back).unwrap() == serde_json::to_value(&results).unwrap());

        std::fs::write(&path, "{").unwrap();
        assert!(Results::read(&path).unwrap_err().to_string().contains("results.json"));
        let mut newer = results;
        newer.format = FORMAT + 1;
        newer.write(&path).unwrap();
        assert!(Results::read(&path).unwrap_err().to_string().contains(&format!("format {}", FORMAT + 1)));
        assert!(Results::read(&folder.join("absent.json")).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn ratios_are_taken_pair_by_pair() {
        let results = example();
        let measured = results.shapes[0].arms[0].rested.as_ref().unwrap();
        // The samples drift together; their ratio does not.
        let ratio = measured.ratio.unwrap();
        assert!((ratio.median - 0.8).abs() < 1e-12 && (ratio.high - ratio.low) < 1e-12);
        assert!((measured.tflops - 2.0 * 8192f64.powi(3) / measured.seconds.median * 1e-12).abs() < 1e-9);
        assert!((measured.joules.unwrap() - 0.75).abs() < 1e-12);
    }

    #[test]
    fn bytes_count_each_matrix_once() {
        let shape = &example().shapes[1];
        let (m, n, k) = (4096f64, 4096f64, 14336f64);
        assert_eq!(shape.bytes(), 2.0 * (m * k + n * k + m * n));
    }
}
