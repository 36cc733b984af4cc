//! The whole benchmark: shapes, arms, rounds.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use half::{bf16, f16};
use indicatif::ProgressBar;
use kernels::catalogue;
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;

use super::arm::{ArmSpec, Tools};
use super::inputs::Inputs;
use super::monitor::Monitor;
use super::regimes::{Runner, Timer};
use super::results::{ArmResults, Check, FORMAT, LAUNCH_SECONDS, Machine, Results, Sample, Settings, ShapeResults};
use super::table::Regime;
use super::verify::Verifier;
use crate::cuda::{Device, Gemm};
use crate::element::Element;
use crate::error::{Error, Result};

/// What is to be measured.
pub struct Options {
    /// Number of the device.
    pub device: u32,
    /// Element type of A, B and C.
    pub element: catalogue::Element,
    /// The shapes.
    pub shapes: Vec<Shape>,
    /// The arms.
    pub arms: Vec<ArmSpec>,
    /// In which regimes.
    pub regimes: Vec<Regime>,
    /// How the times are taken.
    pub settings: Settings,
    /// How many of cuBLASLt's proposals are tried; the fastest becomes the baseline.
    pub proposals: usize,
    /// No new round or shape is begun after this long.
    pub budget: Option<Duration>,
    /// After this long in one regime of one shape no new round of it is begun. The first is always run.
    pub shape_budget: Option<Duration>,
    /// The command line, to be written into the results.
    pub command: String,
    /// Shows how far it is; hidden if nobody looks.
    pub progress: ProgressBar,
}

/// A product to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// M, N and K.
    pub sizes: (usize, usize, usize),
    /// The group of a suite that it belongs to.
    pub group: Option<String>,
}

impl From<(usize, usize, usize)> for Shape {
    fn from(sizes: (usize, usize, usize)) -> Shape {
        Shape { sizes, group: None }
    }
}

impl Settings {
    /// What gives intervals of a percent or less.
    pub const THOROUGH: Settings = Settings {
        seed: 1,
        rested_rounds: 25,
        pause_s: 0.15,
        burst_s: 0.01,
        warm_s: 5.0,
        sustained_rounds: 9,
        slot_s: 1.0,
        settle_s: 0.25,
    };
    /// What gives a first impression.
    pub const QUICK: Settings = Settings {
        rested_rounds: 7,
        warm_s: 2.0,
        sustained_rounds: 3,
        slot_s: 0.7,
        settle_s: 0.2,
        ..Settings::THOROUGH
    };
    /// For suites of many shapes: a few seconds for each. Six rounds are the fewest that give an interval of
    /// 95 %.
    pub const SUITE: Settings = Settings {
        rested_rounds: 6,
        pause_s: 0.1,
        warm_s: 1.0,
        sustained_rounds: 3,
        slot_s: 0.6,
        settle_s: 0.2,
        ..Settings::THOROUGH
    };
}

/// Measures.
///
/// # Errors
/// When the device or a library cannot be used at all. What goes wrong later ends the measurement, and is
/// said in [`Results::incomplete`].
///
/// After each shape `each` is given what there is so far, the new shape last.
pub fn run(options: &Options, mut each: impl FnMut(&Results) -> Result<()>) -> Result<Results> {
    let device = Device::open(options.device)?;
    let gemm = Gemm::new(&device)?;
    let stream = device.stream()?;
    let monitor = Monitor::start(device.info());
    let facts = monitor.as_ref().map(|monitor| monitor.facts().clone()).unwrap_or_default();
    let info = device.info();
    let mut results = Results {
        format: FORMAT,
        program: concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION")).to_string(),
        command: options.command.clone(),
        date: humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        machine: Machine {
            device: info.name.clone(),
            multiprocessors: info.multiprocessors,
            l2_bytes: info.l2_bytes,
            cuda: info.driver.to_string(),
            driver: facts.driver,
            power_limit_w: facts.power_limit_w,
            max_clock_mhz: facts.max_clock_mhz,
        },
        libraries: BTreeMap::new(),
        settings: options.settings.clone(),
        shapes: Vec::new(),
        incomplete: monitor.as_ref().err().map(|reason| format!("no clock, power and energy: {reason}")),
    };
    #[cfg(feature = "cublas")]
    let cublas = if options.arms.iter().any(ArmSpec::needs_cublas) {
        let cublas = crate::cublas::Cublas::new(&device)?;
        results.libraries = cublas.versions()?;
        Some(cublas)
    } else {
        None
    };
    let tools = Tools {
        gemm: &gemm,
        stream: &stream,
        #[cfg(feature = "cublas")]
        cublas: cublas.as_ref(),
        proposals: options.proposals,
    };
    let mut session = Session {
        options,
        tools: &tools,
        timer: Timer::new(&stream, monitor.as_ref().ok())?,
        order: ChaCha8Rng::seed_from_u64(options.settings.seed),
        deadline: options.budget.map(|budget| Instant::now() + budget),
        shape_deadline: None,
    };
    options.progress.set_length((options.shapes.len() * session.steps()) as u64);
    for shape in &options.shapes {
        let outcome = match options.element {
            catalogue::Element::F16 => session.measure::<f16>(shape, &mut results.shapes),
            catalogue::Element::Bf16 => session.measure::<bf16>(shape, &mut results.shapes),
        };
        if let Err(error) = outcome {
            let (m, n, k) = shape.sizes;
            results.incomplete = Some(format!("{m}×{n}×{k}: {error}"));
            break;
        }
        options.progress.suspend(|| each(&results))?;
        if session.is_over() {
            let budget = options.budget.unwrap_or_default().as_secs_f64();
            results.incomplete = Some(format!("the budget of {budget} s was used up"));
            break;
        }
    }
    options.progress.finish_and_clear();
    Ok(results)
}

