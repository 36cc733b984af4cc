//! Finding the fastest of many candidates without measuring the slow ones to the end.
//!
//! Rounds, as in [`crate::bench`]: every candidate once a round, in an order that is shuffled each round. After a
//! round whoever is hopelessly behind the fastest of the same kernel drops out, and with more samples less is
//! hopeless. After the first round those that are left are joined by their variants with other bands, which
//! shift a time by some percent and not by factors. At last a few finalists run all rounds.
//!
//! Nobody is judged by a leader whose product was not checked: a kernel that computes nothing is fast.

use indicatif::ProgressBar;
use kernels::catalogue::{Config, Kernel};
use rand::SeedableRng;
use rand::rngs::ChaCha8Rng;
use rand::seq::SliceRandom;
use serde::Serialize;

use crate::bench::stats::median;
use crate::error::Result;

/// A configuration, the rows of tiles that are taken together, and the clusters that share a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The row of the catalogue.
    pub config: &'static Config,
    /// Rows of tiles, or of clusters of them, in a band.
    pub band: u32,
    /// Clusters that share the K of each tile.
    pub parts: u32,
}

/// What runs candidates: a device, or a test.
pub trait Track {
    /// Gets `candidate` ready. The inner error says in words why it cannot run.
    fn enter(&mut self, candidate: &Candidate) -> Result<Result<(), String>>;

    /// Time of one product in seconds, after a pause.
    fn time(&mut self, candidate: &Candidate) -> Result<f64>;

    /// Whether it computes the product. The inner error says in words what is wrong.
    fn check(&mut self, candidate: &Candidate) -> Result<Result<(), String>>;

    /// `candidate` will not run again.
    fn leave(&mut self, candidate: &Candidate);

    /// Whether the time is used up.
    fn is_over(&self) -> bool;
}

/// When candidates drop out.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Rounds of a finalist.
    pub rounds: usize,
    /// How far behind is hopeless, by the number of samples: after one sample, after two, and so on; the last
    /// holds for all that follow. 0.1 is a tenth slower.
    pub hopeless: Vec<f64>,
    /// From the round of this number on, counted from 0, no more than `finalists` of a kernel run.
    pub final_round: usize,
    /// The most finalists of a kernel.
    pub finalists: usize,
    /// Seed of the orders.
    pub seed: u64,
}

// ANCHOR: rules
impl Default for Rules {
    fn default() -> Rules {
        Rules { rounds: 9, hopeless: vec![0.25, 0.10, 0.05, 0.03], final_round: 4, finalists: 5, seed: 1 }
    }
}
// ANCHOR_END: rules

/// How far a candidate came.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum End {
    /// It ran to the end, and its product is right.
    Finished,
    /// It was too far behind, or not among the finalists.
    Stopped {
        /// How much slower its fastest sample was than the leader's median: 0.1 is a tenth.
        behind: f64,
    },
    /// It could not run, or its product is wrong.
    Failed {
        /// Why.
        reason: String,
    },
    /// The time was used up before it was measured.
    NotMeasured,
}

/// A candidate after the race.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Which.
    pub candidate: Candidate,
    /// Its times, in seconds, in the order in which they were taken.
    pub samples: Vec<f64>,
    /// How far it came.
    pub end: End,
}

impl Standing {
    /// Median of its times, in seconds.
    pub fn seconds(&self) -> Option<f64> {
        median(self.samples.iter().copied())
    }
}

/// What a race found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The candidates: those that finished, the fastest first, then those that were stopped, the slowest last,
    /// then the others.
    pub standings: Vec<Standing>,
    /// Whether every candidate of the first round was measured at least once. If not, there is no telling
    /// which is fastest.
    pub complete: bool,
    /// Whether the time was used up before the last round.
    pub cut_short: bool,
}

impl Outcome {
    /// The fastest of `kernel`, or of all.
    pub fn fastest(&self, kernel: Option<Kernel>) -> Option<&Standing> {
        let is_it = |standing: &&Standing| {
            standing.end == End::Finished && kernel.is_none_or(|kernel| standing.candidate.config.kernel == kernel)
        };
        self.standings.iter().find(is_it)
    }

