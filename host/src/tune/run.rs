//! Races on a device.

use std::time::{Duration, Instant};

use half::{bf16, f16};
use indicatif::ProgressBar;
use kernels::catalogue::Element as Kind;

use super::cache::{Answer, Target};
use super::race::{Candidate, Outcome, Rules, Track, race};
use super::space::{Space, answers};
use crate::bench::arm::{ArmSpec, Tools};
use crate::bench::results::Check;
use crate::bench::{Inputs, Runner, Timer, Verifier, driver_version};
use crate::cuda::{Device, DeviceInfo, Gemm, Prefer};
use crate::element::Element;
use crate::error::{Error, Result};

/// How long one product may take before it counts as one that hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// What is to be tuned, and how.
pub struct Options {
    /// Number of the device.
    pub device: u32,
    /// The kernels and shapes.
    pub spaces: Vec<Space>,
    /// When candidates drop out.
    pub rules: Rules,
    /// Pause before each burst.
    pub pause: Duration,
    /// Length of a burst.
    pub burst: Duration,
    /// No burst is begun after this long. Each shape gets an equal share of what is left when it begins.
    pub budget: Duration,
    /// Seed of the operands.
    pub seed: u64,
    /// Shows how far it is; hidden if nobody looks.
    pub progress: ProgressBar,
}

impl Options {
    /// Pause before each burst, as in suites ([`crate::bench::results::Settings::SUITE`]).
    pub const PAUSE: Duration = Duration::from_millis(100);
    /// Length of a burst.
    pub const BURST: Duration = Duration::from_millis(10);

    /// About how long the first round of `space` takes, in which each configuration is measured once; the others
    /// depend on what it finds, and end with the budget.
    pub fn first_round(&self, space: &Space) -> Duration {
        /// Floating-point operations a second that are assumed: about half of what the chip can do.
        const ASSUMED: f64 = 5e14;
        /// Bursts to find out how long a product takes, and to measure it.
        const BURSTS: f64 = 2.0;
        /// Products that run besides, as the first ones of bursts and the like.
        const PRODUCTS: f64 = 9.0;
        let product = space.problem().flops() / ASSUMED;
        let each = self.pause.as_secs_f64() + BURSTS * self.burst.as_secs_f64() + PRODUCTS * product;
        Duration::from_secs_f64(space.starters().len() as f64 * each)
    }
}

/// What was found for one shape.
pub struct Tuned<'a> {
    /// The candidates.
    pub space: &'a Space,
    /// How they came out.
    pub outcome: Outcome,
    /// What is worth keeping.
    pub answers: Vec<Answer>,
    /// How long it took.
    pub took: Duration,
}

impl Target {
    /// The kernels of this program on `device`, with machine code from where `prefer` says: ptxas and the driver
    /// allocate registers differently.
    pub fn of(device: &DeviceInfo, prefer: Prefer) -> Target {
        let driver = driver_version().unwrap_or_else(|| format!("CUDA {}", device.driver));
        let mut target = Target::new(&device.name, &driver);
        if prefer == Prefer::Jit {
            target.kernels.push_str(Target::JIT);
        }
        target
    }
}

