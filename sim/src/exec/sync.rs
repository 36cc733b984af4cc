//! Barriers, fences, register counts, and leaving.

use ptx::ast::*;

use super::global::beyond_the_cluster;
use super::memory::Target;
use super::{Exec, Site};
use crate::clock::{Epoch, Knowledge};
use crate::cluster::{Cluster, Flow, Stage, What};
use crate::mbarrier::{LIMIT, Mbarrier, Overflow};
use crate::report::Kind;
use crate::warp::{Wait, lanes};

/// Stands for "all threads of the block" as the count of a named barrier.
const WHOLE_BLOCK: u32 = u32::MAX;

impl Cluster<'_> {
    pub fn fence(&mut self, site: Site, fence: Fence) {
        let warp = &mut self.blocks[site.b].warps[site.w];
        let dimension = warp.dimension;
        let publishes = match fence {
            Fence::ProxyAsync(space) => {
                // A fence of global memory alone does not order shared memory.
                if space != Space::Global {
                    warp.knowledge.fence_proxy();
                }
                space != Space::Global
            }
            Fence::MbarrierInit => true,
            Fence::Memory { scope, .. } => {
                let heard = std::mem::take(&mut warp.heard);
                warp.knowledge.join(&heard);
                warp.at_fence[0] = warp.knowledge.clone();
                if beyond_the_cluster(scope) {
                    warp.at_fence[1] = warp.knowledge.clone();
                }
                warp.tick();
                false
            }
            Fence::ProxyAlias => false,
        };
        if publishes {
            // What this warp initialised so far is visible now.
            for block in &mut self.blocks {
                for barrier in block.barriers.values_mut() {
                    barrier.visible |= barrier.initialised.dimension == dimension;
                }
            }
        }
        self.note(What::Fence, site.b, site.w, site.mask, site.pc);
    }

    // Named barriers.

    fn named_operands(&self, site: Site, id: &Operand, count: Option<&Operand>) -> Exec<(usize, u32)> {
        let first = site.first();
        let id = self.value(site.b, site.w, id)[first] & 0xffff_ffff;
        if id > 15 {
            return Err(self.fault(
                Kind::InvalidOperand,
                site,
                format!("named barrier {id}: a block has barriers 0 to 15"),
            ));
        }
        let Some(count) = count else { return Ok((id as usize, WHOLE_BLOCK)) };
        let count = self.value(site.b, site.w, count)[first] & 0xffff_ffff;
        let threads = u64::from(self.cx.launch.threads().next_multiple_of(32));
        if count == 0 || !count.is_multiple_of(32) || count > threads {
            let message = format!(
                "named barrier {id} for {count} threads: must be a multiple of 32 from 32 to the block's {threads}"
            );
            return Err(self.fault(Kind::InvalidOperand, site, message));
        }
        Ok((id as usize, count as u32))
    }

    /// Counts an arrival of the site's threads; completes the barrier if they are the last.
    fn named_arrive(&mut self, site: Site, id: usize, count: u32, aligned: bool) -> Exec<()> {
        if aligned {
            self.aligned(site)?;
        }
        self.progress += 1;
        let knowledge = self.blocks[site.b].warps[site.w].knowledge.clone();
        let generation = self.blocks[site.b].named[id].generation;
        self.note(What::Named { id, generation }, site.b, site.w, site.mask, site.pc);
        let time = self.path(site).time;
        let named = &mut self.blocks[site.b].named[id];
        if named.expected != 0 && named.expected != count {
            let words = |count: u32| if count == WHOLE_BLOCK { "all".to_string() } else { count.to_string() };
            let message = format!(
                "named barrier {id} is used for {} threads here, and for {} by those who arrived before",
                words(count),
                words(named.expected)
            );
            return Err(self.fault(Kind::BarrierOverflow, site, message));
        }
        if named.warps >> site.w & 1 == 1 && aligned {
            let message = format!("warp {} arrives twice at one use of named barrier {id}", site.w);
            return Err(self.fault(Kind::DoubleArrival, site, message));
        }
        named.expected = count;
        // An aligned arrival counts the whole warp, threads that have left included.
        named.arrived += if aligned { 32 } else { site.mask.count_ones() };
        named.warps |= 1 << site.w;
        named.arriving.join(&knowledge);
        named.time = named.time.max(time);
        self.blocks[site.b].warps[site.w].tick();
        self.settle_named(site.b, id);
        let named = &self.blocks[site.b].named[id];
        if count != WHOLE_BLOCK && named.arrived > count {
            let message = format!("{} threads arrive at named barrier {id}, which expects {count}", named.arrived);
            return Err(self.fault(Kind::BarrierOverflow, site, message));
        }
        Ok(())
    }

    /// Completes a named barrier if all have arrived.
    fn settle_named(&mut self, b: usize, id: usize) {
        let block = &mut self.blocks[b];
        let whole: u32 = block.warps.iter().enumerate().filter(|(_, warp)| warp.live != 0).fold(0, |sum, _| sum + 32);
        let waiting: u64 =
            block.warps.iter().enumerate().fold(0, |all, (w, warp)| all | u64::from(warp.live != 0) << w);
        let named = &mut block.named[id];
        let complete = match named.expected {
            0 => false,
            WHOLE_BLOCK => named.warps & waiting == waiting && named.arrived >= whole,
            count => named.arrived == count,
        };
        if complete {
            let arriving = std::mem::take(&mut named.arriving);
            named.released.join(&arriving);
            named.generation += 1;
            named.expected = 0;
            named.arrived = 0;
            named.warps = 0;
        }
    }

    pub fn barrier_sync(&mut self, site: Site, id: &Operand, count: Option<&Operand>, aligned: bool) -> Exec<Flow> {
        let (id, count) = self.named_operands(site, id, count)?;
        let generation = match self.path(site).wait {
            Wait::Named { generation, .. } => generation,
            _ => {
                let generation = self.blocks[site.b].named[id].generation;
                self.named_arrive(site, id, count, aligned)?;
                generation
            }
        };
        if self.blocks[site.b].named[id].generation == generation {
            return Ok(Flow::Wait(Wait::Named { id, generation }));
        }
        let released = self.blocks[site.b].named[id].released.clone();
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.knowledge.join(&released);
        warp.meet();
        Ok(Flow::Next)
    }

    pub fn barrier_arrive(&mut self, site: Site, id: &Operand, count: &Operand, aligned: bool) -> Exec<Flow> {
        let (id, count) = self.named_operands(site, id, Some(count))?;
        self.named_arrive(site, id, count, aligned)?;
        Ok(Flow::Next)
    }

    // The cluster barrier.

    pub fn cluster_arrive(&mut self, site: Site, order: Semantics, aligned: bool) -> Exec<Flow> {
        if aligned {
            self.aligned(site)?;
        }
        self.progress += 1;
        let generation = self.barrier.generation;
        let warp = &mut self.blocks[site.b].warps[site.w];
        let before = warp.cluster_arrival.map_or(0, |arrival| arrival.1);
        if before & site.mask != 0 {
            let message =
                format!("{} arrive at the cluster barrier again before waiting at it", lanes(before & site.mask));
            return Err(self.fault(Kind::DoubleArrival, site, message));
        }
        warp.cluster_arrival = Some((generation, before | site.mask));
        if order == Semantics::Release {
            let knowledge = warp.knowledge.clone();
            warp.tick();
            self.barrier.arriving.join(&knowledge);
        }
        self.barrier.arrived += site.mask.count_ones();
        let time = self.path(site).time;
        self.barrier.time = self.barrier.time.max(time);
        self.note(What::ClusterArrive { generation }, site.b, site.w, site.mask, site.pc);
        self.settle_cluster();
        Ok(Flow::Next)
    }

    /// Completes the cluster barrier if all threads that have not left have arrived.
    fn settle_cluster(&mut self) {
        let live: u32 = self.blocks.iter().flat_map(|b| &b.warps).map(|w| w.live.count_ones()).sum();
        if self.barrier.arrived > 0 && self.barrier.arrived >= live {
            let arriving = std::mem::take(&mut self.barrier.arriving);
            self.barrier.released.join(&arriving);
            self.barrier.generation += 1;
            self.barrier.arrived = 0;
        }
    }

    pub fn cluster_wait(&mut self, site: Site, aligned: bool) -> Exec<Flow> {
        if aligned {
            self.aligned(site)?;
        }
        let Some((generation, arrived)) = self.blocks[site.b].warps[site.w].cluster_arrival else {
            let message = "waits at the cluster barrier without having arrived".to_string();
            return Err(self.fault(Kind::Deadlock, site, message));
        };
        if self.barrier.generation == generation {
            return Ok(Flow::Wait(Wait::Cluster { generation }));
        }
        let released = self.barrier.released.clone();
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.knowledge.join(&released);
        warp.meet();
        let rest = arrived & !site.mask;
        warp.cluster_arrival = (rest != 0).then_some((generation, rest));
        self.note(What::ClusterPass { generation }, site.b, site.w, site.mask, site.pc);
        Ok(Flow::Next)
    }

    // mbarriers.

    /// Block and shared address of the mbarrier at an address.
    pub fn barrier_target(&mut self, site: Site, space: Space, address: u64) -> Exec<(usize, u32)> {
        let Target::Shared(block, at) = self.target(site, space, address)? else {
            let message = format!("an mbarrier lies in shared memory; {address:#x} does not");
            return Err(self.fault(Kind::OutOfBounds, site, message));
        };
        if !at.is_multiple_of(8) {
            let message = format!("mbarrier address {at:#x} is not a multiple of 8");
            return Err(self.fault(Kind::Misaligned, site, message));
        }
        self.reach(site, block, at, 8)?;
        Ok((block, at))
    }

    /// The mbarrier there; it must be initialised, and the site must know it.
    pub fn barrier_at(&mut self, site: Site, block: usize, address: u32) -> Exec<&mut Mbarrier> {
        let Some(barrier) = self.blocks[block].barriers.get(&address) else {
            let message = format!("there is no initialised mbarrier at {}", self.name(block, address));
            return Err(self.fault(Kind::UninitialisedBarrier, site, message));
        };
        let knows = self.blocks[site.b].warps[site.w].knowledge.all.knows(barrier.initialised);
        let (visible, line) = (barrier.visible, barrier.line);
        if !knows || (block != site.b && !visible) {
            let name = self.name(block, address);
            let missing = if knows {
                "its init has not been fenced for the cluster"
            } else {
                "nothing orders its init before this"
            };
            let message = format!("{name} is used, but {missing} (init in line {line})");
            return Err(self.fault(Kind::UninitialisedBarrier, site, message));
        }
        Ok(self.blocks[block].barriers.get_mut(&address).expect("it was found above"))
    }

    pub fn mbarrier_init(&mut self, site: Site, space: Space, barrier: &Address, count: &Operand) -> Exec<Flow> {
        self.progress += 1;
        let addresses = self.address(site.b, site.w, barrier);
        let counts = self.value(site.b, site.w, count);
        for lane in site.lanes() {
            let one = site.lane(lane);
            let (block, address) = self.barrier_target(one, space, addresses[lane])?;
            let count = (counts[lane] & 0xffff_ffff) as i64;
            if block != site.b {
                let message = "an mbarrier is initialised by its own block".to_string();
                return Err(self.fault(Kind::InvalidOperand, one, message));
            }
            if !(1..=LIMIT).contains(&count) {
                let message = format!("mbarrier count {count} is not in 1 to {LIMIT}");
                return Err(self.fault(Kind::BarrierOverflow, one, message));
            }
            if let Some(old) = self.blocks[block].barriers.get(&address) {
                let message = format!(
                    "{} is initialised again without mbarrier.inval (first in line {})",
                    self.name(block, address),
                    old.line
                );
                return Err(self.fault(Kind::BarrierOverflow, one, message));
            }
            // Copies may still be on their way to these bytes, or a wgmma may read them.
            let writer = self.writer(one);
            let warp = &self.blocks[site.b].warps[site.w];
            let (knowledge, by) = (warp.knowledge.clone(), Some(warp.lane(lane)));
            let shared = &mut self.blocks[block].shared;
            let result = shared.write(&self.accesses, &[(address, by)], 8, writer, &knowledge);
            result.map_err(|(_, at, conflict)| {
                self.conflict((site.b, site.w, one.mask, site.pc), block, (at, conflict), true, "mbarrier.init")
            })?;
            self.blocks[block].shared.set_barrier(address, true);
            let dimension = self.dimension();
            let warp = &self.blocks[site.b].warps[site.w];
            let made = Mbarrier {
                count,
                pending: count,
                bytes: 0,
                phase: 0,
                announced: 0,
                landed: 0,
                last_landed: 0,
                dimension,
                arriving: Knowledge::default(),
                released: Knowledge::default(),
                arrived: Vec::new(),
                initialised: Epoch { dimension: warp.dimension, time: warp.time },
                visible: false,
                time: 0,
                line: self.cx.program.line(site.pc),
            };
            self.blocks[block].barriers.insert(address, made);
            self.note(What::BarrierInit { block, address, count }, site.b, site.w, one.mask, site.pc);
        }
        Ok(Flow::Next)
    }

    pub fn mbarrier_invalidate(&mut self, site: Site, space: Space, barrier: &Address) -> Exec<Flow> {
        let address = self.address(site.b, site.w, barrier)[site.first()];
        let (block, address) = self.barrier_target(site, space, address)?;
        self.barrier_at(site, block, address)?;
        self.blocks[block].barriers.remove(&address);
        self.blocks[block].shared.set_barrier(address, false);
        self.progress += 1;
        Ok(Flow::Next)
    }

    /// Completes the barrier's phase if nothing is pending any more.
    pub fn settle_mbarrier(&mut self, site: Site, block: usize, address: u32, time: u64) -> Exec<()> {
        let Some(barrier) = self.blocks[block].barriers.get_mut(&address) else { return Ok(()) };
        barrier.time = barrier.time.max(time);
        let phase = barrier.phase;
        let announced = barrier.announced;
        let landed = barrier.landed;
        if !barrier.complete() {
            return Ok(());
        }
        if let Some(barrier) = self.blocks[block].barriers.get_mut(&address) {
            barrier.last_landed = landed;
        }
        self.progress += 1;
        self.note(What::Complete { block, address, phase }, site.b, site.w, site.mask, site.pc);
        // A load that signals this barrier and has not landed will be counted in a later phase.
        let late = self.transfers.iter().filter(|t| t.stage == Stage::Load && t.block == block && t.barrier == address);
        let bytes: u64 = late.map(|t| u64::from(t.bytes)).sum();
        if bytes > 0 {
            let message = format!(
                "phase {phase} of {} completes with {bytes} bytes of bulk loads that signal it still on their way: \
                 expect_tx announced {announced} bytes, {bytes} too few",
                self.name(block, address)
            );
            return Err(self.fault(Kind::WrongExpectTx, site, message));
        }
        Ok(())
    }

    fn overflow(&self, site: Site, block: usize, address: u32, overflow: Overflow) -> Box<crate::report::Finding> {
        let name = self.name(block, address);
        let message = match overflow {
            Overflow::Arrivals { arriving, pending } => {
                format!("{arriving} arrivals on {name}, whose phase waits for {pending}")
            }
            Overflow::Bytes { bytes } => format!("{name} would have {bytes} bytes pending; the limit is {LIMIT}"),
        };
        self.fault(Kind::BarrierOverflow, site, message)
    }

    pub fn mbarrier_arrive(&mut self, site: Site, barrier: &Address, arrive: &Arrive) -> Exec<Flow> {
        let addresses = self.address(site.b, site.w, barrier);
        let counts = arrive.count.as_ref().map_or([1; 32], |count| self.value(site.b, site.w, count));
        let expects = arrive.expect_tx.as_ref().map(|bytes| self.value(site.b, site.w, bytes));
        let threads = self.cx.launch.threads() as usize;
        let knowledge = self.blocks[site.b].warps[site.w].knowledge.clone();
        let releases = !matches!(arrive.order, Some((Semantics::Relaxed, _)));
        let time = self.path(site).time;
        self.progress += 1;
        let mut states = [0u64; 32];
        // The phase that the lanes before have arrived in, so that knowledge is joined once.
        let mut joined = None;
        for lane in site.lanes() {
            let one = site.lane(lane);
            let (block, address) = self.barrier_target(one, arrive.space, addresses[lane])?;
            let thread = site.b * threads + site.w * 32 + lane;
            let count = (counts[lane] & 0xffff_ffff) as i64;
            let single = self.cx.options.single_arrivals;
            let barrier = self.barrier_at(one, block, address)?;
            let phase = barrier.phase;
            states[lane] = barrier.state();
            if let Some(bytes) = &expects {
                let bytes = (bytes[lane] & 0xffff_ffff) as i64;
                barrier.transact(bytes).map_err(|o| self.overflow(one, block, address, o))?;
                self.note(What::Expect { block, address, phase, bytes }, site.b, site.w, one.mask, site.pc);
            }
            let barrier = self.blocks[block].barriers.get_mut(&address).expect("it was found above");
            let before = barrier.note_arrival(thread);
            if single && before.is_some_and(|epoch| !knowledge.all.knows(epoch)) {
                let earlier = before.map_or(0, |epoch| epoch.time - 1);
                let message = format!(
                    "this thread arrives twice on {}, in phases {earlier} and {phase}, and nothing tells it that the first \
                     of them is over: the arrival is doubled, or a wait before it does not wait",
                    self.name(block, address)
                );
                return Err(self.fault(Kind::DoubleArrival, one, message));
            }
            if releases && joined != Some((block, address, phase)) {
                barrier.arriving.join(&knowledge);
                joined = Some((block, address, phase));
                let rest = site.mask & (u32::MAX << lane);
                self.note(What::Arrive { block, address, phase, count }, site.b, site.w, rest, site.pc);
            }
            let barrier = self.blocks[block].barriers.get_mut(&address).expect("it was found above");
            let pending = barrier.pending;
            let result = barrier.arrive(count);
            if arrive.drop {
                barrier.count -= count;
            }
            result.map_err(|o| self.overflow(one, block, address, o))?;
            if arrive.no_complete && count >= pending {
                let message = format!("arrive.noComplete completes the phase of {}", self.name(block, address));
                return Err(self.fault(Kind::BarrierOverflow, one, message));
            }
            self.settle_mbarrier(one, block, address, time)?;
        }
        self.blocks[site.b].warps[site.w].tick();
        if let Some(state) = arrive.state {
            self.set(site, state, &states);
        }
        Ok(Flow::Next)
    }

    /// `expect_tx` (`announce`) and `complete_tx`.
    pub fn mbarrier_transact(
        &mut self,
        site: Site,
        space: Space,
        barrier: &Address,
        bytes: &Operand,
        announce: bool,
    ) -> Exec<Flow> {
        self.progress += 1;
        let addresses = self.address(site.b, site.w, barrier);
        let bytes = self.value(site.b, site.w, bytes);
        for lane in site.lanes() {
            let one = site.lane(lane);
            let (block, address) = self.barrier_target(one, space, addresses[lane])?;
            let bytes = (bytes[lane] & 0xffff_ffff) as i64;
            let barrier = self.barrier_at(one, block, address)?;
            let phase = barrier.phase;
            barrier
                .transact(if announce { bytes } else { -bytes })
                .map_err(|o| self.overflow(one, block, address, o))?;
            if announce {
                self.note(What::Expect { block, address, phase, bytes }, site.b, site.w, one.mask, site.pc);
            }
            let time = self.path(site).time;
            self.settle_mbarrier(one, block, address, time)?;
        }
        Ok(Flow::Next)
    }

    pub fn mbarrier_wait(
        &mut self,
        site: Site,
        space: Space,
        barrier: &Address,
        phase: WaitPhase,
        may_block: bool,
        dst: Pred,
    ) -> Exec<Flow> {
        let addresses = self.address(site.b, site.w, barrier);
        let asked = match &phase {
            WaitPhase::State(operand) | WaitPhase::Parity(operand) => self.value(site.b, site.w, operand),
        };
        let mut passed = 0u32;
        let mut first = None;
        let mut last = None;
        for lane in site.lanes() {
            let one = site.lane(lane);
            if last == Some((addresses[lane], asked[lane])) {
                // As the lane before.
                passed |= (passed >> (lane - 1) & 1) << lane;
                continue;
            }
            let consecutive = lane == 31 || site.mask >> (lane + 1) & 1 == 1;
            last = consecutive.then_some((addresses[lane], asked[lane]));
            let (block, address) = self.barrier_target(one, space, addresses[lane])?;
            if block != site.b {
                let message = "a thread waits on barriers of its own block only".to_string();
                return Err(self.fault(Kind::InvalidOperand, one, message));
            }
            let barrier = self.barrier_at(one, block, address)?;
            let pass = match phase {
                WaitPhase::Parity(_) => barrier.passes(asked[lane]),
                WaitPhase::State(_) => barrier.phase > Mbarrier::phase_of(asked[lane]),
            };
            first = first.or(Some((block, address, barrier.phase)));
            if pass {
                passed |= 1 << lane;
                if barrier.phase > 0 {
                    let (released, phase) = (barrier.released.clone(), barrier.phase - 1);
                    let warp = &mut self.blocks[site.b].warps[site.w];
                    warp.knowledge.join(&released);
                    warp.meet();
                    self.note(What::Pass { block, address, phase }, site.b, site.w, site.mask, site.pc);
                }
            }
        }
        // A wait may give up at any time: code must look at what it returns.
        let patience = if may_block { 8 } else { 2 };
        let gives_up = self.path(site).wait == Wait::None
            && self.impatience.as_mut().is_some_and(|random| random.below(patience) == 0);
        if passed == 0
            && !gives_up
            && !self.path(site).early_return
            && let Some((block, address, phase)) = first
        {
            return Ok(Flow::Wait(Wait::Mbarrier { block, address, phase }));
        }
        self.set_pred(site, dst, passed);
        Ok(Flow::Next)
    }

    // Registers.

    pub fn set_max_registers(&mut self, site: Site, increase: bool, count: u32) -> Exec<Flow> {
        self.aligned(site)?;
        let bounds = &self.cx.program.entry.bounds;
        if bounds.max_threads.is_none() && bounds.required_threads.is_none() && bounds.max_registers.is_none() {
            let message =
                "setmaxnreg has no effect: the entry has neither .maxntid nor .reqntid nor .maxnreg".to_string();
            return Err(self.fault(Kind::Registers, site, message));
        }
        let block = &mut self.blocks[site.b];
        let warp = &mut block.warps[site.w];
        let now = warp.register_count;
        if increase == (count < now) && count != now {
            let word = if increase { "raises" } else { "lowers" };
            let message = format!("setmaxnreg {word} the registers of a thread from {now} to {count}");
            return Err(self.fault(Kind::Registers, site, message));
        }
        let change = i64::from(count) - i64::from(now);
        if change > 0 && block.register_pool < change * 32 {
            return Ok(Flow::Wait(Wait::Registers { more: change as u32 }));
        }
        block.register_pool -= change * 32;
        warp.register_count = count;
        self.progress += 1;
        Ok(Flow::Next)
    }

    // Leaving.

    /// What must hold when threads leave.
    pub fn before_exit(&mut self, site: Site) -> Exec<()> {
        let warp = &self.blocks[site.b].warps[site.w];
        if warp.wgmma_issued > warp.wgmma_retired && site.mask == warp.live {
            let message = "exits without waiting for its last wgmma".to_string();
            return Err(self.fault(Kind::ExitOutstanding, site, message));
        }
        if self.cx.options.require_drain && site.mask == warp.live {
            let unknown = warp
                .loads
                .iter()
                .find(|&&writer| self.accesses.get(writer).epoch.is_none_or(|epoch| !warp.knowledge.all.knows(epoch)));
            if let Some(&writer) = unknown {
                let copy = self.describe(&self.actions[self.accesses.get(writer).action as usize]);
                let message = "exits without knowing that the bulk loads it issued have landed: the drain is missing";
                let mut finding = self.fault(Kind::ExitOutstanding, site, message.to_string());
                finding.notes.push(format!("the load: {copy}"));
                return Err(finding);
            }
        }
        for lane in site.lanes() {
            let Some(thread) = self.blocks[site.b].bulk.get(&(site.w, lane)) else { continue };
            let last = Epoch { dimension: thread.dimension, time: thread.used as u32 };
            let known = self.blocks[site.b].warps[site.w].knowledge.all.knows(last);
            if thread.open > 0 || !known {
                let message = "exits without waiting for the bulk stores it issued".to_string();
                return Err(self.fault(Kind::ExitOutstanding, site.lane(lane), message));
            }
        }
        Ok(())
    }

    /// What others notice when threads have left, and what must hold when a block is done.
    pub fn after_exit(&mut self, site: Site) -> Exec<()> {
        for id in 0..16 {
            self.settle_named(site.b, id);
        }
        self.settle_cluster();
        if self.blocks[site.b].warps.iter().any(|warp| warp.live != 0) {
            return Ok(());
        }
        self.blocks[site.b].exited = true;
        self.block_done(site)
    }

    fn block_done(&mut self, site: Site) -> Exec<()> {
        let b = site.b;
        if let Some(transfer) = self.transfers.iter().find(|t| t.block == b && t.stage != Stage::StoreWrite) {
            let copy = self.describe(&transfer.issued);
            let message = format!(
                "the block exits while {} bytes of a bulk copy at {} are on their way",
                transfer.bytes,
                self.name(b, transfer.address)
            );
            let mut finding = self.fault(Kind::ExitOutstanding, site, message);
            finding.notes.push(format!("the copy: {copy}"));
            return Err(finding);
        }
        let left = &self.blocks[b].left;
        let reached = self.blocks[b].reached.iter();
        let unknown =
            reached.filter(|&(&dimension, &(time, _))| !left.all.knows(Epoch { dimension, time })).min_by_key(|r| r.0);
        if let Some((_, (_, event))) = unknown {
            let peer = self.who(event.block, event.warp, event.mask);
            let line = self.cx.program.line(event.pc);
            let message = format!(
                "the block may exit before {peer} reaches its shared memory in line {line}: nothing waits for that"
            );
            return Err(self.fault(Kind::PeerExited, site, message));
        }
        let mut barriers: Vec<(&u32, &Mbarrier)> = self.blocks[b].barriers.iter().collect();
        barriers.sort_by_key(|barrier| *barrier.0);
        for (&address, barrier) in barriers {
            let name = self.name(b, address);
            if barrier.bytes != 0 {
                let message = format!(
                    "the block exits with {} bytes pending on {name} in phase {} ({} announced, {} landed)",
                    barrier.bytes, barrier.phase, barrier.announced, barrier.landed
                );
                return Err(self.fault(Kind::ExitOutstanding, site, message));
            }
            if barrier.pending != barrier.count && self.cx.options.require_drain {
                let message = format!(
                    "the block exits in the middle of phase {} of {name}: {} of {} arrivals are pending",
                    barrier.phase, barrier.pending, barrier.count
                );
                return Err(self.fault(Kind::ExitOutstanding, site, message));
            }
        }
        let named = self.blocks[b].named.iter().position(|named| named.arrived > 0);
        if let Some(id) = named {
            let message = format!(
                "the block exits with {} threads counted on named barrier {id}",
                self.blocks[b].named[id].arrived
            );
            return Err(self.fault(Kind::ExitOutstanding, site, message));
        }
        for group in self.blocks[b].warps.chunks(4) {
            if group.iter().any(|warp| warp.register_count != group[0].register_count) {
                let counts: Vec<u32> = group.iter().map(|warp| warp.register_count).collect();
                let message =
                    format!("the warps of a warpgroup end with different register counts after setmaxnreg: {counts:?}");
                return Err(self.fault(Kind::Registers, site, message));
            }
        }
        Ok(())
    }
}