/// What all shapes share.
struct Session<'a> {
    options: &'a Options,
    tools: &'a Tools<'a>,
    timer: Timer<'a>,
    order: ChaCha8Rng,
    deadline: Option<Instant>,
    shape_deadline: Option<Instant>,
}

impl Session<'_> {
    fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Whether round `round` of a shape is not to be begun.
    fn is_enough_before(&self, round: usize) -> bool {
        self.is_over() || round > 0 && self.shape_deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Steps of the progress bar for one shape.
    fn steps(&self) -> usize {
        let Options { arms, regimes, settings, .. } = self.options;
        let rounds = |regime: &Regime| match regime {
            Regime::Rested => settings.rested_rounds,
            Regime::Sustained => settings.sustained_rounds,
        };
        arms.len() * (1 + regimes.iter().map(rounds).sum::<usize>())
    }

    /// Measures one shape and adds what it found to `shapes`, also when it fails on the way.
    fn measure<T: Element>(&mut self, asked: &Shape, shapes: &mut Vec<ShapeResults>) -> Result<()> {
        let (m, n, k) = asked.sizes;
        if m == 0 || n == 0 || k == 0 {
            return Err(Error::EmptyProduct { m, n, k });
        }
        let Options { settings, progress, regimes, .. } = self.options;
        let mut shape = ShapeResults {
            element: T::KIND.name().to_string(),
            m,
            n,
            k,
            group: asked.group.clone(),
            leading_dimensions: None,
            input_sets: 0,
            baseline: None,
            arms: Vec::new(),
        };
        progress.set_message(format!("{}: inputs", shape.size()));
        let inputs = Inputs::<T>::new(self.tools.stream, (m, n, k), settings.seed)?;
        shape.input_sets = inputs.sets();
        let problem = inputs.problem();
        shape.leading_dimensions = Some([problem.lda(), problem.ldb(), problem.ldc()]);
        let mut runners = self.prepare(&inputs, &mut shape)?;
        let baseline = self.baseline(&runners);
        shape.baseline = baseline.map(|index| shape.arms[index].name.clone());
        let mut outcome = Ok(());
        for &regime in regimes {
            let mut samples = vec![Vec::new(); runners.len()];
            progress.set_message(format!("{}: {}", shape.size(), regime.name()));
            self.shape_deadline = self.options.shape_budget.map(|budget| Instant::now() + budget);
            outcome = match regime {
                Regime::Rested => self.rested(&mut runners, baseline, &mut samples),
                Regime::Sustained => self.sustained(&mut runners, baseline, &mut samples),
            };
            for (index, samples) in samples.into_iter().enumerate() {
                let measurement = shape.measurement(samples);
                match regime {
                    Regime::Rested => shape.arms[index].rested = measurement,
                    Regime::Sustained => shape.arms[index].sustained = measurement,
                }
            }
            if outcome.is_err() {
                break;
            }
        }
        shapes.push(shape);
        outcome
    }

    /// Prepares and checks every arm; those that are right get a runner.
    fn prepare<'b, T: Element>(
        &self,
        inputs: &'b Inputs<T>,
        shape: &mut ShapeResults,
    ) -> Result<Vec<Option<Runner<'b>>>>
    where
        Self: 'b,
    {
        let Options { arms: specs, settings, progress, .. } = self.options;
        let stream = self.tools.stream;
        let mut verifier = Verifier::<T>::new();
        let mut prepared: Vec<Option<(ArmResults, Option<Runner<'b>>)>> = specs.iter().map(|_| None).collect();
        // The baseline first: the others are then compared with it.
        let mut order: Vec<usize> = (0..specs.len()).collect();
        order.sort_by_key(|&index| !specs[index].is_baseline());
        for index in order {
            let spec = &specs[index];
            progress.set_message(format!("{}: checking {}", shape.size(), spec.name()));
            let mut results = ArmResults {
                name: spec.name().to_string(),
                facts: BTreeMap::new(),
                check: Check::Passed { difference: None },
                rested: None,
                sustained: None,
            };
            let runner = match spec.prepare(self.tools, inputs) {
                Err(error) => {
                    results.check = Check::Failed { reason: error.to_string() };
                    None
                }
                Ok(mut arm) => {
                    results.facts = arm.facts();
                    results.check = verifier.check(arm.as_mut(), stream, inputs)?;
                    match results.check {
                        Check::Passed { .. } | Check::NotAProduct => {
                            let burst = Duration::from_secs_f64(settings.burst_s);
                            let runner = Runner::new(arm, inputs.sets(), stream, burst)?;
                            let launch = runner.launch_seconds().map(|it| (LAUNCH_SECONDS.to_string(), it.into()));
                            results.facts.extend(launch);
                            Some(runner)
                        }
                        Check::Failed { .. } => None,
                    }
                }
            };
            prepared[index] = Some((results, runner));
            progress.inc(1);
        }
        let mut runners = Vec::with_capacity(specs.len());
        for (results, runner) in prepared.into_iter().flatten() {
            shape.arms.push(results);
            runners.push(runner);
        }
        Ok(runners)
    }

    /// The arm that the others are compared with: cuBLAS, or else the first that multiplies.
    fn baseline(&self, runners: &[Option<Runner<'_>>]) -> Option<usize> {
        let multiplies = |index: &usize| runners[*index].as_ref().is_some_and(|runner| runner.arm.multiplies());
        let right = || (0..runners.len()).filter(multiplies);
        right().find(|&index| self.options.arms[index].is_baseline()).or_else(|| right().next())
    }

    /// One burst of every arm a round, in an order of its own.
    fn rested(
        &mut self,
        runners: &mut [Option<Runner<'_>>],
        baseline: Option<usize>,
        samples: &mut [Vec<Sample>],
    ) -> Result<()> {
        let settings = &self.options.settings;
        let mut order: Vec<usize> = (0..runners.len()).filter(|&index| runners[index].is_some()).collect();
        for round in 0..settings.rested_rounds {
            if self.is_enough_before(round) {
                break;
            }
            order.shuffle(&mut self.order);
            for &index in &order {
                let Some(runner) = &mut runners[index] else { continue };
                let sample = self.timer.rested(runner, round, Duration::from_secs_f64(settings.pause_s))?;
                samples[index].push(sample);
                self.options.progress.inc(1);
            }
            let beside = baseline.and_then(|index| samples[index].last()).map(|sample| sample.seconds);
            for &index in &order {
                if let Some(sample) = samples[index].last_mut() {
                    sample.baseline_seconds = beside;
                }
            }
        }
        Ok(())
    }

    /// One slot of every arm a round, beside one of the baseline, in either order.
    fn sustained(
        &mut self,
        runners: &mut [Option<Runner<'_>>],
        baseline: Option<usize>,
        samples: &mut [Vec<Sample>],
    ) -> Result<()> {
        let settings = self.options.settings.clone();
        let (slot, settle) = (Duration::from_secs_f64(settings.slot_s), Duration::from_secs_f64(settings.settle_s));
        let Some(baseline) = baseline else { return Ok(()) };
        let Some(mut beside) = runners[baseline].take() else { return Ok(()) };
        let outcome = (|| {
            self.timer.warm(&mut beside, Duration::from_secs_f64(settings.warm_s))?;
            let mut order: Vec<usize> = (0..runners.len()).filter(|&index| runners[index].is_some()).collect();
            for round in 0..settings.sustained_rounds {
                if self.is_enough_before(round) {
                    break;
                }
                order.shuffle(&mut self.order);
                if order.is_empty() && !self.is_over() {
                    let sample = self.timer.sustained(&mut beside, round, slot, settle)?;
                    samples[baseline].push(Sample { baseline_seconds: Some(sample.seconds), ..sample });
                    self.options.progress.inc(1);
                }
                for &index in &order {
                    if self.is_over() {
                        return Ok(());
                    }
                    let Some(runner) = &mut runners[index] else { continue };
                    let mut coin = [false, true];
                    coin.shuffle(&mut self.order);
                    let (of_arm, of_baseline) = if coin[0] {
                        let first = self.timer.sustained(&mut beside, round, slot, settle)?;
                        (self.timer.sustained(runner, round, slot, settle)?, first)
                    } else {
                        let first = self.timer.sustained(runner, round, slot, settle)?;
                        (first, self.timer.sustained(&mut beside, round, slot, settle)?)
                    };
                    let paired = |sample| Sample { baseline_seconds: Some(of_baseline.seconds), ..sample };
                    samples[index].push(paired(of_arm));
                    samples[baseline].push(paired(of_baseline));
                    self.options.progress.inc(1);
                }
            }
            Ok(())
        })();
        runners[baseline] = Some(beside);
        outcome
    }
}