/// Tunes one shape after the other, and gives `each` what was found for it: answers are not kept unless it does.
///
/// # Errors
/// When the device cannot be used, or a kernel hangs on it.
pub fn tune(options: &Options, mut each: impl FnMut(&Tuned<'_>) -> Result<()>) -> Result<()> {
    let device = Device::open(options.device)?;
    let prefer = Prefer::from_environment();
    let gemm = Gemm::with_preference(&device, prefer)?;
    let target = Target::of(device.info(), prefer);
    let deadline = Instant::now() + options.budget;
    for (index, space) in options.spaces.iter().enumerate() {
        let begun = Instant::now();
        let share = deadline.saturating_duration_since(begun) / (options.spaces.len() - index) as u32;
        let outcome = match space.problem().element() {
            Kind::F16 => run::<f16>(options, &gemm, space, begun + share)?,
            Kind::Bf16 => run::<bf16>(options, &gemm, space, begun + share)?,
        };
        let date = humantime::format_rfc3339_seconds(std::time::SystemTime::now()).to_string();
        let answers = answers(space, &outcome, &target, &date);
        let tuned = Tuned { space, outcome, answers, took: begun.elapsed() };
        options.progress.suspend(|| each(&tuned))?;
    }
    options.progress.finish_and_clear();
    Ok(())
}

fn run<T: Element>(options: &Options, gemm: &Gemm, space: &Space, deadline: Instant) -> Result<Outcome> {
    let stream = gemm.device().stream()?;
    let tools = Tools {
        gemm,
        stream: &stream,
        #[cfg(feature = "cublas")]
        cublas: None,
        proposals: 0,
    };
    let problem = space.problem();
    options.progress.set_message("inputs");
    let inputs = Inputs::<T>::new(&stream, (problem.m(), problem.n(), problem.k()), options.seed)?;
    let mut track = DeviceTrack {
        options,
        tools: &tools,
        inputs: &inputs,
        timer: Timer::new(&stream, None)?,
        verifier: Verifier::new(),
        deadline,
        runners: Vec::new(),
    };
    let variants = |candidate: &Candidate| space.variants(candidate);
    race(&space.starters(), &space.defaults(), variants, &mut track, &options.rules, &options.progress)
}

/// A device as a track.
struct DeviceTrack<'a, T: Element> {
    options: &'a Options,
    tools: &'a Tools<'a>,
    inputs: &'a Inputs<T>,
    timer: Timer<'a>,
    verifier: Verifier<T>,
    deadline: Instant,
    /// Those that are on the track.
    runners: Vec<(Candidate, Runner<'a>)>,
}

impl<'a, T: Element> DeviceTrack<'a, T> {
    /// A runner that was launched once. Whoever hangs shows it here.
    fn runner(&self, candidate: &Candidate) -> Result<Runner<'a>> {
        let stream = self.tools.stream;
        let mut arm = ArmSpec::of_config(candidate.selection()).prepare(self.tools, self.inputs)?;
        arm.launch(stream, 0)?;
        stream.synchronize_within(LIMIT)?;
        Runner::new(arm, self.inputs.sets(), stream, self.options.burst)
    }
}

impl<T: Element> Track for DeviceTrack<'_, T> {
    fn enter(&mut self, candidate: &Candidate) -> Result<Result<(), String>> {
        match self.runner(candidate) {
            Ok(runner) => {
                self.runners.push((*candidate, runner));
                Ok(Ok(()))
            }
            // The device is lost, and with it all that was to be measured.
            Err(error @ Error::Hang { .. }) => Err(error),
            Err(error) => Ok(Err(error.to_string())),
        }
    }

    fn time(&mut self, candidate: &Candidate) -> Result<f64> {
        let runner = find(&mut self.runners, candidate)?;
        Ok(self.timer.rested(runner, 0, self.options.pause)?.seconds)
    }

    fn check(&mut self, candidate: &Candidate) -> Result<Result<(), String>> {
        let runner = find(&mut self.runners, candidate)?;
        Ok(match self.verifier.check(runner.arm.as_mut(), self.tools.stream, self.inputs)? {
            Check::Passed { .. } => Ok(()),
            Check::Failed { reason } => Err(reason),
            Check::NotAProduct => Err(String::from("it computes no product")),
        })
    }

    fn leave(&mut self, candidate: &Candidate) {
        self.runners.retain(|(other, _)| other != candidate);
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// The runner of `candidate`, which has entered.
fn find<'r, 'a>(runners: &'r mut [(Candidate, Runner<'a>)], candidate: &Candidate) -> Result<&'r mut Runner<'a>> {
    let found = runners.iter_mut().find(|(other, _)| other == candidate);
    found.map(|(_, runner)| runner).ok_or_else(|| Error::UnknownEntry { entry: candidate.config.entry.to_string() })
}
