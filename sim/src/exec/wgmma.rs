//! wgmma: issue by four warps, execution by the tensor cores some time before the wait.

use kernels::catalogue::Swizzle;
use ptx::ast::*;

use super::{Exec, Site};
use crate::clock::Epoch;
use crate::cluster::{Cluster, Flow, Operation, Tiles, What};
use crate::report::Kind;
use crate::shared::{Proxy, Reader, Shared};
use crate::tensor_core::{DEPTH, Half, Operands, unchanged};
use crate::timing;
use crate::warp::{Lanes, Wait};

/// Rows of a wgmma.
const ROWS: usize = 64;

/// Buffers that wgmmas use one after the other.
#[derive(Default)]
pub(crate) struct Scratch {
    pub operands: Operands,
    a: Vec<[u16; DEPTH]>,
    b: Vec<[u16; DEPTH]>,
    sums: Vec<f32>,
    chunks: Vec<u32>,
}

/// A matrix descriptor (PTX ISA, "Matrix Descriptor Format"), in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Descriptor {
    pub start: u32,
    leading: u32,
    stride: u32,
    base_offset: u32,
    pub swizzle: Swizzle,
}

impl Descriptor {
    pub fn decode(bits: u64) -> Descriptor {
        let field = |at: u32| (bits >> at & 0x3fff) as u32 * 16;
        Descriptor {
            start: field(0),
            leading: field(16),
            stride: field(32),
            base_offset: (bits >> 49 & 7) as u32,
            swizzle: match bits >> 62 {
                0 => Swizzle::None,
                1 => Swizzle::B128,
                2 => Swizzle::B64,
                _ => Swizzle::B32,
            },
        }
    }

    /// Shared addresses of the 16-byte pieces of a tile of `rows` × 16 elements of two bytes.
    ///
    /// K-major: two pieces a row, each eight elements of K. MN-major (`transposed`): for each of the
    /// sixteen rows of K, `rows` / 8 pieces of eight elements of M or N.
    fn chunks(&self, rows: usize, transposed: bool, out: &mut Vec<u32>) {
        out.clear();
        let span = self.swizzle.span() as u32;
        let wrap = |linear: u32| self.swizzle.apply(linear as usize) as u32;
        if transposed {
            for k in 0..DEPTH as u32 {
                for piece in 0..rows as u32 / 8 {
                    out.push(if span == 0 {
                        self.start + piece * self.stride + k / 8 * self.leading + k % 8 * 16
                    } else {
                        let (slab, inside) = (piece / (span / 16), piece % (span / 16));
                        wrap(self.start + slab * self.leading + k / 8 * self.stride + k % 8 * span + inside * 16)
                    });
                }
            }
        } else {
            for row in 0..rows as u32 {
                for piece in 0..2 {
                    out.push(if span == 0 {
                        self.start + row / 8 * self.stride + piece * self.leading + row % 8 * 16
                    } else {
                        wrap(self.start + row / 8 * self.stride + row % 8 * span + piece * 16)
                    });
                }
            }
        }
    }
}

/// The tile behind `chunks`, as rows of sixteen elements of K.
fn gather(shared: &Shared, chunks: &[u32], rows: usize, transposed: bool, out: &mut Vec<[u16; DEPTH]>) {
    out.clear();
    out.resize(rows, [0; DEPTH]);
    let elements = |address: u32| -> [u16; 8] {
        let bytes = shared.slice(address, 16);
        std::array::from_fn(|e| u16::from_le_bytes([bytes[2 * e], bytes[2 * e + 1]]))
    };
    if transposed {
        for (i, &address) in chunks.iter().enumerate() {
            let (k, piece) = (i / (rows / 8), i % (rows / 8));
            for (row, element) in out[8 * piece..].iter_mut().zip(elements(address)) {
                row[k] = element;
            }
        }
    } else {
        for (row, pieces) in out.iter_mut().zip(chunks.chunks_exact(2)) {
            row[..8].copy_from_slice(&elements(pieces[0]));
            row[8..].copy_from_slice(&elements(pieces[1]));
        }
    }
}

