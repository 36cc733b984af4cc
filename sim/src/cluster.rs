//! A cluster of blocks: its state, its agents, and one step of one of them.

use std::collections::{BTreeMap, VecDeque};

use crate::clock::{Epoch, Knowledge};
use crate::launch::Context;
use crate::mbarrier::Mbarrier;
use crate::program::NOWHERE;
use crate::report::{Finding, Kind};
use crate::schedule::{Random, Schedule};
use crate::shared::{Accesses, Conflict, SHARED_BASE, Shared};
use crate::trace::Span;
use crate::warp::{Wait, Warp, lanes};

/// Instructions that a path executes at most before others may run.
const QUANTUM: u32 = 4096;
/// How often waits that may return early do so before a standstill is called a deadlock.
const EARLY_RETURNS: u32 = 3;
/// Events kept for reports.
const HISTORY: usize = 512;

/// What happened, for reports.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub(crate) enum What {
    Nothing,
    Store,
    Load,
    BarrierInit { block: usize, address: u32, count: i64 },
    Arrive { block: usize, address: u32, phase: u64, count: i64 },
    Expect { block: usize, address: u32, phase: u64, bytes: i64 },
    Complete { block: usize, address: u32, phase: u64 },
    Pass { block: usize, address: u32, phase: u64 },
    CopyIn { block: usize, address: u32, map: usize, at: [i32; 2], bytes: u32 },
    Landed { block: usize, address: u32, bytes: u32 },
    CopyOut { address: u32, bytes: u32 },
    CopyRead { address: u32, bytes: u32 },
    CopyDone { bytes: u32 },
    Wgmma { a: u32, b: u32, operation: u64 },
    WgmmaRun { operation: u64 },
    WgmmaWait { operations: u64 },
    Named { id: usize, generation: u64 },
    ClusterArrive { generation: u64 },
    ClusterPass { generation: u64 },
    Fence,
    Exit,
}

/// An event: what, who, where.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Event {
    pub what: What,
    pub block: usize,
    pub warp: usize,
    pub mask: u32,
    pub pc: u32,
}

/// A named barrier.
#[derive(Default)]
pub(crate) struct Named {
    /// Threads that the current use expects; 0 when idle.
    pub expected: u32,
    pub arrived: u32,
    /// Warps that have arrived.
    pub warps: u64,
    pub generation: u64,
    pub arriving: Knowledge,
    pub released: Knowledge,
    pub time: u64,
}

/// The barrier of all threads of the cluster.
#[derive(Default)]
pub(crate) struct ClusterBarrier {
    pub arrived: u32,
    pub generation: u64,
    pub arriving: Knowledge,
    pub released: Knowledge,
    pub time: u64,
}

/// A wgmma that not all warps have issued, or that has not been executed.
pub(crate) struct Operation {
    pub pc: u32,
    pub a: u64,
    pub b: u64,
    pub scale_d: bool,
    /// Warps of the warpgroup that have issued it.
    pub issued: u32,
    pub ready: u64,
    /// What the last warp that issued it found in its tiles.
    pub tiles: Option<Tiles>,
}

/// The tiles of a wgmma as one warp found them: another warp need not look at every word again.
pub(crate) struct Tiles {
    /// [`Shared::version`] at the time.
    pub version: u64,
    /// When they may be read.
    pub epoch: Epoch,
    /// Who wrote them.
    pub writers: Vec<u32>,
}

/// A warpgroup.
pub(crate) struct Warpgroup {
    /// Dimension whose time is the number of wgmma groups known to be complete.
    pub dimension: u32,
    pub queue: VecDeque<Operation>,
    /// Operations executed since the start.
    pub executed: u64,
    /// For each committed group, the number of operations up to its end.
    pub groups: Vec<u64>,
    /// When the last operation finished.
    pub time: u64,
}

/// Bulk groups of one thread.
#[derive(Default)]
pub(crate) struct BulkThread {
    /// Dimension whose time is the number of groups whose reads are known to be over.
    pub dimension: u32,
    /// Dimension whose time is the number of groups that are known to be complete.
    pub written: u32,
    /// For each group, the last one being open: copies that have yet to read, and to write.
    pub groups: Vec<[u32; 2]>,
    /// Copies issued since the last commit.
    pub open: u32,
    /// Number of groups up to the last one that has copies.
    pub used: usize,
    pub time: u64,
}