    /// The standing of `candidate`.
    pub fn of(&self, candidate: &Candidate) -> Option<&Standing> {
        self.standings.iter().find(|standing| standing.candidate == *candidate)
    }
}

/// Lets `starters` race on `track`. Those in `pinned` are never stopped, so that the others can be compared with
/// them; they must be among the starters. `variants` are what joins with a candidate that is left after the first
/// round.
///
/// # Errors
/// What the track returns.
pub fn race(
    starters: &[Candidate],
    pinned: &[Candidate],
    variants: impl Fn(&Candidate) -> Vec<Candidate>,
    track: &mut dyn Track,
    rules: &Rules,
    progress: &ProgressBar,
) -> Result<Outcome> {
    let mut race = Race { runners: Vec::new(), pinned, track, rules };
    race.join(starters);
    let mut order_of = ChaCha8Rng::seed_from_u64(rules.seed);
    let mut cut_short = false;
    progress.set_length(0);
    'rounds: for round in 0..rules.rounds.max(1) {
        let mut order = race.running();
        order.shuffle(&mut order_of);
        progress.set_length(progress.position() + order.len() as u64);
        progress.set_message(format!("round {} of {}, {} candidates", round + 1, rules.rounds.max(1), order.len()));
        for index in order {
            if race.track.is_over() {
                cut_short = true;
                break 'rounds;
            }
            race.run(index)?;
            progress.inc(1);
        }
        race.judge(round)?;
        if round == 0 {
            for index in race.running() {
                race.join(&variants(&race.runners[index].candidate));
            }
        }
    }
    let complete =
        race.runners.iter().take(starters.len()).all(|runner| !runner.samples.is_empty() || runner.has_ended());
    race.finish()?;
    Ok(Outcome { standings: race.standings(), complete, cut_short })
}

struct Runner {
    candidate: Candidate,
    samples: Vec<f64>,
    entered: bool,
    checked: bool,
    end: Option<End>,
}

impl Runner {
    fn has_ended(&self) -> bool {
        self.end.is_some()
    }

    fn median(&self) -> f64 {
        median(self.samples.iter().copied()).unwrap_or(f64::INFINITY)
    }

    fn fastest(&self) -> f64 {
        self.samples.iter().copied().fold(f64::INFINITY, f64::min)
    }
}

struct Race<'a> {
    runners: Vec<Runner>,
    pinned: &'a [Candidate],
    track: &'a mut dyn Track,
    rules: &'a Rules,
}

