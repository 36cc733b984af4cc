//! What a race is between, and what is kept of its outcome.

use kernels::catalogue::{COMPILED, Config, Kernel, REFUSED, Refusal};

use super::cache::{Answer, Target};
use super::class::ShapeClass;
use super::race::{Candidate, End, Outcome, Standing};
use crate::error::{Error, Result};
use crate::model;
use crate::problem::Problem;
use crate::select::{self, Request, Selection};

/// Bands that are tried beside the one of the catalogue.
const BANDS: [u32; 4] = [4, 8, 16, 32];

/// The configurations that may compute a product: every compiled one of some kernels.
#[derive(Clone, Debug)]
pub struct Space {
    problem: Problem,
    kernels: Vec<Kernel>,
}

impl Space {
    /// Those of `kernels`, or of all kernels where none is named.
    ///
    /// # Errors
    /// When a kernel computes no product, or when there is nothing to multiply.
    pub fn new(problem: &Problem, kernels: &[Kernel]) -> Result<Space> {
        if let Some(kernel) = kernels.iter().find(|kernel| !kernel.loads()) {
            return Err(Error::NoProduct { kernel: kernel.name() });
        }
        let (m, n, k) = (problem.m(), problem.n(), problem.k());
        if m == 0 || n == 0 || k == 0 {
            return Err(Error::EmptyProduct { m, n, k });
        }
        let wanted = |kernel: &Kernel| kernel.loads() && (kernels.is_empty() || kernels.contains(kernel));
        Ok(Space { problem: *problem, kernels: Kernel::ALL.into_iter().filter(wanted).collect() })
    }

    /// The kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.kernels
    }

    /// The product.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    fn has(&self, config: &Config) -> bool {
        config.element == self.problem.element() && self.kernels.contains(&config.kernel)
    }

    /// Every configuration with the band of the catalogue, where clusters may share tiles with each number of them
    /// that the cost model looks at ([`model::parts`]), and the defaults that are something else.
    pub fn starters(&self) -> Vec<Candidate> {
        let sizes = [self.problem.m(), self.problem.n(), self.problem.k()];
        let with_parts = |config: &'static Config| {
            model::parts(config, sizes).map(move |parts| Candidate { parts, ..Candidate::new(config) })
        };
        let mut starters: Vec<Candidate> =
            COMPILED.iter().filter(|config| self.has(config)).flat_map(with_parts).collect();
        for default in self.defaults() {
            if !starters.contains(&default) {
                starters.push(default);
            }
        }
        starters
    }

    /// What is launched without tuning: of each kernel, and where all kernels are in the space of all.
    pub fn defaults(&self) -> Vec<Candidate> {
        let kernels = self.kernels.iter().map(|&kernel| Some(kernel));
        let requests = kernels.chain(self.has_all_kernels().then_some(None));
        requests.filter_map(|kernel| self.default_of(kernel)).collect()
    }

    fn default_of(&self, kernel: Option<Kernel>) -> Option<Candidate> {
        let request = Request { kernel, ..Request::default() };
        let sizes = [self.problem.m(), self.problem.n(), self.problem.k()];
        let Selection { config, band, parts } = select::select(self.problem.element(), sizes, &request).ok()?;
        Some(Candidate { config, band: band.unwrap_or(config.band() as u32), parts })
    }

    /// `candidate` with other bands, leaving out those that come to the same for this product.
    pub fn variants(&self, candidate: &Candidate) -> Vec<Candidate> {
        let Config { tile, cluster, .. } = candidate.config;
        let rows = self.problem.m().div_ceil(tile.m * cluster.m) as u32;
        // A band of all rows and a higher one are the same.
        let mut taken = vec![candidate.band.min(rows)];
        let mut variants = Vec::new();
        for band in BANDS {
            if !taken.contains(&band.min(rows)) {
                taken.push(band.min(rows));
                variants.push(Candidate { band, ..*candidate });
            }
        }
        variants
    }

    /// The configurations that cannot run, with the reasons.
    pub fn refused(&self) -> Vec<(&'static Config, Refusal)> {
        let refusal = |config: &'static Config| Some((config, config.verdict().err()?));
        REFUSED.iter().filter(|config| self.has(config)).filter_map(refusal).collect()
    }

    fn has_all_kernels(&self) -> bool {
        Kernel::ALL.into_iter().filter(|kernel| kernel.loads()).all(|kernel| self.kernels.contains(&kernel))
    }
}

