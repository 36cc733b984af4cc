//! Bulk copies: issue, and what their engines do later.

use kernels::catalogue::Swizzle;
use ptx::ast::*;

use super::memory::Target;
use super::{Exec, PARAM_WINDOW, Site};
use crate::clock::Epoch;
use crate::cluster::{BulkThread, Cluster, Event, Flow, Remote, Stage, Transfer, What};
use crate::report::Kind;
use crate::shared::{Proxy, Reader, Writer};
use crate::timing;
use crate::warp::Wait;

/// A load about to be issued.
struct Load {
    block: usize,
    address: u32,
    bytes: u32,
    barrier: u32,
    remote: Remote,
    /// Parameter and coordinates, for reports.
    what: (usize, [i32; 2]),
}

/// Bytes that a store writes of a row of which `bytes` bytes from `skip` on lie in the tensor.
///
/// Whole chunks of 16 bytes are written, the last one of a row too: seen on an H200, where a store into rows of 130
/// elements, 136 apart, wrote elements 130 to 135.
fn whole_chunks(skip: u64, bytes: u64) -> u64 {
    (skip + bytes).next_multiple_of(16) - skip
}

impl Cluster<'_> {
    pub fn bulk(&mut self, site: Site, bulk: &Bulk) -> Exec<Flow> {
        match bulk {
            Bulk::TensorLoad { dst, src, barrier, multicast } => {
                for lane in site.lanes() {
                    let one = site.lane(lane);
                    let (map, at) = self.tensor(one, src, lane)?;
                    let bytes = self.cx.maps[map].2.box_bytes() as u32;
                    let what = (self.cx.maps[map].1, [at[0], at.get(1).copied().unwrap_or(0)]);
                    let remote = Remote::Tensor { map, at };
                    self.load_to(one, lane, dst, barrier, multicast.as_ref(), bytes, remote, what)?;
                }
            }
            Bulk::Load { dst, src, bytes, barrier, multicast } => {
                let (from, bytes) = (self.address(site.b, site.w, src), self.value(site.b, site.w, bytes));
                for lane in site.lanes() {
                    let one = site.lane(lane);
                    let bytes = self.bulk_size(one, bytes[lane], from[lane])?;
                    if !self.cx.memory.contains(from[lane], u64::from(bytes)) {
                        let message =
                            format!("bulk load of {bytes} bytes at {:#x}, which are in no buffer", from[lane]);
                        return Err(self.fault(Kind::OutOfBounds, one, message));
                    }
                    let remote = Remote::Global { address: from[lane] };
                    self.load_to(one, lane, dst, barrier, multicast.as_ref(), bytes, remote, (usize::MAX, [0; 2]))?;
                }
            }
            Bulk::TensorStore { dst, src } => {
                let from = self.address(site.b, site.w, src);
                for lane in site.lanes() {
                    let one = site.lane(lane);
                    let (map, at) = self.tensor(one, dst, lane)?;
                    let bytes = self.cx.maps[map].2.box_bytes() as u32;
                    self.issue_store(one, lane, from[lane], bytes, Remote::Tensor { map, at })?;
                }
            }
            Bulk::Store { dst, src, bytes } => {
                let (to, from) = (self.address(site.b, site.w, dst), self.address(site.b, site.w, src));
                let bytes = self.value(site.b, site.w, bytes);
                for lane in site.lanes() {
                    let one = site.lane(lane);
                    let bytes = self.bulk_size(one, bytes[lane], to[lane])?;
                    self.issue_store(one, lane, from[lane], bytes, Remote::Global { address: to[lane] })?;
                }
            }
            Bulk::TensorPrefetch { src } => {
                for lane in site.lanes() {
                    self.tensor(site.lane(lane), src, lane)?;
                }
            }
            Bulk::Commit => {
                for lane in site.lanes() {
                    let thread = self.bulk_thread(site, lane);
                    if thread.open > 0 {
                        thread.used = thread.groups.len();
                    }
                    thread.open = 0;
                    thread.groups.push([0, 0]);
                }
            }
            Bulk::Wait { pending, read } => return Ok(self.bulk_wait(site, *pending as usize, *read)),
            Bulk::TensorReduce { .. } | Bulk::Peer { .. } => {
                // Refused when the program was loaded.
                return Err(self.fault(Kind::InvalidOperand, site, "this bulk copy is not modelled".to_string()));
            }
        }
        Ok(Flow::Next)
    }

    fn bulk_size(&self, site: Site, bytes: u64, global: u64) -> Exec<u32> {
        let bytes = bytes & 0xffff_ffff;
        if bytes == 0 || !bytes.is_multiple_of(16) || !global.is_multiple_of(16) || bytes > 1 << 20 {
            let message = format!(
                "bulk copy of {bytes} bytes at {global:#x}: both must be multiples of 16, and the size not zero"
            );
            return Err(self.fault(Kind::Misaligned, site, message));
        }
        Ok(bytes as u32)
    }

    /// The tensor map at an address: its index in the context.
    pub fn map_at(&self, site: Site, address: u64) -> Exec<usize> {
        let offset = address & !PARAM_WINDOW;
        let found = self.cx.maps.iter().position(|map| map.0 == offset);
        let Some(index) = found.filter(|_| address & PARAM_WINDOW != 0 || address < 1 << 16) else {
            let message = format!("there is no tensor map at {address:#x}: a map must be a parameter, passed by value");
            return Err(self.fault(Kind::InvalidOperand, site, message));
        };
        if !offset.is_multiple_of(64) {
            let message = format!("the tensor map at offset {offset} of the parameters is not aligned to 64 bytes");
            return Err(self.fault(Kind::Misaligned, site, message));
        }
        Ok(index)
    }

    /// The map and coordinates of a tensor operand.
    fn tensor(&self, site: Site, address: &TensorAddress, lane: usize) -> Exec<(usize, Vec<i32>)> {
        let base = self.address(site.b, site.w, &address.map)[lane];
        let map = self.map_at(site, base)?;
        let coordinates = address.coordinates.iter().map(|c| self.value(site.b, site.w, c)[lane] as u32 as i32);
        let coordinates: Vec<i32> = coordinates.collect();
        let rank = self.cx.maps[map].2.extents.len();
        if rank != coordinates.len() {
            let message = format!("a {}-dimensional copy names a map of rank {rank}", coordinates.len());
            return Err(self.fault(Kind::InvalidOperand, site, message));
        }
        Ok((map, coordinates))
    }

    #[allow(clippy::too_many_arguments)]
    fn load_to(
        &mut self,
        site: Site,
        lane: usize,
        dst: &Address,
        barrier: &Address,
        multicast: Option<&Operand>,
        bytes: u32,
        remote: Remote,
        what: (usize, [i32; 2]),
    ) -> Exec<()> {
        self.check_grids(site)?;
        let to = self.address(site.b, site.w, dst)[lane];
        let counted = self.address(site.b, site.w, barrier)[lane];
        let Target::Shared(block, address) = self.target(site, Space::Cluster, to)? else { unreachable!() };
        let (barrier_block, barrier) = self.barrier_target(site, Space::Cluster, counted)?;
        let ranks: Vec<usize> = match multicast {
            None => {
                if barrier_block != block {
                    let message = format!(
                        "the load writes to rank {block}, but its mbarrier is in rank {barrier_block}: they must be in one block"
                    );
                    return Err(self.fault(Kind::InvalidOperand, site, message));
                }
                vec![block]
            }
            Some(mask) => {
                let mask = self.value(site.b, site.w, mask)[lane] & 0xffff;
                if mask == 0 || mask >> self.blocks.len() != 0 {
                    let message = format!("multicast mask {mask:#x} for a cluster of {} blocks", self.blocks.len());
                    return Err(self.fault(Kind::InvalidOperand, site, message));
                }
                (0..self.blocks.len()).filter(|rank| mask >> rank & 1 == 1).collect()
            }
        };
        for block in ranks {
            let load = Load { block, address, bytes, barrier, remote: remote.clone(), what };
            self.issue_load(site, load)?;
        }
        Ok(())
    }

    /// Checks the alignment that a shared address of a box needs.
    fn check_box_alignment(&self, site: Site, address: u32, remote: &Remote) -> Exec<()> {
        let align = match remote {
            Remote::Tensor { map, .. } => match self.cx.maps[*map].2.swizzle {
                Swizzle::None => 128,
                swizzle => 8 * swizzle.span() as u32,
            },
            Remote::Global { .. } => 16,
        };
        if address.is_multiple_of(align) {
            return Ok(());
        }
        let message = format!("shared address {address:#x} of a bulk copy is not a multiple of {align}");
        Err(self.fault(Kind::Misaligned, site, message))
    }

    fn issue_load(&mut self, site: Site, load: Load) -> Exec<()> {
        let Load { block, address, bytes, barrier, remote, what } = load;
        self.reach(site, block, address, bytes as usize)?;
        self.check_box_alignment(site, address, &remote)?;
        let counting = self.barrier_at(site, block, barrier)?;
        if !counting.visible {
            let line = counting.line;
            let message = format!(
                "a bulk load signals {}, whose init (line {line}) no fence.mbarrier_init has made visible to the async proxy",
                self.name(block, barrier)
            );
            return Err(self.fault(Kind::UninitialisedBarrier, site, message));
        }
        let event = site.event(What::CopyIn { block, address, map: what.0, at: what.1, bytes });
        let action = self.action(event);
        let writer = self.accesses.writer(Writer { epoch: None, proxy: Proxy::Async, action });
        let knowledge = std::mem::take(&mut self.blocks[site.b].warps[site.w].knowledge);
        let shared = &mut self.blocks[block].shared;
        let result = shared.write(&self.accesses, &[(address, None)], bytes as usize, writer, &knowledge);
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.knowledge = knowledge;
        result.map_err(|(_, at, conflict)| {
            self.conflict((site.b, site.w, site.mask, site.pc), block, (at, conflict), true, "a bulk load")
        })?;
        if block == site.b {
            let warp = &mut self.blocks[site.b].warps[site.w];
            if warp.loads.len() >= 64 {
                let Cluster { accesses, blocks, .. } = self;
                let warp = &mut blocks[site.b].warps[site.w];
                let (loads, all) = (&mut warp.loads, &warp.knowledge.all);
                loads.retain(|&load| accesses.get(load).epoch.is_none_or(|epoch| !all.knows(epoch)));
            }
            self.blocks[site.b].warps[site.w].loads.push(writer);
        }
        self.note(event.what, site.b, site.w, site.mask, site.pc);
        let now = self.path(site).time;
        let start = now.max(self.tma_free);
        self.tma_free = start + u64::from(bytes) / timing::TMA_BYTES_PER_CYCLE;
        self.start_transfer(Transfer {
            stage: Stage::Load,
            block,
            address,
            bytes,
            remote,
            barrier,
            writer,
            knowledge: self.blocks[site.b].warps[site.w].knowledge.clone(),
            thread: (site.b, site.w, site.first()),
            group: 0,
            data: Vec::new(),
            issued: event,
            start,
            ready: self.tma_free + timing::LOAD_LATENCY,
            number: 0,
        });
        Ok(())
    }

    fn start_transfer(&mut self, transfer: Transfer) {
        self.progress += 1;
        self.transfer_count += 1;
        self.transfers.push(Transfer { number: self.transfer_count, ..transfer });
    }

    fn bulk_thread(&mut self, site: Site, lane: usize) -> &mut BulkThread {
        if !self.blocks[site.b].bulk.contains_key(&(site.w, lane)) {
            let dimension = self.dimension();
            let written = self.dimension();
            let thread = BulkThread { dimension, written, groups: vec![[0, 0]], ..BulkThread::default() };
            self.blocks[site.b].bulk.insert((site.w, lane), thread);
        }
        self.blocks[site.b].bulk.get_mut(&(site.w, lane)).expect("it was inserted above")
    }

    fn issue_store(&mut self, site: Site, lane: usize, from: u64, bytes: u32, remote: Remote) -> Exec<()> {
        self.check_grids(site)?;
        let Target::Shared(block, address) = self.target(site, Space::Shared, from & 0xffff_ffff)? else {
            unreachable!()
        };
        self.reach(site, block, address, bytes as usize)?;
        self.check_box_alignment(site, address, &remote)?;
        let event = site.event(What::CopyOut { address, bytes });
        let action = self.action(event);
        let thread = self.bulk_thread(site, lane);
        let group = thread.groups.len() - 1;
        thread.groups[group] = [thread.groups[group][0] + 1, thread.groups[group][1] + 1];
        thread.open += 1;
        let time = group as u32 + 1;
        let reader = Reader { epoch: Epoch { dimension: thread.dimension, time }, action };
        let written = Epoch { dimension: thread.written, time };
        let knowledge = self.blocks[site.b].warps[site.w].knowledge.clone();
        let shared = &mut self.blocks[block].shared;
        let result = shared.read(&mut self.accesses, &[(address, None)], bytes as usize, reader, &knowledge);
        result.map_err(|(_, at, conflict)| {
            self.conflict((site.b, site.w, site.mask, site.pc), block, (at, conflict), false, "a bulk store")
        })?;
        self.note(event.what, site.b, site.w, site.mask, site.pc);
        self.copy_writes(site, &remote, bytes, written)?;
        let start = self.path(site).time;
        self.start_transfer(Transfer {
            stage: Stage::StoreRead,
            block,
            address,
            bytes,
            remote,
            barrier: 0,
            writer: 0,
            knowledge: Default::default(),
            thread: (site.b, site.w, lane),
            group,
            data: Vec::new(),
            issued: event,
            start,
            ready: start + timing::STORE_READ_LATENCY + u64::from(bytes) / timing::TMA_BYTES_PER_CYCLE,
            number: 0,
        });
        Ok(())
    }

    /// Notes what a bulk store will write to global memory.
    fn copy_writes(&mut self, site: Site, remote: &Remote, bytes: u32, epoch: Epoch) -> Exec<()> {
        let mut areas = Vec::new();
        match remote {
            Remote::Tensor { map, at } => self.cx.maps[*map].2.rows(at, |_, address, skip, bytes| {
                if bytes > 0 {
                    areas.push((address, whole_chunks(skip, bytes)));
                }
            }),
            Remote::Global { address } => areas.push((*address, u64::from(bytes))),
        }
        let number = self.global_write(site, epoch, false);
        for (address, bytes) in areas {
            self.note_global(site, address, bytes as usize, number, "a bulk store")?;
        }
        Ok(())
    }

    fn bulk_wait(&mut self, site: Site, pending: usize, read: bool) -> Flow {
        for lane in site.lanes() {
            let Some(thread) = self.blocks[site.b].bulk.get(&(site.w, lane)) else { continue };
            let target = (thread.groups.len() - 1).saturating_sub(pending);
            let (dimension, written) = (thread.dimension, thread.written);
            if !thread.groups[..target].iter().all(|group| group[0] == 0 && (read || group[1] == 0)) {
                return Flow::Wait(Wait::Bulk { lane, groups: target, read });
            }
            let warp = &mut self.blocks[site.b].warps[site.w];
            warp.knowledge.all.learn(Epoch { dimension, time: target as u32 });
            if !read {
                warp.knowledge.all.learn(Epoch { dimension: written, time: target as u32 });
            }
        }
        Flow::Next
    }

    /// Lets a transfer do its next part.
    pub fn advance_transfer(&mut self, index: usize) -> Exec<()> {
        self.progress += 1;
        match self.transfers[index].stage {
            Stage::Load => self.land(index),
            Stage::StoreRead => {
                self.read_store(index);
                Ok(())
            }
            Stage::StoreWrite => self.write_store(index),
        }
    }

    fn site_of(event: &Event) -> Site {
        Site { b: event.block, w: event.warp, p: 0, mask: event.mask, pc: event.pc }
    }

    /// Calls `visit` for each 16-byte piece of a box of `bytes` bytes: its offset in the box, and its
    /// shared address.
    fn pieces(address: u32, bytes: u32, swizzle: Swizzle, mut visit: impl FnMut(usize, u32)) {
        for offset in (0..bytes).step_by(16) {
            visit(offset as usize, swizzle.apply((address + offset) as usize) as u32);
        }
    }

    fn swizzle_of(&self, remote: &Remote) -> Swizzle {
        match remote {
            Remote::Tensor { map, .. } => self.cx.maps[*map].2.swizzle,
            Remote::Global { .. } => Swizzle::None,
        }
    }

    fn land(&mut self, index: usize) -> Exec<()> {
        let transfer = self.transfers.swap_remove(index);
        let site = Self::site_of(&transfer.issued);
        let mut data = vec![0u8; transfer.bytes as usize];
        let memory = self.cx.memory;
        let mut failed = None;
        match &transfer.remote {
            Remote::Tensor { map, at } => self.cx.maps[*map].2.rows(at, |offset, address, skip, bytes| {
                let start = (offset + skip) as usize;
                if bytes > 0 {
                    failed = failed.take().or(memory.read(address, &mut data[start..start + bytes as usize]).err());
                }
            }),
            Remote::Global { address } => failed = memory.read(*address, &mut data).err(),
        }
        if let Some(why) = failed {
            return Err(self.fault(Kind::OutOfBounds, site, why.to_string()));
        }
        let (block, address, bytes) = (transfer.block, transfer.address, transfer.bytes);
        let swizzle = self.swizzle_of(&transfer.remote);
        let shared = &mut self.blocks[block].shared;
        Self::pieces(address, bytes, swizzle, |offset, to| {
            shared.slice_mut(to, 16).copy_from_slice(&data[offset..offset + 16]);
        });
        let Some(barrier) = self.blocks[block].barriers.get_mut(&transfer.barrier) else {
            let name = self.name(block, transfer.barrier);
            let message = format!("a bulk load completes on {name}, which is no mbarrier any more");
            return Err(self.fault(Kind::UninitialisedBarrier, site, message));
        };
        let epoch = Epoch { dimension: barrier.dimension, time: barrier.phase as u32 + 1 };
        let result = barrier.transact(-i64::from(bytes));
        // That the bytes are here says that all that the copy was issued after has happened.
        barrier.arriving.join(&transfer.knowledge);
        let (missing, announced) = (-barrier.bytes, barrier.announced);
        let nobody_left = barrier.pending == 0;
        self.accesses.landed(transfer.writer, epoch);
        self.note(What::Landed { block, address, bytes }, site.b, site.w, site.mask, site.pc);
        self.span_transfer(&transfer, transfer.ready);
        if result.is_err() {
            let message = format!(
                "more than 2^20 - 1 bytes land on {} without having been announced",
                self.name(block, transfer.barrier)
            );
            return Err(self.fault(Kind::BarrierOverflow, site, message));
        }
        if missing > 0 && nobody_left {
            let message = format!(
                "{missing} bytes more have landed on {} than its {announced} announced ones, and all arrivals are in: expect_tx is too small",
                self.name(block, transfer.barrier)
            );
            return Err(self.fault(Kind::WrongExpectTx, site, message));
        }
        self.settle_mbarrier(site, block, transfer.barrier, transfer.ready)
    }

    fn read_store(&mut self, index: usize) {
        let swizzle = self.swizzle_of(&self.transfers[index].remote);
        let transfer = &mut self.transfers[index];
        let mut data = vec![0u8; transfer.bytes as usize];
        let shared = &self.blocks[transfer.block].shared;
        Self::pieces(transfer.address, transfer.bytes, swizzle, |offset, from| {
            data[offset..offset + 16].copy_from_slice(shared.slice(from, 16));
        });
        transfer.data = data;
        transfer.stage = Stage::StoreWrite;
        let done = transfer.ready;
        transfer.ready += timing::STORE_WRITE_LATENCY;
        let (event, thread, group) = (transfer.issued, transfer.thread, transfer.group);
        let what = What::CopyRead { address: transfer.address, bytes: transfer.bytes };
        if let Some(bulk) = self.blocks[thread.0].bulk.get_mut(&(thread.1, thread.2)) {
            bulk.groups[group][0] -= 1;
            bulk.time = bulk.time.max(done);
        }
        self.note(what, event.block, event.warp, event.mask, event.pc);
    }

    fn write_store(&mut self, index: usize) -> Exec<()> {
        let transfer = self.transfers.swap_remove(index);
        let site = Self::site_of(&transfer.issued);
        let memory = self.cx.memory;
        let mut failed = None;
        match &transfer.remote {
            Remote::Tensor { map, at } => self.cx.maps[*map].2.rows(at, |offset, address, skip, bytes| {
                let start = (offset + skip) as usize;
                if bytes > 0 {
                    let whole = whole_chunks(skip, bytes);
                    failed =
                        failed.take().or(memory.write(address, &transfer.data[start..start + whole as usize]).err());
                }
            }),
            Remote::Global { address } => failed = memory.write(*address, &transfer.data).err(),
        }
        if let Some(why) = failed {
            return Err(self.fault(Kind::OutOfBounds, site, why.to_string()));
        }
        let (thread, group) = (transfer.thread, transfer.group);
        if let Some(bulk) = self.blocks[thread.0].bulk.get_mut(&(thread.1, thread.2)) {
            bulk.groups[group][1] -= 1;
            bulk.time = bulk.time.max(transfer.ready);
        }
        self.span_transfer(&transfer, transfer.ready);
        self.note(What::CopyDone { bytes: transfer.bytes }, site.b, site.w, site.mask, site.pc);
        Ok(())
    }
}
