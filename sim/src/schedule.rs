//! Who acts next.
//!
//! Findings about missing handshakes do not depend on the schedule, because clocks carry what is ordered
//! (see [`crate::clock`]). Schedules find the rest: which order of arrivals deadlocks, which phase is
//! mistaken for another, and what a value becomes.

use std::collections::BTreeMap;

use crate::cluster::{Candidate, Class};

/// Agents that an extreme schedule favours or holds back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Who {
    /// One warp of the cluster.
    Warp(u32),
    /// Bulk loads landing.
    Loads,
    /// Bulk stores reading and writing.
    Stores,
    /// The tensor cores.
    Wgmma,
    /// All that is asynchronous.
    Async,
}

impl Who {
    fn is(self, class: Class) -> bool {
        match self {
            Who::Warp(warp) => class == Class::Warp(warp),
            Who::Loads => class == Class::Load,
            Who::Stores => matches!(class, Class::StoreRead | Class::StoreWrite),
            Who::Wgmma => class == Class::Wgmma,
            Who::Async => !matches!(class, Class::Warp(_)),
        }
    }
}

/// An order of events, reproducible.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Schedule {
    /// Random, each agent with a speed of its own.
    Random(u64),
    /// Each of these agents acts only when nobody else can.
    Late(Who),
    /// Each of these agents acts as soon as it can.
    Early(Who),
    /// The timing model's order.
    Timed,
    /// One agent runs until it waits, except that at the given steps another one (1, 2, … in order) goes
    /// first.
    Steps(Vec<(u32, u32)>),
}