/// Adds the products of the sixteen rows from `first` on to the accumulators of their warp: `registers`, in `values`.
/// `sums` has room for a row.
fn accumulate(
    operands: &Operands,
    first: usize,
    scale_d: bool,
    registers: &[Reg],
    values: &mut [Lanes],
    sums: &mut [f32],
) {
    for register in registers {
        for value in &mut values[register.0 as usize] {
            *value = if scale_d { u64::from(unchanged(*value as u32)) } else { 0 };
        }
    }
    for row in (0..16).filter(|row| !operands.adds_nothing(first + row)) {
        // Four threads hold a row, each two neighbouring columns of eight: registers 0 and 1 of four in the upper
        // eight rows, 2 and 3 in the lower (PTX ISA, "Register Fragments for wgmma.mma_async.m64nNk16").
        let place = |column: usize| {
            let register = registers[column / 8 * 4 + row / 8 * 2 + column % 2];
            (register.0 as usize, row % 8 * 4 + column % 8 / 2)
        };
        for (column, sum) in sums.iter_mut().enumerate() {
            let (register, lane) = place(column);
            *sum = f32::from_bits(values[register][lane] as u32);
        }
        operands.add_row(first + row, sums);
        for (column, sum) in sums.iter().enumerate() {
            let (register, lane) = place(column);
            values[register][lane] = u64::from(sum.to_bits());
        }
    }
}

