//! A warp: 32 threads that share an instruction stream until they diverge.
//!
//! Threads that go different ways at a branch become *paths*, which run independently of each other and
//! meet again where the branch's ways meet (its immediate postdominator), as compilers arrange it for
//! hardware with independent thread scheduling.

use std::cell::RefCell;

use crate::clock::Knowledge;
use crate::program::NOWHERE;
use crate::shared::{ALL_LANES, Lane};

/// One value a lane.
pub type Lanes = [u64; 32];

/// What a path waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wait {
    /// Nothing.
    None,
    /// A phase of an mbarrier: that after `phase`.
    Mbarrier {
        /// Block that holds it.
        block: usize,
        /// Its shared address there.
        address: u32,
        /// The number of the phase that must complete.
        phase: u64,
    },
    /// A named barrier, whose generation must pass this one.
    Named {
        /// Which of the sixteen.
        id: usize,
        /// The generation waited for.
        generation: u64,
    },
    /// The cluster barrier, likewise.
    Cluster {
        /// The generation waited for.
        generation: u64,
    },
    /// wgmma operations of the warpgroup: this many must have been executed.
    Wgmma {
        /// How many since the start.
        operations: u64,
    },
    /// Bulk groups of thread `lane`.
    Bulk {
        /// The thread.
        lane: usize,
        /// This many must be complete.
        groups: usize,
        /// Only their reads.
        read: bool,
    },
    /// Other threads of the warp, at the same instruction.
    Warp {
        /// Threads that must come.
        mask: u32,
    },
    /// Registers for `setmaxnreg.inc`, each thread this many more.
    Registers {
        /// Registers a thread.
        more: u32,
    },
}

/// Threads of a warp that are at the same instruction.
#[derive(Clone, Debug)]
pub struct Path {
    pub pc: u32,
    pub mask: u32,
    pub wait: Wait,
    /// A wait that returns without its phase having completed.
    pub early_return: bool,
    /// Joins that this path is under, innermost last.
    pub joins: Vec<u32>,
    /// Where the innermost join is, or [`NOWHERE`].
    pub join_pc: u32,
    /// Clock cycle at which it can go on.
    pub time: u64,
}

/// A place where paths meet again.
#[derive(Clone, Debug)]
struct Join {
    pc: u32,
    /// Threads that will come, unless they exit.
    expected: u32,
    arrived: u32,
    /// Joins around it.
    outer: Vec<u32>,
    time: u64,
    open: bool,
}

/// State of a warp.
pub struct Warp {
    pub regs: Vec<Lanes>,
    pub preds: Vec<u32>,
    /// Threads that have not exited.
    pub live: u32,
    pub paths: Vec<Path>,
    joins: Vec<Join>,
    /// What the warp knows; its own dimension is always up to date.
    pub knowledge: Knowledge,
    pub dimension: u32,
    /// Time in its own dimension.
    pub time: u32,
    /// The time up to which its lanes know of each other's stores.
    pub met: u32,
    /// What it knew at its last memory fence, and at the last one that reaches beyond its block: what its relaxed
    /// stores pass on.
    pub at_fence: [Knowledge; 2],
    /// What its relaxed loads were passed: it knows that from the next memory fence on.
    pub heard: Knowledge,
    /// Number of `wgmma.fence`s executed.
    pub fences: u32,
    /// For each register, `fences + 1` when it was last written by an ordinary instruction.
    pub written: Vec<u32>,
    /// For each register, the number (from 1) of the last wgmma that uses it.
    pub flight: Vec<u64>,
    /// The instruction of that wgmma.
    pub flight_pc: Vec<u32>,
    /// wgmma operations issued, and how many of them are known to be complete.
    pub wgmma_issued: u64,
    pub wgmma_retired: u64,
    /// wgmma groups committed.
    pub wgmma_groups: usize,
    /// Registers each thread has.
    pub register_count: u32,
    /// Arrival at the cluster barrier that is not yet waited for: generation and threads.
    pub cluster_arrival: Option<(u64, u32)>,
    /// Loads that threads of this warp issued, by the number of their write.
    pub loads: Vec<u32>,
    /// The last ordinary access: pc and time, and its numbers as a writer and as an action.
    pub last_write: (u32, u32, u32),
    pub last_read: (u32, u32, u32),
}

/// Most register files that a thread of the host keeps.
const MOST_SPARE: usize = 64;