impl std::fmt::Display for Schedule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let who = |who: &Who| match who {
            Who::Warp(warp) => format!("warp{warp}"),
            Who::Loads => "loads".to_string(),
            Who::Stores => "stores".to_string(),
            Who::Wgmma => "wgmma".to_string(),
            Who::Async => "async".to_string(),
        };
        match self {
            Schedule::Random(seed) => write!(f, "random:{seed}"),
            Schedule::Late(agent) => write!(f, "late:{}", who(agent)),
            Schedule::Early(agent) => write!(f, "early:{}", who(agent)),
            Schedule::Timed => write!(f, "timed"),
            Schedule::Steps(steps) => {
                write!(f, "steps:")?;
                for (i, (step, choice)) in steps.iter().enumerate() {
                    write!(f, "{}{step}={choice}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
        }
    }
}

impl std::str::FromStr for Schedule {
    type Err = String;

    fn from_str(text: &str) -> Result<Schedule, String> {
        let bad = || {
            format!(
                "schedule `{text}` is none of timed, random:SEED, late:WHO, early:WHO (WHO: warpN, loads, stores, \
                 wgmma, async) and steps:STEP=CHOICE,…"
            )
        };
        let who = |word: &str| match word {
            "loads" => Ok(Who::Loads),
            "stores" => Ok(Who::Stores),
            "wgmma" => Ok(Who::Wgmma),
            "async" => Ok(Who::Async),
            _ => word.strip_prefix("warp").and_then(|n| n.parse().ok()).map(Who::Warp).ok_or_else(bad),
        };
        match text.split_once(':') {
            None if text == "timed" => Ok(Schedule::Timed),
            Some(("random", seed)) => seed.parse().map(Schedule::Random).map_err(|_| bad()),
            Some(("late", word)) => who(word).map(Schedule::Late),
            Some(("early", word)) => who(word).map(Schedule::Early),
            Some(("steps", "")) => Ok(Schedule::Steps(Vec::new())),
            Some(("steps", list)) => {
                let steps = list.split(',').map(|item| {
                    let (step, choice) = item.split_once('=')?;
                    Some((step.parse().ok()?, choice.parse().ok()?))
                });
                steps.collect::<Option<Vec<_>>>().map(Schedule::Steps).ok_or_else(bad)
            }
            _ => Err(bad()),
        }
    }
}

impl Schedule {
    /// Every extreme schedule of clusters with this many warps.
    pub fn extremes(warps: u32) -> Vec<Schedule> {
        let warps = (0..warps).map(Who::Warp);
        let all = [Who::Async, Who::Loads, Who::Wgmma, Who::Stores].into_iter().chain(warps);
        all.flat_map(|who| [Schedule::Late(who), Schedule::Early(who)]).collect()
    }
}

/// SplitMix64: enough randomness for schedules, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator for `seed`.
    pub const fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 random bits.
    pub const fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`, which is not zero.
    pub const fn below(&mut self, bound: u64) -> u64 {
        // The bias is below 2^-32 for the bounds used here.
        self.bits() % bound
    }
}

/// Makes the choices of a schedule for one cluster.
pub(crate) struct Chooser {
    schedule: Schedule,
    random: Random,
    speeds: BTreeMap<Class, u64>,
    step: u32,
    last: Option<(Class, u32)>,
    /// How many could have acted at each step, for exploration.
    pub widths: Option<Vec<u32>>,
}

impl Chooser {
    pub fn new(schedule: &Schedule, cluster: u64) -> Chooser {
        let seed = if let Schedule::Random(seed) = schedule { *seed } else { 0 };
        let mut mix = Random::new(seed);
        let random = Random::new(mix.bits() ^ cluster.wrapping_mul(0xd134_2543_de82_ef95));
        Chooser { schedule: schedule.clone(), random, speeds: BTreeMap::new(), step: 0, last: None, widths: None }
    }

    pub fn choose(&mut self, candidates: &[Candidate]) -> usize {
        let step = self.step;
        self.step = self.step.saturating_add(1);
        match &self.schedule {
            Schedule::Random(_) => self.weighted(candidates),
            Schedule::Timed => {
                let first = (0..candidates.len()).min_by_key(|&i| candidates[i].time);
                first.unwrap_or(0)
            }
            Schedule::Late(who) => {
                // The others take turns; of those held back, the last to come goes first.
                let others: Vec<usize> = (0..candidates.len()).filter(|&i| !who.is(candidates[i].class)).collect();
                match others.len() {
                    0 => (0..candidates.len()).max_by_key(|&i| candidates[i].number).unwrap_or(0),
                    n => others[step as usize % n],
                }
            }
            Schedule::Early(who) => {
                let favoured = (0..candidates.len()).filter(|&i| who.is(candidates[i].class));
                favoured.min_by_key(|&i| candidates[i].number).unwrap_or(step as usize % candidates.len())
            }
            Schedule::Steps(steps) => {
                if let Some(widths) = &mut self.widths {
                    widths.push(candidates.len() as u32);
                }
                let same = candidates.iter().position(|c| Some((c.class, c.number)) == self.last).unwrap_or(0);
                let choice = steps.iter().find(|s| s.0 == step).map_or(0, |s| s.1 as usize);
                let chosen = (same + choice) % candidates.len();
                self.last = Some((candidates[chosen].class, candidates[chosen].number));
                chosen
            }
        }
    }

    fn weighted(&mut self, candidates: &[Candidate]) -> usize {
        let mut total = 0;
        let mut speeds = [0u64; 64];
        let shown = candidates.len().min(speeds.len());
        for (speed, candidate) in speeds.iter_mut().zip(candidates) {
            let random = &mut self.random;
            let known = self.speeds.entry(candidate.class).or_insert_with(|| 1 << (2 * random.below(4)));
            *speed = *known;
            total += *known;
        }
        let mut at = self.random.below(total.max(1));
        for (i, speed) in speeds[..shown].iter().enumerate() {
            if at < *speed {
                return i;
            }
            at -= speed;
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_survive_printing() {
        let mut all =
            vec![Schedule::Timed, Schedule::Random(42), Schedule::Steps(vec![]), Schedule::Steps(vec![(3, 1), (9, 2)])];
        all.extend(Schedule::extremes(6));
        for schedule in all {
            assert_eq!(schedule.to_string().parse::<Schedule>(), Ok(schedule));
        }
        for text in ["", "random:x", "late:nobody", "steps:1", "timed:1"] {
            assert!(text.parse::<Schedule>().is_err(), "{text}");
        }
    }
}
