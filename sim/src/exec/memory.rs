//! Ordinary loads and stores, atomics, and matrix fragments.

use ptx::ast::*;

use super::global::Order;
use super::{Exec, PARAM_WINDOW, RANK_SHIFT, SHARED_WINDOW, Site, extend, low_bits};
use crate::clock::Epoch;
use crate::cluster::{Cluster, Flow, What};
use crate::report::Kind;
use crate::shared::{Proxy, Reader, Writer};
use crate::tensor_core::{DEPTH, Half};
use crate::warp::Lanes;

/// Where an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Target {
    /// Block of the cluster, and shared address there.
    Shared(usize, u32),
    Global(u64),
    Param(u64),
}

impl Cluster<'_> {
    /// Where `address` of `space` leads.
    pub fn target(&self, site: Site, space: Space, address: u64) -> Exec<Target> {
        let shared = |address: u64| {
            let rank = (address >> RANK_SHIFT & 0xff) as usize;
            let inside = (address & ((1 << RANK_SHIFT) - 1)) as u32;
            if rank == 0 { Target::Shared(site.b, inside) } else { Target::Shared(rank - 1, inside) }
        };
        let target = match space {
            Space::Shared if address & 0xffff_ffff < 1 << RANK_SHIFT => Target::Shared(site.b, address as u32),
            Space::Shared => {
                let message = format!("{address:#x} is not an address of this block's shared memory");
                return Err(self.fault(Kind::OutOfBounds, site, message));
            }
            Space::Cluster => shared(address & 0xffff_ffff),
            Space::Param => Target::Param(address),
            Space::Generic if address & SHARED_WINDOW != 0 => shared(address & 0xffff_ffff),
            Space::Generic if address & PARAM_WINDOW != 0 => Target::Param(address & !PARAM_WINDOW),
            Space::Generic | Space::Global | Space::Const | Space::Local => Target::Global(address),
        };
        if let Target::Shared(block, _) = target
            && block >= self.blocks.len()
        {
            let message =
                format!("{address:#x} is an address of rank {block}; the cluster has {} blocks", self.blocks.len());
            return Err(self.fault(Kind::OutOfBounds, site, message));
        }
        Ok(target)
    }

    /// Checks that bytes of shared memory exist, that the block is there, and notes that a peer came.
    pub fn reach(&mut self, site: Site, block: usize, address: u32, length: usize) -> Exec<()> {
        if !self.in_shared(address, length) {
            let message = format!(
                "{length} bytes at shared address {address:#x} lie outside the block's {} bytes of shared memory",
                self.cx.shared_bytes
            );
            return Err(self.fault(Kind::OutOfBounds, site, message));
        }
        if block != site.b {
            if self.blocks[block].exited {
                let message = format!("{} is reached after its block has left", self.name(block, address));
                return Err(self.fault(Kind::PeerExited, site, message));
            }
            let warp = &self.blocks[site.b].warps[site.w];
            let (dimension, time) = (warp.dimension, warp.time);
            self.blocks[block].reached.insert(dimension, (time, site.event(What::Nothing)));
        }
        Ok(())
    }

    fn check_alignment(&self, site: Site, address: u64, bytes: u64) -> Exec<()> {
        if address.is_multiple_of(bytes) {
            return Ok(());
        }
        let message = format!("address {address:#x} is not a multiple of the access's {bytes} bytes");
        Err(self.fault(Kind::Misaligned, site, message))
    }

    /// The site with all lanes of its path, for accesses that are noted once for all.
    fn whole_path(&self, site: Site) -> Site {
        let path = self.blocks[site.b].warps[site.w].paths.get(site.p);
        Site { mask: path.map_or(site.mask, |path| path.mask), ..site }
    }

    /// What a warp's writes are known by now.
    fn epoch(&self, site: Site) -> Epoch {
        let warp = &self.blocks[site.b].warps[site.w];
        Epoch { dimension: warp.dimension, time: warp.time }
    }

    /// The reader that ordinary loads of a warp are now.
    fn reader(&mut self, site: Site) -> Reader {
        let warp = &self.blocks[site.b].warps[site.w];
        let (dimension, time, last) = (warp.dimension, warp.time, warp.last_read);
        if (last.0, last.1) != (site.pc, time) {
            let action = self.action(self.whole_path(site).event(What::Load));
            self.blocks[site.b].warps[site.w].last_read = (site.pc, time, action);
        }
        let action = self.blocks[site.b].warps[site.w].last_read.2;
        Reader { epoch: Epoch { dimension, time }, action }
    }

    /// The number of the writer that ordinary stores of a warp are now.
    pub fn writer(&mut self, site: Site) -> u32 {
        let warp = &self.blocks[site.b].warps[site.w];
        let (dimension, time, last) = (warp.dimension, warp.time, warp.last_write);
        if (last.0, last.1) != (site.pc, time) {
            let action = self.action(self.whole_path(site).event(What::Store));
            let epoch = Some(Epoch { dimension, time });
            let number = self.accesses.writer(Writer { epoch, proxy: Proxy::Generic, action });
            self.blocks[site.b].warps[site.w].last_write = (site.pc, time, number);
        }
        self.blocks[site.b].warps[site.w].last_write.2
    }

    /// Where the lanes' addresses lead, `length` bytes each: aligned, and reachable in shared memory.
    fn targets(&mut self, site: Site, space: Space, addresses: &Lanes, length: usize) -> Exec<[Target; 32]> {
        let mut targets = [Target::Param(0); 32];
        for lane in site.lanes() {
            let one = site.lane(lane);
            self.check_alignment(one, addresses[lane], length as u64)?;
            targets[lane] = self.target(one, space, addresses[lane])?;
            match targets[lane] {
                Target::Shared(block, at) => self.reach(one, block, at, length)?,
                Target::Global(_) => self.check_grids(one)?,
                Target::Param(_) => {}
            }
        }
        Ok(targets)
    }

    /// Checks that global memory is not touched by a block none of whose threads has waited for the grid before, in a kernel
    /// that is launched to overlap with it. That others of the block wait is enough: barriers may order the rest.
    pub fn check_grids(&self, site: Site) -> Exec<()> {
        if !self.cx.program.waits_for_grids || self.blocks[site.b].has_waited {
            return Ok(());
        }
        let message = "global memory is touched before griddepcontrol.wait: the grid before may still write it";
        Err(self.fault(Kind::BeforeGridWait, site, message.to_string()))
    }

    /// Checks and notes ordinary accesses to shared memory: of each lane for itself, or of all together.
    fn check_shared(
        &mut self,
        site: Site,
        targets: &[Target; 32],
        length: usize,
        writes: bool,
        together: bool,
    ) -> Exec<()> {
        let block_of = |lane: usize| match targets[lane] {
            Target::Shared(block, _) => Some(block),
            _ => None,
        };
        let mut rest = site.lanes().filter(|&lane| block_of(lane).is_some()).fold(0u32, |mask, lane| mask | 1 << lane);
        while rest != 0 {
            let target = block_of(rest.trailing_zeros() as usize).unwrap_or(site.b);
            let warp = &self.blocks[site.b].warps[site.w];
            let (mut places, mut lanes, mut count) = ([(0, None); 32], [0; 32], 0);
            for lane in (Site { mask: rest, ..site }).lanes() {
                if let Target::Shared(block, at) = targets[lane]
                    && block == target
                {
                    places[count] = (at, Some(if together { warp.all_lanes() } else { warp.lane(lane) }));
                    lanes[count] = lane;
                    count += 1;
                    rest &= !(1 << lane);
                }
            }
            let knowledge = std::mem::take(&mut self.blocks[site.b].warps[site.w].knowledge);
            let result = if writes {
                let writer = self.writer(site);
                let shared = &mut self.blocks[target].shared;
                shared.write(&self.accesses, &places[..count], length, writer, &knowledge)
            } else {
                let reader = self.reader(site);
                let shared = &mut self.blocks[target].shared;
                shared.read(&mut self.accesses, &places[..count], length, reader, &knowledge)
            };
            self.blocks[site.b].warps[site.w].knowledge = knowledge;
            result.map_err(|(index, at, conflict)| {
                let what = if writes { "an ordinary store" } else { "an ordinary load" };
                let who = (site.b, site.w, 1 << lanes[index], site.pc);
                self.conflict(who, target, (at, conflict), writes, what)
            })?;
        }
        Ok(())
    }

    pub fn load(
        &mut self,
        site: Site,
        space: Space,
        order: Order,
        ty: Type,
        dst: &[Option<Reg>],
        address: &Address,
    ) -> Exec<Flow> {
        let addresses = self.address(site.b, site.w, address);
        let size = ty.bytes() as usize;
        let bytes = size * dst.len();
        let mut values = vec![[0u64; 32]; dst.len()];
        let mut buffer = [0u8; 16];
        // Lanes often look at the same word: once is enough.
        let mut acquired = None;
        // A symbol's address is in its own space already.
        let space = match address.base {
            Operand::Address(Symbol::Param(_), _) => Space::Param,
            _ => space,
        };
        let targets = self.targets(site, space, &addresses, bytes)?;
        if order.is_weak() {
            self.check_shared(site, &targets, bytes, false, false)?;
        }
        for lane in site.lanes() {
            let one = site.lane(lane);
            match targets[lane] {
                Target::Shared(block, at) => {
                    self.acquire_word(one, block, at, order);
                    buffer[..bytes].copy_from_slice(self.blocks[block].shared.slice(at, bytes));
                }
                Target::Global(at) => {
                    let result = self.cx.memory.read(at, &mut buffer[..bytes]);
                    result.map_err(|why| self.fault(Kind::OutOfBounds, one, why.to_string()))?;
                    if acquired.replace(at) != Some(at) {
                        self.acquire_global(one, at, order);
                    }
                    self.check_global(one, at, bytes, !order.is_weak())?;
                }
                Target::Param(at) => {
                    let params = &self.cx.params;
                    let Some(from) = params.get(at as usize..).and_then(|rest| rest.get(..bytes)) else {
                        let message =
                            format!("{bytes} bytes at offset {at} of the parameters, which have {}", params.len());
                        return Err(self.fault(Kind::OutOfBounds, one, message));
                    };
                    buffer[..bytes].copy_from_slice(from);
                }
            }
            for (i, value) in values.iter_mut().enumerate() {
                let mut word = [0; 8];
                word[..size].copy_from_slice(&buffer[i * size..(i + 1) * size]);
                value[lane] = extend(ty, u64::from_le_bytes(word));
            }
        }
        for (dst, value) in dst.iter().zip(&values) {
            if let Some(dst) = dst {
                self.set(site, *dst, value);
            }
        }
        Ok(Flow::Next)
    }

    pub fn store(
        &mut self,
        site: Site,
        space: Space,
        order: Order,
        ty: Type,
        address: &Address,
        src: &[Operand],
    ) -> Exec<Flow> {
        self.progress += 1;
        let addresses = self.address(site.b, site.w, address);
        let values: Vec<Lanes> = src.iter().map(|operand| self.value(site.b, site.w, operand)).collect();
        let size = ty.bytes() as usize;
        let bytes = size * src.len();
        let mut buffer = [0u8; 16];
        let (path, epoch, mut number) = (self.whole_path(site), self.epoch(site), None);
        let targets = self.targets(site, space, &addresses, bytes)?;
        if order.is_weak() {
            self.check_shared(site, &targets, bytes, true, false)?;
        }
        for lane in site.lanes() {
            let one = site.lane(lane);
            for (i, value) in values.iter().enumerate() {
                buffer[i * size..(i + 1) * size].copy_from_slice(&value[lane].to_le_bytes()[..size]);
            }
            match targets[lane] {
                Target::Shared(block, at) => {
                    self.blocks[block].shared.slice_mut(at, bytes).copy_from_slice(&buffer[..bytes]);
                    self.release_word(one, block, at, order);
                }
                Target::Global(at) => {
                    let result = self.cx.memory.write(at, &buffer[..bytes]);
                    result.map_err(|why| self.fault(Kind::OutOfBounds, one, why.to_string()))?;
                    let number = *number.get_or_insert_with(|| self.global_write(path, epoch, !order.is_weak()));
                    self.note_global(one, at, bytes, number, "an ordinary store")?;
                    self.release_global(one, at, order);
                }
                Target::Param(_) => {
                    return Err(self.fault(Kind::OutOfBounds, one, "parameters are read-only".to_string()));
                }
            }
        }
        Ok(Flow::Next)
    }

    /// The acquiring side of an operation on a word of shared memory.
    fn acquire_word(&mut self, site: Site, block: usize, address: u32, order: Order) {
        if !order.is_weak()
            && let Some(word) = self.blocks[block].words.get(&(address & !3)).cloned()
        {
            self.is_passed(site, order, &word);
        }
    }

    /// The releasing side.
    fn release_word(&mut self, site: Site, block: usize, address: u32, order: Order) {
        if let Some(knowledge) = self.passes_on(site, order, false) {
            self.blocks[block].words.entry(address & !3).or_default().join(&knowledge);
            self.blocks[site.b].warps[site.w].tick();
        }
    }

    #[allow(clippy::too_many_arguments)]
    pub fn atomic(
        &mut self,
        site: Site,
        op: AtomicOp,
        order: Order,
        space: Space,
        ty: Type,
        dst: Option<Reg>,
        address: &Address,
        a: &Operand,
        compare: Option<&Operand>,
    ) -> Exec<Flow> {
        self.progress += 1;
        let addresses = self.address(site.b, site.w, address);
        let first = self.value(site.b, site.w, a);
        let second = compare.map_or([0; 32], |operand| self.value(site.b, site.w, operand));
        let size = ty.bytes() as usize;
        let mut old = [0u64; 32];
        let (path, epoch, mut number) = (self.whole_path(site), self.epoch(site), None);
        let targets = self.targets(site, space, &addresses, size)?;
        for lane in site.lanes() {
            let one = site.lane(lane);
            let mut word = [0u8; 8];
            match targets[lane] {
                Target::Shared(block, at) => {
                    self.acquire_word(one, block, at, order);
                    word[..size].copy_from_slice(self.blocks[block].shared.slice(at, size));
                }
                Target::Global(at) => {
                    let result = self.cx.memory.read(at, &mut word[..size]);
                    result.map_err(|why| self.fault(Kind::OutOfBounds, one, why.to_string()))?;
                    self.acquire_global(one, at, order);
                }
                Target::Param(_) => {
                    return Err(self.fault(Kind::OutOfBounds, one, "parameters are read-only".to_string()));
                }
            }
            let before = u64::from_le_bytes(word);
            old[lane] = before;
            let new = combine(op, ty, before, first[lane] & low_bits(size as u64 * 8), second[lane]);
            let bytes = &new.to_le_bytes()[..size];
            match targets[lane] {
                Target::Shared(block, at) => {
                    self.blocks[block].shared.slice_mut(at, size).copy_from_slice(bytes);
                    self.release_word(one, block, at, order);
                }
                Target::Global(at) => {
                    let result = self.cx.memory.write(at, bytes);
                    result.map_err(|why| self.fault(Kind::OutOfBounds, one, why.to_string()))?;
                    let number = *number.get_or_insert_with(|| self.global_write(path, epoch, true));
                    self.note_global(one, at, size, number, "an atomic operation")?;
                    self.release_global(one, at, order);
                }
                Target::Param(_) => {}
            }
        }
        if let Some(dst) = dst {
            self.set(site, dst, &old);
        }
        Ok(Flow::Next)
    }

    /// Where the rows of matrices lie: threads 8·i to 8·i+7 hold the addresses of the rows of matrix i.
    fn matrix_rows(&mut self, site: Site, address: &Address, matrices: usize, writes: bool) -> Exec<[Target; 32]> {
        self.aligned(site)?;
        let addresses = self.address(site.b, site.w, address).map(|address| address & 0xffff_ffff);
        let rows = Site { mask: u32::MAX >> (32 - 8 * matrices.clamp(1, 4)), ..site };
        let targets = self.targets(rows, Space::Shared, &addresses, 16)?;
        self.check_shared(rows, &targets, 16, writes, true)?;
        Ok(targets)
    }

    pub fn load_matrix(&mut self, site: Site, transpose: bool, dst: &[Reg], address: &Address) -> Exec<Flow> {
        let targets = self.matrix_rows(site, address, dst.len(), false)?;
        for (matrix, dst) in dst.iter().enumerate() {
            let mut rows = [[0u8; 16]; 8];
            for (row, bytes) in rows.iter_mut().enumerate() {
                if let Target::Shared(block, at) = targets[matrix * 8 + row] {
                    bytes.copy_from_slice(self.blocks[block].shared.slice(at, 16));
                }
            }
            let element = |row: usize, column: usize| {
                u64::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]))
            };
            let out = std::array::from_fn(|lane| {
                let (row, column) = (lane / 4, 2 * (lane % 4));
                if transpose {
                    element(column, row) | element(column + 1, row) << 16
                } else {
                    element(row, column) | element(row, column + 1) << 16
                }
            });
            self.set(site, *dst, &out);
        }
        Ok(Flow::Next)
    }

    pub fn store_matrix(&mut self, site: Site, transpose: bool, address: &Address, src: &[Operand]) -> Exec<Flow> {
        self.progress += 1;
        let targets = self.matrix_rows(site, address, src.len(), true)?;
        for (matrix, src) in src.iter().enumerate() {
            let value = self.value(site.b, site.w, src);
            let mut rows = [[0u8; 16]; 8];
            for (lane, value) in value.iter().enumerate() {
                for half in 0..2 {
                    let (mut row, mut column) = (lane / 4, 2 * (lane % 4) + half);
                    if transpose {
                        (row, column) = (column, row);
                    }
                    let bits = (value >> (16 * half)) as u16;
                    rows[row][2 * column..2 * column + 2].copy_from_slice(&bits.to_le_bytes());
                }
            }
            for (row, bytes) in rows.iter().enumerate() {
                if let Target::Shared(block, at) = targets[matrix * 8 + row] {
                    self.blocks[block].shared.slice_mut(at, 16).copy_from_slice(bytes);
                }
            }
        }
        Ok(Flow::Next)
    }

    /// `mma.sync.m16n8k8` and `k16`: fragments as in the PTX ISA, "Matrix Fragments for mma.m16n8k16".
    pub fn mma(&mut self, site: Site, mma: &Mma) -> Exec<Flow> {
        self.aligned(site)?;
        let half = if mma.ab_type == Type::F16 { Half::F16 } else { Half::Bf16 };
        let mut operands = std::mem::take(&mut self.scratch.operands);
        let get =
            |operands: &[Operand]| -> Vec<_> { operands.iter().map(|o| self.borrowed(site.b, site.w, o)).collect() };
        let (a, b, c) = (get(&mma.a), get(&mma.b), get(&mma.c));
        let half_of = |value: u64, i: usize| (value >> (16 * i)) as u16;
        let mut rows = [[0u16; DEPTH]; 16];
        let mut columns = [[0u16; DEPTH]; 8];
        for lane in 0..32 {
            for i in 0..2 {
                for (register, a) in a.iter().enumerate() {
                    let row = lane / 4 + 8 * (register % 2);
                    rows[row][2 * (lane % 4) + i + 8 * (register / 2)] = half_of(a[lane], i);
                }
                for (register, b) in b.iter().enumerate() {
                    columns[lane / 4][2 * (lane % 4) + i + 8 * register] = half_of(b[lane], i);
                }
            }
        }
        operands.fill(half, &rows, &columns, [false; 2]);
        let mut out = [[0u64; 32]; 4];
        for row in 0..16 {
            // The four threads of a row hold two columns each.
            let place = |column: usize| (row / 8 * 2 + column % 2, row % 8 * 4 + column / 2);
            let mut sums: [f32; 8] = std::array::from_fn(|column| {
                let (register, lane) = place(column);
                f32::from_bits(c[register][lane] as u32)
            });
            operands.add_row(row, &mut sums);
            for (column, sum) in sums.iter().enumerate() {
                let (register, lane) = place(column);
                out[register][lane] = u64::from(sum.to_bits());
            }
        }
        self.scratch.operands = operands;
        for (dst, value) in mma.d.iter().zip(&out) {
            self.set(site, *dst, value);
        }
        Ok(Flow::Next)
    }
}

/// The new value of an atomic operation.
fn combine(op: AtomicOp, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let wide = ty.bytes() == 8;
    match op {
        AtomicOp::Add if ty == Type::F32 => {
            u64::from((f32::from_bits(old as u32) + f32::from_bits(a as u32)).to_bits())
        }
        AtomicOp::Add => old.wrapping_add(a),
        AtomicOp::Min | AtomicOp::Max => {
            let less = if ty.signed() { (extend(ty, old) as i64) < extend(ty, a) as i64 } else { old < a };
            if less == (op == AtomicOp::Min) { old } else { a }
        }
        AtomicOp::And => old & a,
        AtomicOp::Or => old | a,
        AtomicOp::Xor => old ^ a,
        AtomicOp::Exchange => a,
        AtomicOp::CompareAndSwap => {
            let mask = if wide { u64::MAX } else { low_bits(ty.bytes() * 8) };
            if old == a { b & mask } else { old }
        }
        AtomicOp::Increment => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicOp::Decrement => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
    }
}