thread_local! {
    /// Register files of warps that are gone: they are large, and many short runs need them again and again.
    static SPARE: RefCell<Vec<Vec<Lanes>>> = const { RefCell::new(Vec::new()) };
}

impl Drop for Warp {
    fn drop(&mut self) {
        let regs = std::mem::take(&mut self.regs);
        SPARE.with_borrow_mut(|spare| {
            if spare.len() < MOST_SPARE {
                spare.push(regs);
            }
        });
    }
}

impl Warp {
    /// A warp whose threads in `mask` exist.
    pub fn new(mask: u32, dimension: u32, registers: usize, predicates: usize, register_count: u32) -> Warp {
        let mut regs = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        regs.clear();
        regs.resize(registers, [0; 32]);
        let mut knowledge = Knowledge::default();
        knowledge.all.learn(crate::clock::Epoch { dimension, time: 1 });
        Warp {
            regs,
            preds: vec![0; predicates],
            live: mask,
            paths: vec![Path {
                pc: 0,
                mask,
                wait: Wait::None,
                early_return: false,
                joins: Vec::new(),
                join_pc: NOWHERE,
                time: 0,
            }],
            joins: Vec::new(),
            knowledge,
            dimension,
            time: 1,
            met: 0,
            at_fence: Default::default(),
            heard: Knowledge::default(),
            fences: 0,
            written: vec![0; registers],
            flight: vec![0; registers],
            flight_pc: vec![0; registers],
            wgmma_issued: 0,
            wgmma_retired: 0,
            wgmma_groups: 0,
            register_count,
            cluster_arrival: None,
            loads: Vec::new(),
            last_write: (NOWHERE, 0, 0),
            last_read: (NOWHERE, 0, 0),
        }
    }

    /// Begins a new interval: what came before has been released to others.
    pub fn tick(&mut self) {
        self.time += 1;
        self.knowledge.all.learn(crate::clock::Epoch { dimension: self.dimension, time: self.time });
    }

    /// The lanes have met at a barrier: each may use what the others stored before.
    pub fn meet(&mut self) {
        self.met = self.time;
        self.tick();
    }

    /// A lane of the warp as it accesses shared memory now.
    pub fn lane(&self, lane: usize) -> Lane {
        Lane { dimension: self.dimension, lane: lane as u8, met: self.met }
    }

    /// All of its lanes, in an instruction that they execute together.
    pub fn all_lanes(&self) -> Lane {
        Lane { lane: ALL_LANES, ..self.lane(0) }
    }

    /// Splits path `p`: threads in `taken` go to `target`, the others to the next instruction; they meet
    /// at `meet`.
    pub fn diverge(&mut self, p: usize, taken: u32, target: u32, meet: u32) {
        let path = self.paths[p].clone();
        let mut joins = path.joins.clone();
        let mut join_pc = path.join_pc;
        if meet != NOWHERE && meet != path.join_pc {
            let join = Join { pc: meet, expected: path.mask, arrived: 0, outer: joins.clone(), time: 0, open: true };
            // Slots of joins that are over are used again.
            let slot = match self.joins.iter().position(|j| !j.open) {
                Some(slot) => {
                    self.joins[slot] = join;
                    slot
                }
                None => {
                    self.joins.push(join);
                    self.joins.len() - 1
                }
            };
            joins.push(slot as u32);
            join_pc = meet;
        }
        let side = |pc: u32, mask: u32| Path { pc, mask, joins: joins.clone(), join_pc, ..path.clone() };
        self.paths[p] = side(path.pc + 1, path.mask & !taken);
        self.paths.push(side(target, taken));
    }

    /// Path `p` has reached its innermost join: it waits there, or all go on together.
    pub fn arrive_at_join(&mut self, p: usize) {
        let path = self.paths.swap_remove(p);
        let Some(&join) = path.joins.last() else { return };
        let at = &mut self.joins[join as usize];
        at.arrived |= path.mask;
        at.time = at.time.max(path.time);
        self.settle_joins();
    }

    /// Threads in `mask` have exited.
    pub fn exit(&mut self, p: usize, mask: u32) {
        self.live &= !mask;
        self.paths[p].mask &= !mask;
        if self.paths[p].mask == 0 {
            self.paths.swap_remove(p);
        }
        for join in &mut self.joins {
            join.expected &= !mask;
        }
        self.settle_joins();
    }