impl Race<'_> {
    /// Adds those that are not there yet.
    fn join(&mut self, candidates: &[Candidate]) {
        for &candidate in candidates {
            if !self.runners.iter().any(|runner| runner.candidate == candidate) {
                let (samples, entered, checked, end) = (Vec::new(), false, false, None);
                self.runners.push(Runner { candidate, samples, entered, checked, end });
            }
        }
    }

    fn running(&self) -> Vec<usize> {
        (0..self.runners.len()).filter(|&index| !self.runners[index].has_ended()).collect()
    }

    fn run(&mut self, index: usize) -> Result<()> {
        let runner = &mut self.runners[index];
        if !runner.entered {
            runner.entered = true;
            if let Err(reason) = self.track.enter(&runner.candidate)? {
                runner.end = Some(End::Failed { reason });
                return Ok(());
            }
        }
        let seconds = self.track.time(&runner.candidate)?;
        runner.samples.push(seconds);
        Ok(())
    }

    fn stop(&mut self, index: usize, end: End) {
        let runner = &mut self.runners[index];
        runner.end = Some(end);
        self.track.leave(&runner.candidate);
    }

    /// Whether its product is right; one whose product is not drops out.
    fn is_right(&mut self, index: usize) -> Result<bool> {
        let runner = &mut self.runners[index];
        if !runner.checked {
            runner.checked = true;
            if let Err(reason) = self.track.check(&runner.candidate)? {
                self.stop(index, End::Failed { reason });
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The running candidates of `kernel` that were measured, the fastest first.
    fn ranking(&self, kernel: Kernel) -> Vec<usize> {
        let of_kernel = |index: &usize| {
            let runner = &self.runners[*index];
            runner.candidate.config.kernel == kernel && !runner.samples.is_empty()
        };
        let mut ranking: Vec<usize> = self.running().into_iter().filter(of_kernel).collect();
        ranking.sort_by(|&one, &other| self.runners[one].median().total_cmp(&self.runners[other].median()));
        ranking
    }

    /// The fastest of `kernel` whose product is right.
    fn leader(&mut self, kernel: Kernel) -> Result<Option<usize>> {
        for index in self.ranking(kernel) {
            if self.is_right(index)? {
                return Ok(Some(index));
            }
        }
        Ok(None)
    }

    /// Takes out whoever has no hope after `round`.
    fn judge(&mut self, round: usize) -> Result<()> {
        for kernel in Kernel::ALL {
            let Some(leader) = self.leader(kernel)? else { continue };
            let leading = self.runners[leader].median();
            let mut kept = 0;
            for index in self.ranking(kernel) {
                let runner = &self.runners[index];
                let behind = runner.fastest() / leading - 1.0;
                let last = self.rules.hopeless.len().saturating_sub(1);
                let hopeless = self.rules.hopeless.get((runner.samples.len() - 1).min(last)).copied();
                let no_finalist = round + 1 >= self.rules.final_round && kept >= self.rules.finalists.max(1);
                let drops_out = no_finalist || behind > hopeless.unwrap_or(f64::INFINITY);
                if drops_out && !self.pinned.contains(&runner.candidate) {
                    self.stop(index, End::Stopped { behind });
                } else {
                    kept += 1;
                }
            }
        }
        Ok(())
    }

    /// Says how those came out that are left: the finalists of each kernel, whose products are checked now if
    /// they were not before, and where the race was cut short many others.
    fn finish(&mut self) -> Result<()> {
        for kernel in Kernel::ALL {
            let Some(leader) = self.leader(kernel)? else { continue };
            let leading = self.runners[leader].median();
            let mut finalists = 0;
            for index in self.ranking(kernel) {
                let may_finish = finalists < self.rules.finalists.max(1);
                if may_finish || self.pinned.contains(&self.runners[index].candidate) {
                    if self.is_right(index)? {
                        finalists += usize::from(may_finish);
                        self.stop(index, End::Finished);
                    }
                } else {
                    let behind = self.runners[index].fastest() / leading - 1.0;
                    self.stop(index, End::Stopped { behind });
                }
            }
        }
        for index in self.running() {
            self.stop(index, End::NotMeasured);
        }
        Ok(())
    }

    fn standings(self) -> Vec<Standing> {
        let mut runners = self.runners;
        let place = |end: &Option<End>| match end {
            Some(End::Finished) => 0,
            Some(End::Stopped { .. }) => 1,
            Some(End::Failed { .. }) => 2,
            Some(End::NotMeasured) | None => 3,
        };
        runners.sort_by(|one, other| {
            place(&one.end).cmp(&place(&other.end)).then(one.median().total_cmp(&other.median()))
        });
        runners
            .into_iter()
            .map(|Runner { candidate, samples, end, .. }| Standing {
                candidate,
                samples,
                end: end.unwrap_or(End::NotMeasured),
            })
            .collect()
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use kernels::catalogue::{COMPILED, Element};

    use super::*;

    /// A track where every candidate takes a known time, a little more or less each turn.
    pub(crate) struct Fake<F> {
        pub seconds: F,
        /// Candidates that are wrong, and those that cannot run.
        pub wrong: Vec<&'static str>,
        pub broken: Vec<&'static str>,
        /// Samples that the time allows.
        pub budget: usize,
        pub timed: Vec<Candidate>,
        pub checked: Vec<Candidate>,
        pub running: Vec<Candidate>,
    }

    impl<F: Fn(&Candidate) -> f64> Fake<F> {
        pub(crate) fn new(seconds: F) -> Self {
            let (wrong, broken, timed, checked, running) = (vec![], vec![], vec![], vec![], vec![]);
            Fake { seconds, wrong, broken, budget: usize::MAX, timed, checked, running }
        }

        pub(crate) fn times(&self, candidate: &Candidate) -> usize {
            self.timed.iter().filter(|other| *other == candidate).count()
        }
    }

    impl<F: Fn(&Candidate) -> f64> Track for Fake<F> {
        fn enter(&mut self, candidate: &Candidate) -> Result<Result<(), String>> {
            if self.broken.contains(&candidate.config.entry) {
                return Ok(Err(String::from("it does not launch")));
            }
            self.running.push(*candidate);
            Ok(Ok(()))
        }

        fn time(&mut self, candidate: &Candidate) -> Result<f64> {
            assert!(self.running.contains(candidate), "{candidate:?} is not running");
            self.timed.push(*candidate);
            // A percent to and fro.
            let jitter = [1.0, 1.01, 0.99][self.timed.len() % 3];
            Ok((self.seconds)(candidate) * jitter)
        }

        fn check(&mut self, candidate: &Candidate) -> Result<Result<(), String>> {
            self.checked.push(*candidate);
            let wrong = self.wrong.contains(&candidate.config.entry);
            Ok(if wrong { Err(String::from("C[0, 0] is NaN")) } else { Ok(()) })
        }

        fn leave(&mut self, candidate: &Candidate) {
            self.running.retain(|other| other != candidate);
        }

        fn is_over(&self) -> bool {
            self.timed.len() >= self.budget
        }
    }

    pub(crate) fn starters(kernel: Kernel) -> Vec<Candidate> {
        let of = |config: &&Config| config.kernel == kernel && config.element == Element::F16;
        let start = |config: &'static Config| Candidate { config, band: config.band() as u32, parts: 1 };
        COMPILED.iter().filter(of).map(start).collect()
    }

    /// A model with one best configuration: time grows with what it differs.
    fn seconds(candidate: &Candidate) -> f64 {
        let config = candidate.config;
        let narrow = 128.0 / config.tile.n as f64;
        let shallow = 64.0 / config.tile.k as f64;
        let stages = 1.0 + 0.02 * config.stages as f64;
        let band = 1.0 + 0.03 * (f64::from(candidate.band) / 8.0).log2().abs();
        1e-3 * narrow.max(1.0) * shallow * stages * band
    }

    fn with_bands(candidate: &Candidate) -> Vec<Candidate> {
        [4, 8, 16].map(|band| Candidate { band, ..*candidate }).to_vec()
    }

    fn run<F: Fn(&Candidate) -> f64>(fake: &mut Fake<F>, pinned: &[Candidate]) -> Outcome {
        let (starters, rules) = (starters(Kernel::V3), Rules::default());
        race(&starters, pinned, with_bands, fake, &rules, &ProgressBar::hidden()).unwrap()
    }

    #[test]
    fn the_fastest_wins_and_the_hopeless_stop_early() {
        let starters = starters(Kernel::V3);
        let pinned = [starters[0]];
        let mut fake = Fake::new(seconds);
        let outcome = run(&mut fake, &pinned);
        assert!(outcome.complete && !outcome.cut_short);
        let best = outcome.fastest(Some(Kernel::V3)).unwrap();
        assert_eq!((best.candidate.config.entry, best.candidate.band), ("v3_f16_128x128x64_s2", 8));
        assert_eq!(outcome.fastest(None).unwrap().candidate, best.candidate);
        assert!(outcome.fastest(Some(Kernel::V5)).is_none());
        // Every configuration was measured, and those of half the tile once and no more, with no other band.
        let rounds = Rules::default().rounds;
        for candidate in &starters {
            let narrow = candidate.config.tile.n == 64 && candidate != &pinned[0];
            let times = fake.times(candidate);
            assert!(times >= 1 && (!narrow || times == 1), "{} {times}", candidate.config.entry);
            if narrow {
                assert!(matches!(outcome.of(candidate).unwrap().end, End::Stopped { behind } if behind > 0.25));
                assert!(outcome.of(&Candidate { band: 4, ..*candidate }).is_none());
            }
        }
        assert_eq!(fake.times(&best.candidate), rounds - 1, "it joined after the first round");
        // The pinned one is as slow as any, and ran to the end.
        assert_eq!((fake.times(&pinned[0]), &outcome.of(&pinned[0]).unwrap().end), (rounds, &End::Finished));
        // Much less work than every candidate in every round.
        assert!(fake.timed.len() * 3 < outcome.standings.len() * rounds, "{}", fake.timed.len());
        let finished = outcome.standings.iter().filter(|standing| standing.end == End::Finished).count();
        assert!((1..=Rules::default().finalists + 1).contains(&finished), "{finished}");
        // Those that finished were all checked, and nobody is left on the track.
        assert!(fake.running.is_empty());
        for standing in outcome.standings.iter().filter(|standing| standing.end == End::Finished) {
            assert!(fake.checked.contains(&standing.candidate));
        }
    }

    #[test]
    fn standings_are_in_order() {
        let outcome = run(&mut Fake::new(seconds), &[]);
        let finished = outcome.standings.iter().take_while(|standing| standing.end == End::Finished);
        let times: Vec<f64> = finished.map(|standing| standing.seconds().unwrap()).collect();
        assert!(!times.is_empty() && times.is_sorted());
        let stopped = outcome.standings.iter().skip(times.len());
        assert!(stopped.clone().all(|standing| matches!(standing.end, End::Stopped { .. })));
        assert!(stopped.map(|standing| standing.seconds().unwrap()).is_sorted());
    }

    #[test]
    fn a_wrong_candidate_judges_nobody() {
        // It would be ten times as fast as the others, so that all would be hopeless.
        let wrong = "v3_f16_128x64x16_s2";
        let mut fake = Fake::new(|candidate: &Candidate| {
            seconds(candidate) * if candidate.config.entry == wrong { 0.01 } else { 1.0 }
        });
        fake.wrong = vec![wrong];
        fake.broken = vec!["v3_f16_128x64x16_s3"];
        let outcome = run(&mut fake, &[]);
        assert_eq!(outcome.fastest(None).unwrap().candidate.config.entry, "v3_f16_128x128x64_s2");
        let failed: BTreeMap<&str, &End> = outcome
            .standings
            .iter()
            .filter(|standing| matches!(standing.end, End::Failed { .. }))
            .map(|standing| (standing.candidate.config.entry, &standing.end))
            .collect();
        assert_eq!(failed.len(), 2, "{failed:?}");
        assert_eq!(failed[wrong], &End::Failed { reason: String::from("C[0, 0] is NaN") });
        assert!(outcome.complete);
    }

    #[test]
    fn kernels_are_judged_by_their_own_leader() {
        let both: Vec<Candidate> = [Kernel::V3, Kernel::V5].into_iter().flat_map(starters).collect();
        // v3 is hopeless beside v5, and still gets its own answer.
        let mut fake = Fake::new(|candidate: &Candidate| {
            seconds(candidate) * if candidate.config.kernel == Kernel::V3 { 3.0 } else { 1.0 }
        });
        let rules = Rules::default();
        let outcome = race(&both, &[], |_| Vec::new(), &mut fake, &rules, &ProgressBar::hidden()).unwrap();
        assert_eq!(outcome.fastest(Some(Kernel::V3)).unwrap().candidate.config.tile.n, 128);
        assert_eq!(outcome.fastest(None).unwrap().candidate.config.kernel, Kernel::V5);
    }

    #[test]
    fn a_race_that_is_cut_short_says_so() {
        let count = starters(Kernel::V3).len();
        for (budget, complete) in [(0, false), (count - 1, false), (count, true), (count + 5, true)] {
            let mut fake = Fake::new(seconds);
            fake.budget = budget;
            let outcome = run(&mut fake, &[]);
            assert_eq!((outcome.complete, outcome.cut_short), (complete, true), "{budget}");
            assert_eq!(fake.timed.len(), budget);
            assert!(fake.running.is_empty());
            let unmeasured = outcome.standings.iter().filter(|standing| standing.end == End::NotMeasured);
            assert!(unmeasured.clone().all(|standing| standing.samples.is_empty()));
            assert!(unmeasured.count() >= count.saturating_sub(budget));
        }
    }

    #[test]
    fn equal_candidates_all_reach_the_final_or_are_stopped_by_its_size() {
        let outcome = run(&mut Fake::new(|_: &Candidate| 1e-3), &[]);
        let finished = outcome.standings.iter().filter(|standing| standing.end == End::Finished).count();
        assert_eq!(finished, Rules::default().finalists);
    }
}