/// A block.
pub(crate) struct Block {
    pub rank: u32,
    pub ctaid: [u32; 3],
    pub shared: Shared,
    pub warps: Vec<Warp>,
    pub barriers: BTreeMap<u32, Mbarrier>,
    pub named: [Named; 16],
    pub groups: Vec<Warpgroup>,
    pub bulk: BTreeMap<(usize, usize), BulkThread>,
    /// Knowledge carried by release and acquire operations on words of shared memory.
    pub words: BTreeMap<u32, Knowledge>,
    /// Registers of the pool that `setmaxnreg` takes from and gives to.
    pub register_pool: i64,
    /// Whether one of its threads has waited for the grid before.
    pub has_waited: bool,
    /// What all threads that have left knew.
    pub left: Knowledge,
    /// Accesses from peers: the latest time in each dimension.
    pub reached: BTreeMap<u32, (u32, Event)>,
    pub exited: bool,
    /// When the tensor cores are free.
    pub tensor_free: u64,
}

/// Where a transfer is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// A load whose bytes have yet to land.
    Load,
    /// A store that has yet to read shared memory.
    StoreRead,
    /// A store that has yet to write global memory.
    StoreWrite,
}

/// What a transfer moves between.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Remote {
    /// A box of a tensor: index in [`Context::maps`], and coordinates.
    Tensor { map: usize, at: Vec<i32> },
    /// Consecutive bytes of global memory.
    Global { address: u64 },
}

/// A bulk copy on its way.
pub(crate) struct Transfer {
    pub stage: Stage,
    /// Block and shared address of the shared side.
    pub block: usize,
    pub address: u32,
    pub bytes: u32,
    pub remote: Remote,
    /// For a load, the barrier that counts it, in the same block.
    pub barrier: u32,
    /// For a load, the number of its write.
    pub writer: u32,
    /// For a load, what its issuer knew.
    pub knowledge: Knowledge,
    /// For a store, the thread and group.
    pub thread: (usize, usize, usize),
    pub group: usize,
    /// For a store that has read: its bytes.
    pub data: Vec<u8>,
    pub issued: Event,
    pub start: u64,
    pub ready: u64,
    pub number: u32,
}

/// Kinds of agents, for schedulers.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// A warp, by its number in the cluster.
    Warp(u32),
    /// Bulk loads.
    Load,
    /// The reading side of bulk stores.
    StoreRead,
    /// The writing side of bulk stores.
    StoreWrite,
    /// The tensor cores.
    Wgmma,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Agent {
    Path { block: usize, warp: usize, path: usize },
    Transfer(usize),
    Wgmma { block: usize, group: usize },
}

/// Something that can happen next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// What kind of agent acts.
    pub class: Class,
    /// Tells agents of a class apart, in the order in which they came to be.
    pub number: u32,
    /// The clock cycle of the timing model.
    pub time: u64,
    pub(crate) agent: Agent,
}

/// What an instruction does to its path.
pub(crate) enum Flow {
    /// On to the next instruction.
    Next,
    /// The path's place has been set.
    Moved,
    /// The path is gone, or others took its place.
    Gone,
    /// It waits, at the same instruction.
    Wait(Wait),
}

/// A running cluster.
pub(crate) struct Cluster<'a> {
    pub cx: &'a Context<'a>,
    pub id: u64,
    pub blocks: Vec<Block>,
    pub accesses: Accesses,
    pub actions: Vec<Event>,
    dimensions: u32,
    pub transfers: Vec<Transfer>,
    pub transfer_count: u32,
    pub barrier: ClusterBarrier,
    /// What releasing operations on words of global memory have passed on within the cluster.
    pub words: BTreeMap<u64, Knowledge>,
    history: VecDeque<Event>,
    /// Counts visible changes.
    pub progress: u64,
    progress_at: (u64, u64),
    early_returns: (u64, u32),
    /// Warp instructions executed.
    pub instructions: u64,
    /// When the TMA engine is free.
    pub tma_free: u64,
    pub spans: Option<Vec<Span>>,
    candidates: Vec<Candidate>,
    pub scratch: crate::exec::wgmma::Scratch,
    /// Decides, under random schedules, when a wait on an mbarrier gives up early, as it may.
    pub impatience: Option<Random>,
}

