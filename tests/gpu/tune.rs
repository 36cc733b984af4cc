//! The tuner on a device, in its shortest form.

use std::time::Duration;

use hopper_gemm::Problem;
use hopper_gemm::cuda::Prefer;
use hopper_gemm::select::Request;
use hopper_gemm::tune::{Cache, End, Options, Origin, Rules, Space, Target, choose, tune};
use kernels::catalogue::{Element, Kernel};

use crate::support::{Failure, Gpu, Test, ensure, test};

pub fn tests() -> Vec<Test> {
    vec![
        test("tune::finds_and_remembers", finds_and_remembers),
        test("tune::ends_with_its_budget", ends_with_its_budget),
    ]
}

fn options(problem: &Problem, budget: Duration) -> Result<Options, Failure> {
    Ok(Options {
        device: 0,
        spaces: vec![Space::new(problem, &[Kernel::V5])?],
        rules: Rules { rounds: 3, final_round: 1, finalists: 3, ..Rules::default() },
        pause: Duration::ZERO,
        burst: Duration::from_millis(1),
        budget,
        seed: 1,
        progress: indicatif::ProgressBar::hidden(),
    })
}

/// Some candidates are measured to the end and are right, others are stopped, none fails; the answer is kept, and
/// used by who asks for the kernel.
fn finds_and_remembers(gpu: &Gpu) -> Result<(), Failure> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("tune.json");
    let problem = Problem::new(Element::F16, 2100, 2000, 2056)?;
    let mut seen = 0;
    tune(&options(&problem, Duration::from_secs(60))?, |tuned| {
        seen += 1;
        Cache::merge(&path, &tuned.answers)?;
        assert!(tuned.outcome.complete && !tuned.outcome.cut_short, "{:?}", tuned.outcome);
        let count = |is: fn(&End) -> bool| tuned.outcome.standings.iter().filter(|it| is(&it.end)).count();
        assert_eq!(count(|end| matches!(end, End::Failed { .. } | End::NotMeasured)), 0, "{:?}", tuned.outcome);
        assert!(count(|end| *end == End::Finished) >= 3 && count(|end| matches!(end, End::Stopped { .. })) > 0);
        Ok(())
    })?;
    ensure!(seen == 1, "{seen} shapes");
    let (cache, notice) = Cache::read(&path)?;
    ensure!(notice.is_none() && cache.answers().len() == 1, "{notice:?} {:?}", cache.answers());
    let request = Request { kernel: Some(Kernel::V5), ..Request::default() };
    let target = Target::of(gpu.device.info(), Prefer::from_environment());
    let choice = choose(&cache, &target, &problem, &request)?;
    ensure!(matches!(choice.origin, Origin::Tuned(_)), "{choice:?}");
    ensure!(choice.config.kernel == Kernel::V5 && choice.band.is_some(), "{choice:?}");
    let answer = &cache.answers()[0];
    ensure!(answer.default_seconds.is_some_and(|default| default > 0.5 * answer.seconds), "{answer:?}");
    Ok(())
}

/// No time, no answer, and no failure.
fn ends_with_its_budget(_: &Gpu) -> Result<(), Failure> {
    let problem = Problem::new(Element::Bf16, 256, 256, 64)?;
    tune(&options(&problem, Duration::ZERO)?, |tuned| {
        assert!(tuned.outcome.cut_short && !tuned.outcome.complete && tuned.answers.is_empty());
        Ok(())
    })?;
    Ok(())
}