impl Candidate {
    /// A configuration with the band of the catalogue, and one cluster a tile.
    pub fn new(config: &'static Config) -> Candidate {
        Candidate { config, band: config.band() as u32, parts: 1 }
    }

    /// What to launch.
    pub fn selection(&self) -> Selection {
        Selection { config: self.config, band: Some(self.band), parts: self.parts }
    }
}

/// What `outcome` answers: the fastest configuration of each kernel and, where all kernels ran, the fastest of all.
/// Nothing where the outcome is not complete. `date` is now, in UTC, as RFC 3339 writes it.
pub fn answers(space: &Space, outcome: &Outcome, target: &Target, date: &str) -> Vec<Answer> {
    if !outcome.complete {
        return Vec::new();
    }
    let class = ShapeClass::of(space.problem()).to_string();
    let answer = |kernel: Option<Kernel>| -> Option<Answer> {
        let fastest = outcome.fastest(kernel)?;
        // One whose product is wrong is not to be compared with.
        let has_finished = |standing: &&Standing| standing.end == End::Finished;
        let default = space.default_of(kernel).and_then(|default| outcome.of(&default)).filter(has_finished);
        Some(Answer {
            target: target.clone(),
            class: class.clone(),
            kernel: kernel.map(|kernel| kernel.name().to_string()),
            entry: fastest.candidate.config.entry.to_string(),
            band: fastest.candidate.band,
            parts: fastest.candidate.parts,
            shape: [space.problem.m(), space.problem.n(), space.problem.k()],
            seconds: fastest.seconds()?,
            default_seconds: default.and_then(Standing::seconds),
            date: date.to_string(),
        })
    };
    let of_all = space.has_all_kernels().then_some(None);
    space.kernels.iter().map(|&kernel| Some(kernel)).chain(of_all).filter_map(answer).collect()
}

#[cfg(test)]
mod tests {
    use indicatif::ProgressBar;
    use kernels::catalogue::Element;

    use super::*;
    use crate::tune::cache::tests::target;
    use crate::tune::race::tests::Fake;
    use crate::tune::{Rules, race};

    fn space(m: usize, kernels: &[Kernel]) -> Space {
        Space::new(&Problem::new(Element::F16, m, 4096, 4096).unwrap(), kernels).unwrap()
    }

    fn run(space: &Space, budget: usize) -> Outcome {
        // The slower, the more stages.
        let mut fake = Fake::new(|candidate: &Candidate| 1e-3 + 1e-4 * candidate.config.stages as f64);
        fake.budget = budget;
        let variants = |candidate: &Candidate| space.variants(candidate);
        let (starters, pinned) = (space.starters(), space.defaults());
        race(&starters, &pinned, variants, &mut fake, &Rules::default(), &ProgressBar::hidden()).unwrap()
    }

    #[test]
    fn starters_and_refused_are_the_whole_catalogue_of_the_kernels() {
        let all = space(4096, &[]);
        let of_type = |config: &&Config| config.element == Element::F16 && config.kernel.loads();
        let mut starters: Vec<&str> = all.starters().iter().map(|candidate| candidate.config.entry).collect();
        starters.sort_unstable();
        starters.dedup();
        assert_eq!(starters.len(), COMPILED.iter().filter(of_type).count());
        assert_eq!(all.refused().len(), REFUSED.iter().filter(of_type).count());
        let v4 = space(4096, &[Kernel::V4]);
        assert!(v4.starters().iter().all(|candidate| candidate.config.kernel == Kernel::V4));
        assert!(v4.refused().iter().all(|(config, _)| config.kernel == Kernel::V4) && !v4.refused().is_empty());
        for (config, refusal) in v4.refused() {
            assert_eq!(config.verdict(), Err(refusal));
        }
        // What would be launched without tuning takes part.
        for default in all.defaults() {
            assert!(all.starters().contains(&default), "{default:?}");
        }
    }