    /// Lets every join whose threads have all come go on.
    fn settle_joins(&mut self) {
        while let Some(index) = self.joins.iter().position(|j| j.open && j.arrived == j.expected) {
            let join = &mut self.joins[index];
            join.open = false;
            if join.arrived == 0 {
                continue;
            }
            let (pc, mask, joins, time) = (join.pc, join.arrived, join.outer.clone(), join.time);
            let join_pc = joins.last().map_or(NOWHERE, |&outer| self.joins[outer as usize].pc);
            if pc == join_pc {
                // The join around it is at the same place.
                let outer = joins.last().map_or(0, |&outer| outer as usize);
                self.joins[outer].arrived |= mask;
                self.joins[outer].time = self.joins[outer].time.max(time);
                continue;
            }
            self.paths.push(Path { pc, mask, wait: Wait::None, early_return: false, joins, join_pc, time });
        }
    }

    /// Merges all paths that wait for each other at `pc` into one, at the position of path `p`; returns
    /// its position. Joins that not all of them are under no longer expect them.
    pub fn merge_waiting(&mut self, pc: u32) -> usize {
        let together: Vec<usize> = (0..self.paths.len())
            .filter(|&i| self.paths[i].pc == pc && matches!(self.paths[i].wait, Wait::Warp { .. }))
            .collect();
        let mask = together.iter().fold(0, |mask, &i| mask | self.paths[i].mask);
        let common = together
            .iter()
            .map(|&i| self.paths[i].joins.clone())
            .reduce(|a, b| a.iter().zip(&b).take_while(|(x, y)| x == y).map(|(x, _)| *x).collect());
        let joins = common.unwrap_or_default();
        let time = together.iter().map(|&i| self.paths[i].time).max().unwrap_or(0);
        for &i in &together {
            let (path_mask, path_joins) = (self.paths[i].mask, self.paths[i].joins.clone());
            for join in path_joins.iter().filter(|join| !joins.contains(join)) {
                self.joins[*join as usize].expected &= !path_mask;
            }
        }
        for &i in together.iter().rev() {
            self.paths.swap_remove(i);
        }
        let join_pc = joins.last().map_or(NOWHERE, |&outer| self.joins[outer as usize].pc);
        self.paths.push(Path { pc, mask, wait: Wait::None, early_return: false, joins, join_pc, time });
        let at = self.paths.len() - 1;
        self.settle_joins();
        at
    }
}

/// `lanes 0–31`, `lane 5`, `lanes 0, 3, 7`.
pub fn lanes(mask: u32) -> String {
    let all: Vec<u32> = (0..32).filter(|lane| mask >> lane & 1 == 1).collect();
    match all.as_slice() {
        [] => "no lane".to_string(),
        [one] => format!("lane {one}"),
        [first, .., last] if (last - first) as usize + 1 == all.len() => format!("lanes {first}–{last}"),
        _ => format!("lanes {}", all.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_meet_where_the_branch_ends() {
        let mut warp = Warp::new(u32::MAX, 0, 0, 0, 0);
        warp.diverge(0, 1, 10, 20);
        assert_eq!(warp.paths.len(), 2);
        // The fall-through side diverges again and meets at the same place.
        warp.diverge(0, 6, 15, 20);
        for pc in [20, 20, 20] {
            let p = warp.paths.len() - 1;
            warp.paths[p].pc = pc;
            warp.arrive_at_join(p);
        }
        assert_eq!(warp.paths.len(), 1);
        assert_eq!((warp.paths[0].pc, warp.paths[0].mask, warp.paths[0].join_pc), (20, u32::MAX, NOWHERE));
    }

    #[test]
    fn threads_that_exit_are_not_waited_for() {
        let mut warp = Warp::new(u32::MAX, 0, 0, 0, 0);
        warp.diverge(0, 1, 10, 20);
        warp.paths[0].pc = 20;
        warp.arrive_at_join(0);
        assert_eq!(warp.paths.len(), 1);
        warp.exit(0, 1);
        assert_eq!(warp.paths.len(), 1);
        assert_eq!(warp.paths[0].mask, u32::MAX - 1);
    }

    #[test]
    fn masks_in_words() {
        assert_eq!(lanes(1 << 5), "lane 5");
        assert_eq!(lanes(u32::MAX), "lanes 0–31");
        assert_eq!(lanes(0b1011), "lanes 0, 1, 3");
    }
}