/// How a run of steps ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Done,
    Running,
}

impl<'a> Cluster<'a> {
    pub fn new(cx: &'a Context<'a>, id: u64, schedule: &Schedule, trace: bool) -> Cluster<'a> {
        let launch = cx.launch;
        let per_axis: [u32; 3] = std::array::from_fn(|i| launch.grid[i] / launch.cluster[i]);
        let at = [
            (id % u64::from(per_axis[0])) as u32,
            (id / u64::from(per_axis[0]) % u64::from(per_axis[1])) as u32,
            (id / u64::from(per_axis[0]) / u64::from(per_axis[1])) as u32,
        ];
        let mut cluster = Cluster {
            cx,
            id,
            blocks: Vec::new(),
            accesses: Accesses::new(),
            actions: vec![Event { what: What::Nothing, block: 0, warp: 0, mask: 0, pc: NOWHERE }],
            dimensions: 1,
            transfers: Vec::new(),
            transfer_count: 0,
            barrier: ClusterBarrier::default(),
            words: BTreeMap::new(),
            history: VecDeque::new(),
            progress: 1,
            progress_at: (0, 0),
            early_returns: (0, 0),
            instructions: 0,
            tma_free: 0,
            spans: trace.then(Vec::new),
            candidates: Vec::new(),
            scratch: Default::default(),
            impatience: match schedule {
                Schedule::Random(seed) => Some(Random::new(!seed ^ id << 32)),
                _ => None,
            },
        };
        let entry = cx.program.entry();
        let threads = launch.threads();
        for rank in 0..launch.cluster_blocks() {
            let inside = [
                rank % launch.cluster[0],
                rank / launch.cluster[0] % launch.cluster[1],
                rank / launch.cluster[0] / launch.cluster[1],
            ];
            let warps = (0..threads.div_ceil(32)).map(|w| {
                let count = (threads - w * 32).min(32);
                let mask = if count == 32 { u32::MAX } else { (1 << count) - 1 };
                let dimension = cluster.dimension();
                Warp::new(mask, dimension, entry.registers.len(), entry.predicates.len(), cx.registers)
            });
            let warps: Vec<Warp> = warps.collect();
            let groups = (0..threads.div_ceil(128)).map(|_| Warpgroup {
                dimension: cluster.dimension(),
                queue: VecDeque::new(),
                executed: 0,
                groups: Vec::new(),
                time: 0,
            });
            let groups: Vec<Warpgroup> = groups.collect();
            cluster.blocks.push(Block {
                rank,
                ctaid: std::array::from_fn(|i| at[i] * launch.cluster[i] + inside[i]),
                shared: Shared::new(cx.shared_bytes),
                warps,
                barriers: BTreeMap::new(),
                named: Default::default(),
                groups,
                bulk: BTreeMap::new(),
                words: BTreeMap::new(),
                register_pool: 0,
                has_waited: false,
                left: Knowledge::default(),
                reached: BTreeMap::new(),
                exited: false,
                tensor_free: 0,
            });
        }
        cluster
    }

    /// A new dimension of this cluster's clocks.
    pub fn dimension(&mut self) -> u32 {
        self.dimensions += 1;
        self.dimensions
    }

    /// Runs up to `steps` steps, chosen by `choose`.
    pub fn run(&mut self, steps: u64, choose: &mut dyn FnMut(&[Candidate]) -> usize) -> Result<Status, Box<Finding>> {
        for _ in 0..steps {
            self.find_candidates();
            if self.candidates.is_empty() {
                if self.blocks.iter().all(|block| block.exited) {
                    return Ok(Status::Done);
                }
                if !self.return_early() {
                    return Err(self.deadlock());
                }
                continue;
            }
            let candidates = std::mem::take(&mut self.candidates);
            let chosen = candidates[choose(&candidates).min(candidates.len() - 1)];
            self.candidates = candidates;
            match chosen.agent {
                Agent::Path { block, warp, path } => self.run_path(block, warp, path, chosen.time)?,
                Agent::Transfer(index) => self.advance_transfer(index)?,
                Agent::Wgmma { block, group } => self.run_wgmma(block, group)?,
            }
            if self.progress != self.progress_at.0 {
                self.progress_at = (self.progress, self.instructions);
            } else if self.instructions - self.progress_at.1 > self.cx.options.livelock_limit {
                let silent = self.instructions - self.progress_at.1;
                let message = format!("{silent} warp instructions have run since anything visible happened");
                return Err(self.livelock(message, self.cx.options.livelock_limit));
            }
            if self.instructions > self.cx.options.instruction_limit {
                let message = format!("{} warp instructions have run, and there is no end", self.instructions);
                return Err(self.livelock(message, self.cx.options.instruction_limit));
            }
        }
        Ok(Status::Running)
    }

    /// Someone else made progress that this cluster may be waiting for.
    pub fn note_outside_progress(&mut self) {
        self.progress += 1;
    }

    fn find_candidates(&mut self) {
        let mut candidates = std::mem::take(&mut self.candidates);
        candidates.clear();
        let warps = self.blocks.first().map_or(0, |b| b.warps.len());
        for (b, block) in self.blocks.iter().enumerate() {
            if block.exited {
                continue;
            }
            for (w, warp) in block.warps.iter().enumerate() {
                for (p, path) in warp.paths.iter().enumerate() {
                    if let Some(time) = self.ready(b, w, p) {
                        candidates.push(Candidate {
                            class: Class::Warp((b * warps + w) as u32),
                            number: path.mask.trailing_zeros(),
                            time: time.max(path.time),
                            agent: Agent::Path { block: b, warp: w, path: p },
                        });
                    }
                }
            }
            for (g, group) in block.groups.iter().enumerate() {
                if let Some(first) = group.queue.front()
                    && first.issued == 0b1111
                {
                    candidates.push(Candidate {
                        class: Class::Wgmma,
                        number: (b * block.groups.len() + g) as u32,
                        time: first.ready.max(block.tensor_free),
                        agent: Agent::Wgmma { block: b, group: g },
                    });
                }
            }
        }
        for (i, transfer) in self.transfers.iter().enumerate() {
            candidates.push(Candidate {
                class: match transfer.stage {
                    Stage::Load => Class::Load,
                    Stage::StoreRead => Class::StoreRead,
                    Stage::StoreWrite => Class::StoreWrite,
                },
                number: transfer.number,
                time: transfer.ready,
                agent: Agent::Transfer(i),
            });
        }
        self.candidates = candidates;
    }

    /// When a path can go on, if nothing else need happen first.
    fn ready(&self, b: usize, w: usize, p: usize) -> Option<u64> {
        let block = &self.blocks[b];
        let warp = &block.warps[w];
        let path = &warp.paths[p];
        match path.wait {
            Wait::None => Some(path.time),
            _ if path.early_return => Some(path.time),
            Wait::Mbarrier { block, address, phase } => match self.blocks[block].barriers.get(&address) {
                Some(barrier) if barrier.phase > phase => Some(barrier.time),
                Some(_) => None,
                // It was invalidated: let the instruction find out.
                None => Some(path.time),
            },
            Wait::Named { id, generation } => (block.named[id].generation > generation).then_some(block.named[id].time),
            Wait::Cluster { generation } => (self.barrier.generation > generation).then_some(self.barrier.time),
            Wait::Wgmma { operations } => {
                let group = &block.groups[w / 4];
                (group.executed >= operations).then_some(group.time)
            }
            Wait::Bulk { lane, groups, read } => {
                let thread = block.bulk.get(&(w, lane))?;
                let done = thread.groups[..groups].iter().all(|g| g[0] == 0 && (read || g[1] == 0));
                done.then_some(thread.time)
            }
            Wait::Warp { mask } => {
                let here =
                    warp.paths.iter().filter(|other| other.pc == path.pc && matches!(other.wait, Wait::Warp { .. }));
                let together = here.fold(0, |all, other| all | other.mask);
                (mask & warp.live & !together == 0).then_some(path.time)
            }
            Wait::Registers { more } => (block.register_pool >= i64::from(more) * 32).then_some(path.time),
        }
    }

    /// Lets waits that may return early do so, unless they have and nothing came of it.
    fn return_early(&mut self) -> bool {
        if self.early_returns.0 == self.progress {
            self.early_returns.1 += 1;
        } else {
            self.early_returns = (self.progress, 0);
        }
        if self.early_returns.1 >= EARLY_RETURNS {
            return false;
        }
        let mut any = false;
        for block in &mut self.blocks {
            for path in block.warps.iter_mut().flat_map(|warp| &mut warp.paths) {
                if matches!(path.wait, Wait::Mbarrier { .. }) {
                    path.early_return = true;
                    any = true;
                }
            }
        }
        any
    }

    /// Runs a path up to the next instruction that others may notice.
    fn run_path(&mut self, b: usize, w: usize, p: usize, time: u64) -> Result<(), Box<Finding>> {
        let program = self.cx.program;
        {
            let path = &mut self.blocks[b].warps[w].paths[p];
            if self.spans.is_some() && path.wait != Wait::None && time > path.time {
                let (from, pc, wait) = (path.time, path.pc, path.wait);
                self.span_wait(b, w, from, time, pc, wait);
            }
            self.blocks[b].warps[w].paths[p].time = time;
        }
        for count in 0..QUANTUM {
            let path = &self.blocks[b].warps[w].paths[p];
            let pc = path.pc;
            if pc == path.join_pc {
                self.blocks[b].warps[w].arrive_at_join(p);
                return Ok(());
            }
            if count > 0 && program.visible.get(pc as usize).copied().unwrap_or(true) {
                return Ok(());
            }
            self.instructions += 1;
            let flow = self.execute(b, w, p)?;
            match flow {
                Flow::Next => {
                    let path = &mut self.blocks[b].warps[w].paths[p];
                    path.pc += 1;
                    path.wait = Wait::None;
                    path.early_return = false;
                    path.time += 1;
                }
                Flow::Moved => {
                    let path = &mut self.blocks[b].warps[w].paths[p];
                    path.time += 1;
                }
                Flow::Gone => return Ok(()),
                Flow::Wait(wait) => {
                    let path = &mut self.blocks[b].warps[w].paths[p];
                    path.wait = wait;
                    path.early_return = false;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Notes an event.
    pub fn note(&mut self, what: What, b: usize, w: usize, mask: u32, pc: u32) {
        if self.history.len() == HISTORY {
            self.history.pop_front();
        }
        self.history.push_back(Event { what, block: b, warp: w, mask, pc });
    }

    /// Keeps an event that accesses refer to; returns its number.
    pub fn action(&mut self, event: Event) -> u32 {
        self.actions.push(event);
        (self.actions.len() - 1) as u32
    }

    // Reports.

    /// The name of a shared address: `full[1]`, `A[0]+512`, or the number.
    pub fn name(&self, block: usize, address: u32) -> String {
        let dynamic = self.cx.program.dynamic_shared();
        let offset = address.wrapping_sub(dynamic);
        let found = self.cx.options.names.iter().find(|(start, bytes, _)| (*start..start + bytes).contains(&offset));
        let name = match found {
            Some((start, _, name)) if *start == offset => name.clone(),
            Some((start, _, name)) => format!("{name}+{}", offset - start),
            None if address >= dynamic => format!("dynamic shared memory+{offset}"),
            None => format!("shared address {address:#x}"),
        };
        if self.blocks.len() > 1 { format!("{name} of rank {block}") } else { name }
    }

    /// Who: `block (0,0,0), warp 4, lane 0`.
    pub fn who(&self, b: usize, w: usize, mask: u32) -> String {
        self.who_of(b, w, 1, mask)
    }

    /// The same lanes of `count` warps from `w` on.
    fn who_of(&self, b: usize, w: usize, count: usize, mask: u32) -> String {
        let block = &self.blocks[b];
        let [x, y, z] = block.ctaid;
        let rank = if self.blocks.len() > 1 {
            format!(" (rank {} of cluster {})", block.rank, self.id)
        } else {
            String::new()
        };
        let threads = if mask.count_ones() == 1 && count == 1 {
            format!(" (thread {})", w as u32 * 32 + mask.trailing_zeros())
        } else {
            String::new()
        };
        format!("block ({x},{y},{z}){rank}, {}, {}{threads}", self.cx.options.warps(w, count), lanes(mask))
    }

    pub fn describe(&self, event: &Event) -> String {
        let what = match event.what {
            What::Nothing => return "nobody".to_string(),
            What::Store => "ordinary store".to_string(),
            What::Load => "ordinary load".to_string(),
            What::BarrierInit { block, address, count } => {
                format!("init of {} with count {count}", self.name(block, address))
            }
            What::Arrive { block, address, phase, count } => {
                let times = if count == 1 { String::new() } else { format!(" {count} times") };
                format!("arrives{times} on {} in phase {phase}", self.name(block, address))
            }
            What::Expect { block, address, phase, bytes } => {
                format!("announces {bytes} bytes on {} in phase {phase}", self.name(block, address))
            }
            What::Complete { block, address, phase } => {
                format!("completes phase {phase} of {}", self.name(block, address))
            }
            What::Pass { block, address, phase } => {
                format!("passes phase {phase} of {}", self.name(block, address))
            }
            What::CopyIn { block, address, map, at, bytes } => {
                let what = if map == usize::MAX {
                    String::new()
                } else {
                    format!(" of parameter {map} at {{{}, {}}}", at[0], at[1])
                };
                format!("bulk load{what}, {bytes} bytes, to {}", self.name(block, address))
            }
            What::Landed { block, address, bytes } => {
                format!("{bytes} bytes have landed in {}", self.name(block, address))
            }
            What::CopyOut { address, bytes } => {
                format!("bulk store of {bytes} bytes from {}", self.name(event.block, address))
            }
            What::CopyRead { address, bytes } => {
                format!("the bulk store has read {bytes} bytes of {}", self.name(event.block, address))
            }
            What::CopyDone { bytes } => format!("the bulk store has written {bytes} bytes"),
            What::Wgmma { a, b, operation } => {
                let a = if a == 0 { "registers".to_string() } else { self.name(event.block, a) };
                format!("wgmma {operation} on {a} and {}", self.name(event.block, b))
            }
            What::WgmmaRun { operation } => format!("the tensor cores run wgmma {operation}"),
            What::WgmmaWait { operations } => format!("knows that wgmmas up to {operations} are complete"),
            What::Named { id, generation } => format!("named barrier {id}, use {generation}"),
            What::ClusterArrive { generation } => format!("arrives at the cluster barrier, use {generation}"),
            What::ClusterPass { generation } => format!("passes the cluster barrier, use {generation}"),
            What::Fence => "fence".to_string(),
            What::Exit => "exits".to_string(),
        };
        let line = self.cx.program.line(event.pc);
        format!("{}: {what} (line {line})", self.who(event.block, event.warp, event.mask))
    }

    /// A finding at instruction `pc`.
    pub fn finding(&self, kind: Kind, b: usize, w: usize, mask: u32, pc: u32, message: String) -> Box<Finding> {
        let history = self.history.iter().filter(|event| event.what != What::Nothing && event.what != What::Fence);
        let recent: Vec<&Event> = history.collect();
        let history = recent.iter().skip(recent.len().saturating_sub(24)).map(|event| self.describe(event)).collect();
        Box::new(Finding {
            kind,
            kernel: self.cx.program.entry().name.clone(),
            message,
            place: self.cx.program.place(pc),
            threads: self.who(b, w, mask),
            notes: Vec::new(),
            history,
            schedule: String::new(),
        })
    }

    /// The finding for a conflict of accesses at `at`.
    #[allow(clippy::too_many_arguments)]
    pub fn conflict(
        &self,
        (b, w, mask, pc): (usize, usize, u32, u32),
        target: usize,
        (at, conflict): (u32, Conflict),
        writes: bool,
        what: &str,
    ) -> Box<Finding> {
        let place = self.name(target, at);
        let other = |action: u32| self.describe(&self.actions[action as usize]);
        let (kind, message, action) = match conflict {
            Conflict::Uninitialised => {
                (Kind::UninitialisedRead, format!("{what} reads {place}, which nothing has written"), 0)
            }
            Conflict::Barrier => (Kind::Race, format!("{what} touches {place}, which is an mbarrier"), 0),
            Conflict::InFlight(action) if writes => {
                (Kind::Race, format!("{what} overwrites {place} while a bulk load to it is still on its way"), action)
            }
            Conflict::InFlight(action) => (
                Kind::ReadBeforeLanded,
                format!("{what} reads {place} while the bulk load to it is still on its way"),
                action,
            ),
            Conflict::Unordered(action) => {
                let load = matches!(self.actions[action as usize].what, What::CopyIn { .. });
                if load && !writes {
                    let message = format!("{what} reads {place}, but nothing says that the bulk load to it has landed");
                    (Kind::ReadBeforeLanded, message, action)
                } else {
                    let verb = if writes { "overwrites" } else { "reads" };
                    let message =
                        format!("{what} {verb} {place}, and nothing orders an earlier write of it before this");
                    (Kind::Race, message, action)
                }
            }
            Conflict::BetweenLanes(action) => {
                let verb = if writes { "overwrites" } else { "reads" };
                let message = format!(
                    "{what} {verb} {place}, which another lane of the warp wrote, with no bar.warp.sync between"
                );
                (Kind::Race, message, action)
            }
            Conflict::Unfenced(action) => {
                let verb = if writes { "overwrites" } else { "reads" };
                let message = format!(
                    "{what} {verb} {place} through the async proxy after an ordinary store, with no fence.proxy.async between"
                );
                (Kind::MissingProxyFence, message, action)
            }
            Conflict::MayStillRead(action) => {
                let event = &self.actions[action as usize];
                let (kind, reader) = match event.what {
                    What::Wgmma { .. } => (Kind::OverwriteWhileRead, "a wgmma"),
                    What::CopyOut { .. } => (Kind::OverwriteWhileRead, "a bulk store"),
                    _ => (Kind::Race, "another thread"),
                };
                (kind, format!("{what} overwrites {place} while {reader} may still read it"), action)
            }
        };
        let mut finding = self.finding(kind, b, w, mask, pc, message);
        if action != 0 {
            finding.notes.push(format!("the other access: {}", other(action)));
        }
        finding.notes.extend(self.short_phases(target));
        if conflict == Conflict::Uninitialised {
            finding.notes.extend(self.last_phases(target));
        }
        finding
    }

    /// Barriers whose bytes do not fit what landed, which often explains a race.
    fn short_phases(&self, block: usize) -> Vec<String> {
        let mut notes: Vec<(u32, String)> = Vec::new();
        for (&address, barrier) in &self.blocks[block].barriers {
            if barrier.landed > barrier.announced {
                notes.push((
                    address,
                    format!(
                        "{}: {} bytes have landed in phase {}, of which {} were announced: an earlier expect_tx was too small",
                        self.name(block, address),
                        barrier.landed,
                        barrier.phase,
                        barrier.announced
                    ),
                ));
            }
        }
        notes.sort();
        notes.into_iter().map(|note| note.1).collect()
    }

    /// How many bytes the last phase of each barrier that counts bytes brought.
    fn last_phases(&self, block: usize) -> Vec<String> {
        let barriers =
            self.blocks[block].barriers.iter().filter(|(_, barrier)| barrier.phase > 0 && barrier.last_landed > 0);
        let mut notes: Vec<(u32, String)> = barriers
            .map(|(&address, barrier)| {
                let name = self.name(block, address);
                (address, format!("phase {} of {name} completed with {} bytes", barrier.phase - 1, barrier.last_landed))
            })
            .collect();
        notes.sort();
        notes.into_iter().map(|note| note.1).collect()
    }

    fn livelock(&self, message: String, bound: u64) -> Box<Finding> {
        let mut finding = self.standstill(Kind::Livelock, message);
        finding.notes.push(format!("the bound is {bound}"));
        finding
    }

    fn deadlock(&self) -> Box<Finding> {
        self.standstill(Kind::Deadlock, "no thread can go on, and nothing is on its way".to_string())
    }

    /// A finding that says who waits for what.
    fn standstill(&self, kind: Kind, message: String) -> Box<Finding> {
        let mut first = None;
        let mut starved = None;
        let mut waiting: Vec<(usize, usize, u32, String)> = Vec::new();
        let mut barriers: Vec<(usize, u32)> = Vec::new();
        for (b, block) in self.blocks.iter().enumerate() {
            for (w, warp) in block.warps.iter().enumerate() {
                for path in &warp.paths {
                    let line = self.cx.program.line(path.pc);
                    let does = match path.wait {
                        Wait::None if kind == Kind::Livelock => format!("running (line {line})"),
                        Wait::None => continue,
                        Wait::Mbarrier { block, address, phase } => {
                            barriers.push((block, address));
                            format!("waiting for phase {phase} of {} (line {line})", self.name(block, address))
                        }
                        Wait::Named { id, .. } => {
                            let named = &block.named[id];
                            format!(
                                "waiting at named barrier {id}: {} of {} threads have arrived (line {line})",
                                named.arrived,
                                if named.expected == u32::MAX { self.cx.launch.threads() } else { named.expected }
                            )
                        }
                        Wait::Cluster { .. } => format!(
                            "waiting at the cluster barrier: {} threads have arrived (line {line})",
                            self.barrier.arrived
                        ),
                        Wait::Wgmma { operations } => {
                            let group = &block.groups[w / 4];
                            let warps = group.queue.front().map_or(0, |first| first.issued.count_ones());
                            format!(
                                "waiting for wgmma {operations}; {} have run, and {warps} of 4 warps have issued the next (line {line})",
                                group.executed
                            )
                        }
                        Wait::Bulk { groups, read, .. } => {
                            let what = if read { "the reads of " } else { "" };
                            format!("waiting for {what}bulk group {groups} (line {line})")
                        }
                        Wait::Warp { mask } => {
                            format!("waiting for {} of its warp (line {line})", lanes(mask & warp.live))
                        }
                        Wait::Registers { more } => format!(
                            "waiting for {more} more registers a thread; the pool has {} a thread of a warp (line {line})",
                            block.register_pool / 32
                        ),
                    };
                    let site = Some((b, w, path.mask, path.pc));
                    first = first.or(site);
                    if matches!(path.wait, Wait::Registers { .. }) {
                        starved = starved.or(site);
                    }
                    waiting.push((b, w, path.mask, does));
                }
            }
        }
        // Neighbouring warps that do the same share a line.
        let alike = |a: &(usize, usize, u32, String), b: &(usize, usize, u32, String)| {
            (a.0, a.1 + 1, a.2, &a.3) == (b.0, b.1, b.2, &b.3) && self.cx.options.role(a.1) == self.cx.options.role(b.1)
        };
        let line = |group: &[(usize, usize, u32, String)]| {
            let (b, first, mask, does) = &group[0];
            format!("{}: {does}", self.who_of(*b, *first, group.len(), *mask))
        };
        let mut notes: Vec<String> = waiting.chunk_by(alike).map(line).collect();
        barriers.sort_unstable();
        barriers.dedup();
        let mut causes = Vec::new();
        for (block, address) in barriers {
            let Some(barrier) = self.blocks[block].barriers.get(&address) else { continue };
            let name = self.name(block, address);
            notes.push(format!(
                "{name} is in phase {}: {} of {} arrivals and {} bytes are pending ({} announced, {} landed)",
                barrier.phase, barrier.pending, barrier.count, barrier.bytes, barrier.announced, barrier.landed
            ));
            if barrier.pending == 0 && barrier.bytes > 0 {
                causes.push(format!(
                    "{name} waits for {} bytes that no copy will bring: its expect_tx was too large, or a copy is missing",
                    barrier.bytes
                ));
            } else if barrier.bytes < 0 {
                causes.push(format!("{name} received {} bytes more than were announced", -barrier.bytes));
            } else if barrier.pending > 0 && barrier.pending < barrier.count {
                causes.push(format!(
                    "{name} lacks {} of its {} arrivals: its count is too large, or not all threads arrive",
                    barrier.pending, barrier.count
                ));
            } else if barrier.pending > 0 {
                causes.push(format!("nobody arrives on {name} in phase {}", barrier.phase));
            }
        }
        // Whoever waits for registers holds up all the others.
        let (b, w, mask, pc) = match starved {
            Some(site) => {
                causes = vec!["setmaxnreg.inc asks for more registers than setmaxnreg.dec gave back".to_string()];
                site
            }
            None => first.unwrap_or((0, 0, 0, NOWHERE)),
        };
        let mut message = message;
        if !causes.is_empty() {
            message = format!("{message}: {}", causes.join("; "));
        }
        let mut finding = self.finding(kind, b, w, mask, pc, message);
        finding.notes = notes;
        finding
    }

    /// Whether `length` bytes at a shared address exist.
    pub fn in_shared(&self, address: u32, length: usize) -> bool {
        address >= SHARED_BASE && self.blocks[0].shared.contains(address, length)
    }
}