    #[test]
    fn bands_that_come_to_the_same_are_left_out() {
        let bands = |m: usize, entry: &str| -> Vec<u32> {
            let config = kernels::catalogue::by_entry(entry).unwrap();
            let variants = space(m, &[]).variants(&Candidate::new(config));
            variants.iter().map(|candidate| candidate.band).collect()
        };
        // v4 has 16 of its own.
        assert_eq!(bands(8192, "v4_f16_128x128x64_s3"), [4, 8, 32]);
        // 10 rows of tiles: 16 and 32 are all rows, as is the kernel's own.
        assert_eq!(bands(1280, "v4_f16_128x128x64_s3"), [4, 8]);
        assert_eq!(bands(100, "v4_f16_128x128x64_s3"), [] as [u32; 0]);
    }

    #[test]
    fn what_computes_nothing_is_not_tuned() {
        let problem = Problem::new(Element::F16, 64, 64, 64).unwrap();
        assert!(matches!(Space::new(&problem, &[Kernel::Ceiling]), Err(Error::NoProduct { .. })));
        let empty = Problem::new(Element::F16, 64, 64, 0).unwrap();
        assert!(matches!(Space::new(&empty, &[]), Err(Error::EmptyProduct { .. })));
    }

    #[test]
    fn a_race_answers_for_its_kernels_and_for_all_only_if_all_ran() {
        let one = space(4096, &[Kernel::V3]);
        let found = answers(&one, &run(&one, usize::MAX), &target(), "2026-11-29T12:00:00Z");
        assert_eq!(found.len(), 1);
        let Answer { class, kernel, entry, default_seconds, .. } = &found[0];
        assert_eq!((class.as_str(), kernel.as_deref()), ("f16 4096x4096x4096", Some("v3")));
        assert!(entry.ends_with("_s2") && found[0].config().is_some(), "{entry}");
        assert!(default_seconds.is_some_and(|seconds| seconds > 0.9 * found[0].seconds));

        let all = space(4096, &[]);
        let found = answers(&all, &run(&all, usize::MAX), &target(), "2026-11-29T12:00:00Z");
        assert_eq!(found.len(), all.kernels().len() + 1);
        assert!(found.iter().all(|answer| answer.config().is_some()));
        let of_all = found.iter().find(|answer| answer.kernel.is_none()).unwrap();
        assert!(found.iter().all(|answer| of_all.seconds <= answer.seconds));
    }

    #[test]
    fn a_default_that_is_wrong_is_not_compared_with() {
        let one = space(4096, &[Kernel::V3]);
        let default = one.defaults()[0];
        let mut fake = Fake::new(|candidate: &Candidate| if *candidate == default { 1e-6 } else { 1e-3 });
        fake.wrong = vec![default.config.entry];
        let (starters, rules) = (one.starters(), Rules::default());
        let outcome = race(&starters, &[default], |_| Vec::new(), &mut fake, &rules, &ProgressBar::hidden()).unwrap();
        let found = answers(&one, &outcome, &target(), "2026-11-29T12:00:00Z");
        assert_ne!(found[0].entry, default.config.entry);
        assert_eq!(found[0].default_seconds, None);
    }

    #[test]
    fn an_incomplete_race_answers_nothing() {
        let one = space(4096, &[Kernel::V3]);
        assert!(answers(&one, &run(&one, 3), &target(), "2026-11-29T12:00:00Z").is_empty());
    }
}
