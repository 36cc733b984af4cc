//! What to launch: what was asked for, else what was tuned, else the default.

use kernels::catalogue::Config;

use super::cache::{Answer, Cache, Target};
use super::class::ShapeClass;
use crate::error::Result;
use crate::problem::Problem;
use crate::select::{self, Request, Selection};

/// A configuration, and why this one.
#[derive(Clone, PartialEq, Debug)]
pub struct Choice {
    /// The row of the catalogue.
    pub config: &'static Config,
    /// Rows of tiles that are taken together, where not the catalogue's number.
    pub band: Option<u32>,
    /// Clusters that share the K of each tile.
    pub parts: u32,
    /// Where it comes from.
    pub origin: Origin,
}

impl Choice {
    /// What to launch where nothing was tuned: [`select::select`].
    ///
    /// # Errors
    /// Those of [`select::select`].
    pub fn untuned(problem: &Problem, request: &Request) -> Result<Choice> {
        let sizes = [problem.m(), problem.n(), problem.k()];
        let Selection { config, band, parts } = select::select(problem.element(), sizes, request)?;
        Ok(Choice { config, band, parts, origin: if request.is_open() { Origin::Default } else { Origin::Request } })
    }

    /// What to launch, without the reason.
    pub fn selection(&self) -> Selection {
        Selection { config: self.config, band: self.band, parts: self.parts }
    }
}

/// Where a choice comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Origin {
    /// The request names tile, stages or cluster, and so leaves little to choose.
    Request,
    /// It was measured to be the fastest.
    Tuned(Box<Answer>),
    /// [`select::select`].
    Default,
}

/// What to launch for `problem` on `target`. A request that names more than a kernel gets what it names; for any
/// other, the answer of `cache` where there is one, and else the choice of [`select::select`].
///
/// # Errors
/// Those of [`select::select`].
pub fn choose(cache: &Cache, target: &Target, problem: &Problem, request: &Request) -> Result<Choice> {
    let answer = if request.is_open() { cache.find(target, &ShapeClass::of(problem), request.kernel) } else { None };
    match answer.and_then(|answer| Some((answer, answer.config()?))) {
        Some((answer, config)) => {
            let Answer { band, parts, .. } = *answer;
            Ok(Choice { config, band: Some(band), parts, origin: Origin::Tuned(Box::new(answer.clone())) })
        }
        None => Choice::untuned(problem, request),
    }
}

#[cfg(test)]
mod tests {
    use kernels::catalogue::{Element, Kernel};

    use super::*;
    use crate::tune::cache::tests::{answer, class, target};

    fn cache(answers: &[Answer]) -> Cache {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tune.json");
        Cache::merge(&path, answers).unwrap();
        Cache::read(&path).unwrap().0
    }

    #[test]
    fn tuned_answers_come_before_defaults_and_after_requests() {
        let problem = Problem::new(Element::F16, 4096, 4096, 4096).unwrap();
        let tuned = "v3_f16_128x128x32_s5";
        let cache = cache(&[answer(&class(4096, 4096, 4096), Some(Kernel::V3), tuned)]);
        let choose = |request: &Request| super::choose(&cache, &target(), &problem, request).unwrap();

        let v3 = Request { kernel: Some(Kernel::V3), ..Request::default() };
        let choice = choose(&v3);
        assert_eq!((choice.config.entry, choice.band), (tuned, Some(8)));
        assert!(matches!(choice.origin, Origin::Tuned(answer) if answer.entry == tuned));

        // The answer is for v3 alone.
        for request in [Request::default(), Request { kernel: Some(Kernel::V5), ..Request::default() }] {
            let choice = choose(&request);
            let selected = select::select(Element::F16, [4096; 3], &request).unwrap();
            assert_eq!((choice.selection(), choice.origin), (selected, Origin::Default));
        }

        let asked = Request { stages: Some(3), ..v3 };
        let choice = choose(&asked);
        assert_eq!((choice.config.stages, choice.band, choice.origin), (3, None, Origin::Request));
        assert!(super::choose(&cache, &target(), &problem, &Request { stages: Some(99), ..v3 }).is_err());
    }

    #[test]
    fn answers_of_another_machine_or_shape_are_not_used() {
        let problem = Problem::new(Element::F16, 4096, 4096, 4096).unwrap();
        let request = Request { kernel: Some(Kernel::V3), ..Request::default() };
        let near = cache(&[answer(&class(4096, 4096, 8192), Some(Kernel::V3), "v3_f16_128x128x32_s5")]);
        assert_eq!(choose(&near, &target(), &problem, &request).unwrap().origin, Origin::Default);
        let here = cache(&[answer(&class(4096, 4096, 4096), Some(Kernel::V3), "v3_f16_128x128x32_s5")]);
        let other = Target { device: "NVIDIA H100".into(), ..target() };
        assert_eq!(choose(&here, &other, &problem, &request).unwrap().origin, Origin::Default);
    }
}