impl Cluster<'_> {
    /// Checks that a whole warpgroup is there to execute a wgmma instruction, this warp converged.
    pub fn warpgroup_aligned(&self, site: Site) -> Exec<()> {
        self.aligned(site)?;
        // Some of the others may have left already: they have then done their part.
        let group = site.w / 4;
        if self.blocks[site.b].warps.len() >= group * 4 + 4 {
            return Ok(());
        }
        let message = format!("a wgmma instruction needs a whole warpgroup: warps {} to {}", group * 4, group * 4 + 3);
        Err(self.fault(Kind::Divergence, site, message))
    }

    /// Checks that an ordinary instruction touches no register that a wgmma in flight uses.
    pub fn registers_at_rest(&self, site: Site) -> Exec<()> {
        let warp = &self.blocks[site.b].warps[site.w];
        for &register in &self.cx.program.operands[site.pc as usize] {
            if warp.flight[register as usize] > warp.wgmma_retired {
                let name = &self.cx.program.entry.registers[register as usize].name;
                let line = self.cx.program.line(warp.flight_pc[register as usize]);
                let message = format!(
                    "register {name} is touched while the wgmma of line {line} uses it: no wgmma.wait_group lies between"
                );
                return Err(self.fault(Kind::RegisterInFlight, site, message));
            }
        }
        Ok(())
    }

    /// A descriptor, which all lanes must share.
    fn descriptor(&self, site: Site, operand: &Operand) -> Exec<u64> {
        let lanes = self.value(site.b, site.w, operand);
        if lanes.iter().any(|&value| value != lanes[0]) {
            let message = "the lanes of a warp give different matrix descriptors".to_string();
            return Err(self.fault(Kind::InvalidOperand, site, message));
        }
        Ok(lanes[0])
    }

    pub fn wgmma(&mut self, site: Site, wgmma: &Wgmma) -> Exec<Flow> {
        self.warpgroup_aligned(site)?;
        self.wgmma_registers(site, wgmma)?;
        let a = match &wgmma.a {
            WgmmaA::Descriptor(operand) => self.descriptor(site, operand)?,
            WgmmaA::Registers(_) => 0,
        };
        let b = self.descriptor(site, &wgmma.b)?;
        let scale_d = match wgmma.scale_d {
            ScaleD::Const(value) => value,
            ScaleD::Pred(pred) => self.pred_use(site.b, site.w, pred) & 1 == 1,
        };
        let group = site.w / 4;
        let now = self.path(site).time;
        let warp = &self.blocks[site.b].warps[site.w];
        let (issued, open_group) = (warp.wgmma_issued, warp.wgmma_groups);
        let number = issued + 1;
        let queue = &mut self.blocks[site.b].groups[group];
        let at = (issued - queue.executed) as usize;
        if at == queue.queue.len() {
            queue.queue.push_back(Operation { pc: site.pc, a, b, scale_d, issued: 0, ready: 0, tiles: None });
        }
        let operation = &mut queue.queue[at];
        if (operation.pc, operation.a, operation.b, operation.scale_d) != (site.pc, a, b, scale_d) {
            let line = self.cx.program.line(operation.pc);
            let message = format!(
                "the warps of a warpgroup issue different wgmmas: another one's operation {number} is that of line {line}, or has other descriptors"
            );
            return Err(self.fault(Kind::Divergence, site, message));
        }
        operation.issued |= 1 << (site.w % 4);
        operation.ready = operation.ready.max(now + timing::WGMMA_ISSUE);
        let dimension = queue.dimension;
        // The tiles are read some time from now until the group is waited for.
        let a_tile = matches!(wgmma.a, WgmmaA::Descriptor(_)).then(|| Descriptor::decode(a));
        let b_tile = Descriptor::decode(b);
        let what = What::Wgmma { a: a_tile.map_or(0, |d| d.start), b: b_tile.start, operation: number };
        let action = self.action(site.event(what));
        let reader = Reader { epoch: Epoch { dimension, time: open_group as u32 + 1 }, action };
        if !self.tiles_are_known(site, at, reader.epoch) {
            let mut writers = Vec::new();
            let mut sources = [None; 2];
            if let Some(tile) = a_tile {
                sources[0] = self.tile_is_there(site, tile, ROWS, wgmma.transpose[0], reader, "A", &mut writers)?;
            }
            let n = wgmma.n as usize;
            sources[1] = self.tile_is_there(site, b_tile, n, wgmma.transpose[1], reader, "B", &mut writers)?;
            self.tiles_match(site, sources)?;
            let block = &mut self.blocks[site.b];
            let version = block.shared.version();
            block.groups[group].queue[at].tiles = Some(Tiles { version, epoch: reader.epoch, writers });
        }
        if site.w.is_multiple_of(4) {
            self.note(what, site.b, site.w, site.mask, site.pc);
        }
        self.progress += 1;
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.wgmma_issued = number;
        let a_registers: &[Reg] = match &wgmma.a {
            WgmmaA::Registers(registers) => registers,
            WgmmaA::Descriptor(_) => &[],
        };
        for register in wgmma.d.iter().chain(a_registers) {
            warp.flight[register.0 as usize] = number;
            warp.flight_pc[register.0 as usize] = site.pc;
        }
        Ok(Flow::Next)
    }

    /// The rules for the registers of a wgmma about to be issued.
    fn wgmma_registers(&self, site: Site, wgmma: &Wgmma) -> Exec<()> {
        let warp = &self.blocks[site.b].warps[site.w];
        let name = |register: Reg| &self.cx.program.entry.registers[register.0 as usize].name;
        if warp.fences == 0 {
            let message = "no wgmma.fence was executed before the first wgmma".to_string();
            return Err(self.fault(Kind::MissingWgmmaFence, site, message));
        }
        let a: &[Reg] = match &wgmma.a {
            WgmmaA::Registers(registers) => registers,
            WgmmaA::Descriptor(_) => &[],
        };
        for &register in wgmma.d.iter().chain(a) {
            let i = register.0 as usize;
            if warp.written[i] == warp.fences + 1 {
                let message = format!("register {} was written after the last wgmma.fence", name(register));
                return Err(self.fault(Kind::MissingWgmmaFence, site, message));
            }
        }
        // Accumulators may pass from one wgmma in flight to the next only if both have the same shape.
        let in_flight = |register: Reg| {
            let i = register.0 as usize;
            (warp.flight[i] > warp.wgmma_retired).then(|| warp.flight_pc[i])
        };
        let accumulators = |pc: u32| match &self.cx.program.entry.body[pc as usize].op {
            Op::Wgmma(before) => before.d.as_slice(),
            _ => &[],
        };
        let fault = |register: Reg, pc: u32| {
            let line = self.cx.program.line(pc);
            let message = format!(
                "register {} is in use by the wgmma of line {line}, whose accumulators are not the same ones",
                name(register)
            );
            Err(self.fault(Kind::RegisterInFlight, site, message))
        };
        let mut same = None;
        for &register in &wgmma.d {
            if let Some(pc) = in_flight(register)
                && same != Some(pc)
            {
                if accumulators(pc) != wgmma.d {
                    return fault(register, pc);
                }
                same = Some(pc);
            }
        }
        for &register in a {
            if let Some(pc) = in_flight(register)
                && accumulators(pc).contains(&register)
            {
                return fault(register, pc);
            }
        }
        Ok(())
    }

    /// Whether another warp found the tiles of operation `at` of the queue as they are now, and this warp may read
    /// them too.
    fn tiles_are_known(&self, site: Site, at: usize, epoch: Epoch) -> bool {
        let block = &self.blocks[site.b];
        let knowledge = &block.warps[site.w].knowledge;
        let readable = |&writer: &u32| self.accesses.readable(writer, knowledge, Proxy::Async).is_ok();
        block.groups[site.w / 4].queue[at].tiles.as_ref().is_some_and(|tiles| {
            tiles.version == block.shared.version() && tiles.epoch == epoch && tiles.writers.iter().all(readable)
        })
    }

    /// Checks that a tile may be read, and notes that it will be. Returns the action of the load that
    /// brought its first bytes, if a bulk load did, and adds those who wrote it to `writers`.
    #[allow(clippy::too_many_arguments)]
    fn tile_is_there(
        &mut self,
        site: Site,
        tile: Descriptor,
        rows: usize,
        transposed: bool,
        reader: Reader,
        which: &str,
        writers: &mut Vec<u32>,
    ) -> Exec<Option<u32>> {
        if tile.base_offset != 0 {
            let message = format!("base offset {} of {which}'s descriptor is not modelled", tile.base_offset);
            return Err(self.fault(Kind::InvalidOperand, site, message));
        }
        let mut chunks = std::mem::take(&mut self.scratch.chunks);
        tile.chunks(rows, transposed, &mut chunks);
        if let Some(&bad) = chunks.iter().find(|&&address| !self.in_shared(address, 16)) {
            let message = format!("the tile of {which} reaches shared address {bad:#x}, outside the block's memory");
            return Err(self.fault(Kind::OutOfBounds, site, message));
        }
        let knowledge = std::mem::take(&mut self.blocks[site.b].warps[site.w].knowledge);
        let shared = &mut self.blocks[site.b].shared;
        let result = shared.read_pieces(&mut self.accesses, &chunks, reader, &knowledge, writers);
        self.blocks[site.b].warps[site.w].knowledge = knowledge;
        let first = chunks[0];
        self.scratch.chunks = chunks;
        result.map_err(|conflict| {
            self.conflict((site.b, site.w, site.mask, site.pc), site.b, conflict, false, &format!("a wgmma ({which})"))
        })?;
        let action = self.accesses.get(self.blocks[site.b].shared.writer_at(first)).action;
        let What::CopyIn { map, .. } = self.actions[action as usize].what else { return Ok(None) };
        if let Some((_, _, map)) = self.cx.maps.iter().find(|m| m.1 == map)
            && map.swizzle != tile.swizzle
        {
            let message = format!(
                "{which}'s descriptor has swizzle {:?}, but its tile was copied with swizzle {:?}",
                tile.swizzle, map.swizzle
            );
            let mut finding = self.fault(Kind::SwizzleMismatch, site, message);
            finding.notes.push(format!("the load: {}", self.describe(&self.actions[action as usize])));
            return Err(finding);
        }
        Ok(Some(action))
    }

    /// Where the launch is a product: A and B must be tiles of A and B that start at the same place in K.
    fn tiles_match(&self, site: Site, sources: [Option<u32>; 2]) -> Exec<()> {
        let (Some(product), [Some(a), Some(b)]) = (self.cx.options.product, sources) else { return Ok(()) };
        let (What::CopyIn { map: a_map, at: a_at, .. }, What::CopyIn { map: b_map, at: b_at, .. }) =
            (self.actions[a as usize].what, self.actions[b as usize].what)
        else {
            return Ok(());
        };
        let message = if [a_map, b_map] != product {
            format!(
                "the tile used as A comes from parameter {a_map} and that as B from {b_map}; they should be {} and {}",
                product[0], product[1]
            )
        } else if a_at[0] != b_at[0] {
            format!(
                "a tile of A at k = {} is multiplied with one of B at k = {}: are coordinates swapped?",
                a_at[0], b_at[0]
            )
        } else {
            return Ok(());
        };
        let mut finding = self.fault(Kind::WrongTile, site, message);
        for action in [a, b] {
            finding.notes.push(format!("the load: {}", self.describe(&self.actions[action as usize])));
        }
        Err(finding)
    }

    pub fn wgmma_commit(&mut self, site: Site) -> Exec<Flow> {
        self.warpgroup_aligned(site)?;
        let warp = &mut self.blocks[site.b].warps[site.w];
        let (issued, number) = (warp.wgmma_issued, warp.wgmma_groups);
        warp.wgmma_groups += 1;
        let groups = &mut self.blocks[site.b].groups[site.w / 4].groups;
        if number == groups.len() {
            groups.push(issued);
        } else if groups[number] != issued {
            let message = format!(
                "the warps of a warpgroup commit different wgmma groups: {issued} operations here, {} in another warp",
                groups[number]
            );
            return Err(self.fault(Kind::Divergence, site, message));
        }
        Ok(Flow::Next)
    }

    pub fn wgmma_wait(&mut self, site: Site, pending: u32) -> Exec<Flow> {
        self.warpgroup_aligned(site)?;
        let committed = self.blocks[site.b].warps[site.w].wgmma_groups;
        let target = committed.saturating_sub(pending as usize);
        if target == 0 {
            return Ok(Flow::Next);
        }
        let group = &self.blocks[site.b].groups[site.w / 4];
        let operations = group.groups[target - 1];
        if group.executed < operations {
            return Ok(Flow::Wait(Wait::Wgmma { operations }));
        }
        let dimension = group.dimension;
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.wgmma_retired = warp.wgmma_retired.max(operations);
        warp.knowledge.all.learn(Epoch { dimension, time: target as u32 });
        if site.w.is_multiple_of(4) {
            self.note(What::WgmmaWait { operations }, site.b, site.w, site.mask, site.pc);
        }
        Ok(Flow::Next)
    }

    /// The tensor cores execute the oldest operation of a warpgroup.
    pub fn run_wgmma(&mut self, b: usize, group: usize) -> Exec<()> {
        let program = self.cx.program;
        let Some(operation) = self.blocks[b].groups[group].queue.pop_front() else { return Ok(()) };
        let Op::Wgmma(wgmma) = &program.entry.body[operation.pc as usize].op else { return Ok(()) };
        self.progress += 1;
        let half = if wgmma.a_type == Type::F16 { Half::F16 } else { Half::Bf16 };
        let n = wgmma.n as usize;
        let Scratch { operands, a, b: columns, sums, chunks } = &mut self.scratch;
        let block = &mut self.blocks[b];
        match &wgmma.a {
            WgmmaA::Descriptor(_) => {
                Descriptor::decode(operation.a).chunks(ROWS, wgmma.transpose[0], chunks);
                gather(&block.shared, chunks, ROWS, wgmma.transpose[0], a);
            }
            WgmmaA::Registers(registers) => {
                a.clear();
                a.resize(ROWS, [0; DEPTH]);
                for (w, warp) in block.warps[group * 4..group * 4 + 4].iter().enumerate() {
                    for (i, register) in registers.iter().enumerate() {
                        let lanes: &Lanes = &warp.regs[register.0 as usize];
                        for (lane, &value) in lanes.iter().enumerate() {
                            let row = 16 * w + lane / 4 + 8 * (i % 2);
                            let k = 2 * (lane % 4) + 8 * (i / 2);
                            a[row][k] = value as u16;
                            a[row][k + 1] = (value >> 16) as u16;
                        }
                    }
                }
            }
        }
        Descriptor::decode(operation.b).chunks(n, wgmma.transpose[1], chunks);
        gather(&block.shared, chunks, n, wgmma.transpose[1], columns);
        operands.fill(half, a, columns, wgmma.negate);
        sums.resize(n, 0.0);
        for (w, warp) in block.warps[group * 4..group * 4 + 4].iter_mut().enumerate() {
            accumulate(operands, 16 * w, operation.scale_d, &wgmma.d, &mut warp.regs, sums);
        }
        let start = operation.ready.max(block.tensor_free);
        let end = start + timing::wgmma_cycles(wgmma.n);
        block.tensor_free = end;
        let queue = &mut block.groups[group];
        queue.executed += 1;
        queue.time = end;
        let number = queue.executed;
        self.note(What::WgmmaRun { operation: number }, b, group * 4, u32::MAX, operation.pc);
        self.span_wgmma(b, group, start, end, operation.pc);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_decode() {
        let bits = 0x2000 >> 4 | 1 << 16 | (1024 >> 4) << 32 | 1 << 62;
        let tile = Descriptor::decode(bits);
        assert_eq!((tile.start, tile.leading, tile.stride), (0x2000, 16, 1024));
        assert_eq!(tile.swizzle, Swizzle::B128);
        let mut chunks = Vec::new();
        tile.chunks(64, false, &mut chunks);
        // Row 3, first eight elements of K: piece 0 XOR 3.
        assert_eq!(chunks[6], 0x2000 + 3 * 128 + 3 * 16);
        // Row 9 is the second row of the second atom.
        assert_eq!(chunks[19], 0x2000 + 1024 + 128);
    }

    #[test]
    fn both_majors_cover_the_same_tile() {
        for swizzle in [1u64, 2, 3] {
            let span = [128u32, 64, 32][swizzle as usize - 1];
            let tile =
                Descriptor::decode(0x2000 >> 4 | u64::from(span) << 16 | u64::from(span / 2) << 32 | swizzle << 62);
            let mut chunks = Vec::new();
            tile.chunks(64, true, &mut chunks);
            chunks.sort_unstable();
            chunks.dedup();
            assert_eq!(chunks.len(), 128, "no piece is named twice");
        }
    }
}
