//! Execution of instructions: dispatch, registers, arithmetic and control flow.

mod global;
mod memory;
mod sync;
mod tma;
pub(crate) mod wgmma;

use std::borrow::Cow;

use ptx::ast::*;

use crate::alu;
use crate::cluster::{Cluster, Event, Flow, What};
use crate::program::Function;
use crate::report::{Finding, Kind};
use crate::warp::{Lanes, Wait, lanes};
use global::Order;

/// Result of executing.
pub(crate) type Exec<T> = Result<T, Box<Finding>>;

/// Base of the generic addresses of shared memory. The block's rank plus one and the shared address follow.
pub(crate) const SHARED_WINDOW: u64 = 1 << 60;
/// Base of the generic addresses of parameters.
pub(crate) const PARAM_WINDOW: u64 = 1 << 61;
/// Bits of a shared::cluster address below the block's rank plus one.
pub(crate) const RANK_SHIFT: u32 = 24;

/// Who executes, and where.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub b: usize,
    pub w: usize,
    pub p: usize,
    pub mask: u32,
    pub pc: u32,
}

impl Site {
    pub fn event(self, what: What) -> Event {
        Event { what, block: self.b, warp: self.w, mask: self.mask, pc: self.pc }
    }

    /// The same, for one lane.
    pub fn lane(self, lane: usize) -> Site {
        Site { mask: 1 << lane, ..self }
    }

    pub fn lanes(self) -> impl Iterator<Item = usize> {
        let mask = self.mask;
        (0..32).filter(move |lane| mask >> lane & 1 == 1)
    }

    /// The first lane.
    pub fn first(self) -> usize {
        self.mask.trailing_zeros() as usize & 31
    }
}

impl<'a> Cluster<'a> {
    /// Executes the instruction at a path's place.
    pub fn execute(&mut self, b: usize, w: usize, p: usize) -> Exec<Flow> {
        let program = self.cx.program;
        let (pc, active) = {
            let path = &self.blocks[b].warps[w].paths[p];
            (path.pc, path.mask)
        };
        let Some(instruction) = program.entry.body.get(pc as usize) else {
            // The end of the body is an exit.
            return self.exit(Site { b, w, p, mask: active, pc });
        };
        let mut mask = active;
        if let Some(guard) = instruction.guard {
            mask &= self.pred_use(b, w, guard);
        }
        let site = Site { b, w, p, mask, pc };
        if mask == 0 && !matches!(instruction.op, Op::Branch { .. }) {
            return Ok(Flow::Next);
        }
        let warp = &self.blocks[b].warps[w];
        if warp.wgmma_issued > warp.wgmma_retired && !matches!(instruction.op, Op::Wgmma(_)) {
            self.registers_at_rest(site)?;
        }
        match &instruction.op {
            Op::Unary { dst, a, ty, .. } => {
                let Function::Unary(f) = program.functions[pc as usize] else { return Ok(Flow::Next) };
                let a = self.typed(b, w, a, *ty);
                self.set(site, *dst, &if uniform(&a) { [f(a[0]); 32] } else { a.map(f) });
            }
            Op::Binary { dst, a, b: right, ty, .. } => {
                let Function::Binary(f) = program.functions[pc as usize] else { return Ok(Flow::Next) };
                let (x, y) = (self.typed(b, w, a, *ty), self.typed(b, w, right, *ty));
                let out = if uniform(&x) && uniform(&y) {
                    [f(x[0], y[0]); 32]
                } else {
                    std::array::from_fn(|i| f(x[i], y[i]))
                };
                self.set(site, *dst, &out);
            }
            Op::Ternary { dst, a, b: second, c, ty, .. } => {
                let Function::Ternary(f) = program.functions[pc as usize] else { return Ok(Flow::Next) };
                let (x, y, z) = (self.typed(b, w, a, *ty), self.typed(b, w, second, *ty), self.typed(b, w, c, *ty));
                self.set(site, *dst, &std::array::from_fn(|i| f(x[i], y[i], z[i])));
            }
            Op::FieldInsert { ty, dst, a, b: into, position, length } => {
                let (x, y) = (self.value(b, w, a), self.value(b, w, into));
                let (at, length) = (self.value(b, w, position), self.value(b, w, length));
                let width = ty.bytes() * 8;
                let out = std::array::from_fn(|i| alu::insert_field(x[i], y[i], width, at[i], length[i]));
                self.set(site, *dst, &out);
            }
            Op::Lop3 { dst, a, b: second, c, table } => {
                let (x, y, z) = (self.value(b, w, a), self.value(b, w, second), self.value(b, w, c));
                let out = std::array::from_fn(|i| {
                    (0..8u64).filter(|bit| table >> bit & 1 == 1).fold(0, |out, bit| {
                        let pick = |value: u64, on: bool| if on { value } else { !value };
                        out | pick(x[i], bit & 4 != 0) & pick(y[i], bit & 2 != 0) & pick(z[i], bit & 1 != 0)
                    })
                });
                self.set(site, *dst, &out);
            }
            Op::SetPredicate { ty, combine, dst, complement, a, b: right, .. } => {
                let Function::Compare(f) = program.functions[pc as usize] else { return Ok(Flow::Next) };
                let (x, y) = (self.typed(b, w, a, *ty), self.typed(b, w, right, *ty));
                let result = (0..32).fold(0u32, |bits, i| bits | u32::from(f(x[i], y[i])) << i);
                let (mut set, mut clear) = (result, !result);
                if let Some((op, other)) = combine {
                    let other = self.pred_operand(b, w, *other);
                    set = boolean(*op, set, other);
                    clear = boolean(*op, clear, other);
                }
                if let Some(dst) = dst {
                    self.set_pred(site, *dst, set);
                }
                if let Some(complement) = complement {
                    self.set_pred(site, *complement, clear);
                }
            }
            Op::Select { ty, dst, a, b: right, pred } => {
                let pred = self.pred_operand(b, w, *pred);
                let (x, y) = (self.typed(b, w, a, *ty), self.typed(b, w, right, *ty));
                self.set(site, *dst, &std::array::from_fn(|i| if pred >> i & 1 == 1 { x[i] } else { y[i] }));
            }
            Op::PredBinary { op, dst, a, b: right } => {
                let result = boolean(*op, self.pred_operand(b, w, *a), self.pred_operand(b, w, *right));
                self.set_pred(site, *dst, result);
            }
            Op::PredMove { dst, a, negate } => {
                let value = self.pred_operand(b, w, *a);
                self.set_pred(site, *dst, if *negate { !value } else { value });
            }
            Op::Move { ty, dst, a } => {
                let value = self.typed(b, w, a, *ty).into_owned();
                self.set(site, *dst, &value);
            }
            Op::Unpack { ty, dst, a } => {
                let value = self.value(b, w, a);
                let width = ty.bytes() * 8 / dst.len() as u64;
                for (i, dst) in dst.iter().enumerate() {
                    if let Some(dst) = dst {
                        self.set(site, *dst, &value.map(|x| x >> (i as u64 * width) & low_bits(width)));
                    }
                }
            }
            Op::Pack { ty, dst, parts } => {
                let width = ty.bytes() * 8 / parts.len() as u64;
                let mut out = [0; 32];
                for (i, part) in parts.iter().enumerate() {
                    let part = self.value(b, w, part);
                    for lane in 0..32 {
                        out[lane] |= (part[lane] & low_bits(width)) << (i as u64 * width);
                    }
                }
                self.set(site, *dst, &out);
            }
            Op::Convert { to, from, mode, dst, a } => {
                let value = self.typed(b, w, a, *from);
                // A value narrower than its register is extended by its sign (PTX ISA, "cvt").
                let out = value.map(|x| extend(*to, alu::convert(*to, *from, *mode, x)));
                self.set(site, *dst, &out);
            }
            Op::ConvertPair { to, mode, dst, a, b: right } => {
                let (x, y) = (self.typed(b, w, a, Type::F32), self.typed(b, w, right, Type::F32));
                self.set(site, *dst, &std::array::from_fn(|i| alu::convert_pair(*to, *mode, x[i], y[i])));
            }
            Op::ConvertAddress { space, to, dst, a } => {
                let value = self.value(b, w, a);
                let rank = self.blocks[b].rank;
                let mut out = [0; 32];
                for lane in 0..32 {
                    out[lane] =
                        if *to { from_generic(*space, value[lane]) } else { to_generic(*space, rank, value[lane]) };
                }
                self.set(site, *dst, &out);
            }
            Op::IsSpace { space, dst, a } => {
                let value = self.value(b, w, a);
                let rank = u64::from(self.blocks[b].rank);
                let result = (0..32).fold(0u32, |bits, i| {
                    let address = value[i];
                    let in_window = address & SHARED_WINDOW != 0;
                    let own = (address >> RANK_SHIFT & 0xff) == rank + 1;
                    let is = match space {
                        Space::Shared => in_window && own,
                        Space::Cluster => in_window,
                        Space::Param => address & PARAM_WINDOW != 0,
                        Space::Global => address < SHARED_WINDOW,
                        _ => false,
                    };
                    bits | u32::from(is) << i
                });
                self.set_pred(site, *dst, result);
            }
            Op::Load { space, order, scope, ty, dst, address } => {
                return self.load(site, *space, Order::new(*order, *scope), *ty, dst, address);
            }
            Op::Store { space, order, scope, ty, address, src } => {
                return self.store(site, *space, Order::new(*order, *scope), *ty, address, src);
            }
            Op::Atomic { op, order, scope, space, ty, dst, address, a, b: compare } => {
                let order = Order::new(*order, Some(*scope));
                return self.atomic(site, *op, order, *space, *ty, *dst, address, a, compare.as_ref());
            }
            Op::Prefetch { .. } | Op::GridDependencyLaunch => {}
            Op::GridDependencyWait => self.blocks[b].has_waited = true,
            Op::CreatePolicy { dst } => self.set(site, *dst, &[0; 32]),
            Op::PrefetchTensorMap { address } => {
                let base = self.address(b, w, address);
                self.map_at(site, base[site.first()])?;
            }
            Op::Branch { target, .. } => return self.branch(site, active, target.0),
            Op::Exit => return self.exit(site),
            Op::Trap | Op::Breakpoint => {
                return Err(self.fault(Kind::Trap, site, "the kernel traps".to_string()));
            }
            Op::Nanosleep { time } => {
                let time = self.value(b, w, time)[site.first()] & 0xffff_ffff;
                // At 1.5 GHz or so; at most the millisecond that the instruction allows.
                self.path(site).time += time.min(1_000_000) * 3 / 2;
            }
            Op::Fence(fence) => self.fence(site, *fence),
            Op::BarrierSync { id, count, aligned } => {
                return self.barrier_sync(site, id, count.as_ref(), *aligned);
            }
            Op::BarrierArrive { id, count, aligned } => return self.barrier_arrive(site, id, count, *aligned),
            Op::WarpSync { mask } => {
                let members = self.value(b, w, mask)[site.first()] as u32;
                return self.together(site, members, |cluster, site| {
                    cluster.blocks[site.b].warps[site.w].meet();
                    Ok(())
                });
            }
            Op::ClusterArrive { order, aligned } => return self.cluster_arrive(site, *order, *aligned),
            Op::ClusterWait { aligned } => return self.cluster_wait(site, *aligned),
            Op::MbarrierInit { space, barrier, count } => return self.mbarrier_init(site, *space, barrier, count),
            Op::MbarrierInvalidate { space, barrier } => return self.mbarrier_invalidate(site, *space, barrier),
            Op::MbarrierArrive { barrier, arrive } => return self.mbarrier_arrive(site, barrier, arrive),
            Op::MbarrierExpectTx { space, barrier, bytes } => {
                return self.mbarrier_transact(site, *space, barrier, bytes, true);
            }
            Op::MbarrierCompleteTx { space, barrier, bytes } => {
                return self.mbarrier_transact(site, *space, barrier, bytes, false);
            }
            Op::MbarrierWait { space, barrier, phase, block, dst } => {
                return self.mbarrier_wait(site, *space, barrier, *phase, *block, *dst);
            }
            Op::MbarrierPendingCount { dst, state } => {
                let state = self.value(b, w, state);
                self.set(site, *dst, &state.map(|s| s & 0x1f_ffff));
            }
            Op::Bulk(bulk) => return self.bulk(site, bulk),
            Op::Wgmma(wgmma) => return self.wgmma(site, wgmma),
            Op::WgmmaFence => {
                self.warpgroup_aligned(site)?;
                self.blocks[b].warps[w].fences += 1;
            }
            Op::WgmmaCommit => return self.wgmma_commit(site),
            Op::WgmmaWait { pending } => return self.wgmma_wait(site, *pending),
            Op::Mma(mma) => return self.mma(site, mma),
            Op::LoadMatrix { transpose, dst, address } => return self.load_matrix(site, *transpose, dst, address),
            Op::StoreMatrix { transpose, address, src } => return self.store_matrix(site, *transpose, address, src),
            Op::Shuffle { mode, dst, valid, a, lane, clamp, mask } => {
                let members = self.value(b, w, mask)[site.first()] as u32;
                return self.together(site, members, |cluster, site| {
                    cluster.shuffle(site, *mode, *dst, *valid, a, lane, clamp);
                    Ok(())
                });
            }
            Op::Vote { mode, dst_pred, dst, a, mask } => {
                let members = self.value(b, w, mask)[site.first()] as u32;
                return self.together(site, members, |cluster, site| {
                    let votes = cluster.pred_operand(site.b, site.w, *a) & site.mask;
                    let result = match mode {
                        VoteMode::All => votes == site.mask,
                        VoteMode::Any => votes != 0,
                        VoteMode::Uniform => votes == 0 || votes == site.mask,
                        VoteMode::Ballot => false,
                    };
                    if let Some(dst) = dst_pred {
                        cluster.set_pred(site, *dst, if result { u32::MAX } else { 0 });
                    }
                    if let Some(dst) = dst {
                        cluster.set(site, *dst, &[u64::from(votes); 32]);
                    }
                    Ok(())
                });
            }
            Op::Redux { op, ty, dst, a, mask } => {
                let members = self.value(b, w, mask)[site.first()] as u32;
                return self.together(site, members, |cluster, site| {
                    let value = cluster.value(site.b, site.w, a);
                    let all = site.lanes().map(|lane| value[lane] as u32);
                    let signed = *ty == Type::S32;
                    let result = all.reduce(|x, y| match op {
                        ReduceOp::Min if signed => (x as i32).min(y as i32) as u32,
                        ReduceOp::Max if signed => (x as i32).max(y as i32) as u32,
                        ReduceOp::Min => x.min(y),
                        ReduceOp::Max => x.max(y),
                        ReduceOp::And => x & y,
                        ReduceOp::Or => x | y,
                        ReduceOp::Xor => x ^ y,
                        _ => x.wrapping_add(y),
                    });
                    cluster.set(site, *dst, &[u64::from(result.unwrap_or(0)); 32]);
                    Ok(())
                });
            }
            Op::ActiveMask { dst } => self.set(site, *dst, &[u64::from(mask); 32]),
            Op::Elect { dst, elected, mask } => {
                let members = self.value(b, w, mask)[site.first()] as u32;
                return self.together(site, members, |cluster, site| {
                    let leader = site.first();
                    if let Some(dst) = dst {
                        cluster.set(site, *dst, &[leader as u64; 32]);
                    }
                    cluster.set_pred(site, *elected, 1 << leader);
                    Ok(())
                });
            }
            Op::MapAddress { space, dst, a, rank, .. } => {
                let (address, rank) = (self.value(b, w, a), self.value(b, w, rank));
                let peers = self.blocks.len() as u64;
                if let Some(lane) = site.lanes().find(|&lane| rank[lane] & 0xffff_ffff >= peers) {
                    let message = format!("mapa to rank {}; the cluster has {peers} blocks", rank[lane] & 0xffff_ffff);
                    return Err(self.fault(Kind::InvalidOperand, site.lane(lane), message));
                }
                let window = if *space == Space::Generic { SHARED_WINDOW } else { 0 };
                let inside = (1 << RANK_SHIFT) - 1;
                let out =
                    std::array::from_fn(|i| window | (address[i] & inside) | ((rank[i] & 0xff) + 1) << RANK_SHIFT);
                self.set(site, *dst, &out);
            }
            Op::CtaRank { dst, a, .. } => {
                let address = self.value(b, w, a);
                let own = u64::from(self.blocks[b].rank);
                let out = address.map(|x| (x >> RANK_SHIFT & 0xff).checked_sub(1).unwrap_or(own));
                self.set(site, *dst, &out);
            }
            Op::SetMaxRegisters { increase, count } => return self.set_max_registers(site, *increase, *count),
            Op::CopyAsync { .. } | Op::CopyAsyncCommit | Op::CopyAsyncWait { .. } | Op::CopyAsyncArrive { .. } => {
                // Refused when the program was loaded.
                return Err(self.fault(Kind::InvalidOperand, site, "cp.async is not modelled".to_string()));
            }
        }
        Ok(Flow::Next)
    }

    /// A finding at a site.
    pub fn fault(&self, kind: Kind, site: Site, message: String) -> Box<Finding> {
        self.finding(kind, site.b, site.w, site.mask, site.pc, message)
    }

    pub fn path(&mut self, site: Site) -> &mut crate::warp::Path {
        &mut self.blocks[site.b].warps[site.w].paths[site.p]
    }

    /// The value of an operand in every lane.
    pub fn value(&self, b: usize, w: usize, operand: &Operand) -> Lanes {
        self.borrowed(b, w, operand).into_owned()
    }

    /// The same, without a copy if it is a register.
    pub fn borrowed(&self, b: usize, w: usize, operand: &Operand) -> Cow<'_, Lanes> {
        Cow::Owned(match *operand {
            Operand::Reg(reg) => return Cow::Borrowed(&self.blocks[b].warps[w].regs[reg.0 as usize]),
            Operand::Int(value) => [value; 32],
            Operand::F32(bits) => [u64::from(bits); 32],
            Operand::F64(bits) => [bits; 32],
            Operand::Special(special) => self.special(b, w, special),
            Operand::Address(symbol, offset) => [self.symbol(symbol).wrapping_add(offset as u64); 32],
        })
    }

    /// The same; decimal literals become the type's format.
    fn typed(&self, b: usize, w: usize, operand: &Operand, ty: Type) -> Cow<'_, Lanes> {
        match *operand {
            Operand::F64(bits) if ty == Type::F32 => {
                Cow::Owned([u64::from((f64::from_bits(bits) as f32).to_bits()); 32])
            }
            _ => self.borrowed(b, w, operand),
        }
    }

    fn symbol(&self, symbol: Symbol) -> u64 {
        match symbol {
            Symbol::Variable(index) => self.cx.variables[index as usize],
            Symbol::Param(index) => self.cx.program.entry.params[index as usize].offset,
        }
    }

    /// Base plus offset in every lane.
    pub fn address(&self, b: usize, w: usize, address: &Address) -> Lanes {
        let base = self.value(b, w, &address.base);
        base.map(|x| x.wrapping_add(address.offset as u64))
    }

    fn special(&self, b: usize, w: usize, special: Special) -> Lanes {
        let launch = self.cx.launch;
        let block = &self.blocks[b];
        let same = |value: u32| [u64::from(value); 32];
        let lane = |f: fn(u32) -> u32| std::array::from_fn(|i| u64::from(f(i as u32)));
        match special {
            Special::Tid(axis) => {
                let [x, y, _] = launch.block;
                std::array::from_fn(|i| {
                    let thread = w as u32 * 32 + i as u32;
                    u64::from([thread % x, thread / x % y, thread / x / y][axis as usize])
                })
            }
            Special::Ntid(axis) => same(launch.block[axis as usize]),
            Special::Ctaid(axis) => same(block.ctaid[axis as usize]),
            Special::Nctaid(axis) => same(launch.grid[axis as usize]),
            Special::ClusterId(axis) => same(block.ctaid[axis as usize] / launch.cluster[axis as usize]),
            Special::NclusterId(axis) => same(launch.grid[axis as usize] / launch.cluster[axis as usize]),
            Special::ClusterCtaid(axis) => same(block.ctaid[axis as usize] % launch.cluster[axis as usize]),
            Special::ClusterNctaid(axis) => same(launch.cluster[axis as usize]),
            Special::ClusterCtarank => same(block.rank),
            Special::ClusterNctarank => same(launch.cluster_blocks()),
            Special::IsExplicitCluster => same(u32::from(launch.cluster_blocks() > 1)),
            Special::LaneId => lane(|i| i),
            Special::WarpId => same(w as u32),
            Special::NwarpId => same(block.warps.len() as u32),
            Special::SmId => same((self.id * self.blocks.len() as u64 + b as u64) as u32 % 132),
            Special::NsmId => same(132),
            Special::GridId => same(1),
            Special::LanemaskEq => lane(|i| 1 << i),
            Special::LanemaskLt => lane(|i| (1 << i) - 1),
            Special::LanemaskLe => lane(|i| u32::MAX >> (31 - i)),
            Special::LanemaskGt => lane(|i| !(u32::MAX >> (31 - i))),
            Special::LanemaskGe => lane(|i| u32::MAX << i),
            Special::Clock | Special::Clock64 | Special::GlobalTimer | Special::GlobalTimerLo => {
                let path = block.warps[w].paths.first();
                let time = path.map_or(0, |path| path.time);
                [if matches!(special, Special::Clock | Special::GlobalTimerLo) { time & 0xffff_ffff } else { time }; 32]
            }
            Special::DynamicSharedBytes => same(launch.shared_bytes),
            Special::TotalSharedBytes => same(self.cx.shared_bytes as u32),
        }
    }

    /// Sets a register in the site's lanes.
    pub fn set(&mut self, site: Site, dst: Reg, value: &Lanes) {
        let index = dst.0 as usize;
        let bits = self.cx.program.register_masks[index];
        let warp = &mut self.blocks[site.b].warps[site.w];
        warp.written[index] = warp.fences + 1;
        let register = &mut warp.regs[index];
        if site.mask == u32::MAX {
            for lane in 0..32 {
                register[lane] = value[lane] & bits;
            }
        } else {
            for lane in site.lanes() {
                register[lane] = value[lane] & bits;
            }
        }
    }

    pub fn set_pred(&mut self, site: Site, dst: Pred, value: u32) {
        let pred = &mut self.blocks[site.b].warps[site.w].preds[dst.0 as usize];
        *pred = *pred & !site.mask | value & site.mask;
    }

    pub fn pred_use(&self, b: usize, w: usize, used: PredUse) -> u32 {
        let value = self.blocks[b].warps[w].preds[used.pred.0 as usize];
        if used.negated { !value } else { value }
    }

    pub fn pred_operand(&self, b: usize, w: usize, operand: PredOperand) -> u32 {
        match operand {
            PredOperand::Use(used) => self.pred_use(b, w, used),
            PredOperand::Const(value) => {
                if value {
                    u32::MAX
                } else {
                    0
                }
            }
        }
    }

    fn branch(&mut self, site: Site, active: u32, target: u32) -> Exec<Flow> {
        let taken = site.mask;
        if taken == active {
            self.path(site).pc = target;
            return Ok(Flow::Moved);
        }
        if taken == 0 {
            return Ok(Flow::Next);
        }
        let uniform = matches!(self.cx.program.entry.body[site.pc as usize].op, Op::Branch { uniform: true, .. });
        if uniform {
            let message = format!("bra.uni is taken by {} only", lanes(taken));
            return Err(self.fault(Kind::Divergence, Site { mask: active, ..site }, message));
        }
        let meet = self.cx.program.reconvergence[site.pc as usize];
        self.blocks[site.b].warps[site.w].diverge(site.p, taken, target, meet);
        Ok(Flow::Gone)
    }

    /// Checks that all threads of the warp that have not exited execute an `.aligned` instruction.
    pub fn aligned(&self, site: Site) -> Exec<()> {
        let live = self.blocks[site.b].warps[site.w].live;
        if site.mask == live {
            return Ok(());
        }
        let message =
            format!("an .aligned instruction is executed by {} without {}", lanes(site.mask), lanes(live & !site.mask));
        Err(self.fault(Kind::Divergence, site, message))
    }

    /// Executes an instruction of the threads in `members` once all of them are at it.
    fn together(
        &mut self,
        site: Site,
        members: u32,
        act: impl FnOnce(&mut Cluster<'a>, Site) -> Exec<()>,
    ) -> Exec<Flow> {
        let warp = &mut self.blocks[site.b].warps[site.w];
        let members = members & warp.live;
        if members & site.mask != site.mask {
            let message = format!("{} execute this, but its mask names {}", lanes(site.mask), lanes(members));
            return Err(self.fault(Kind::Divergence, site, message));
        }
        if members == site.mask {
            act(self, site)?;
            return Ok(Flow::Next);
        }
        if !matches!(warp.paths[site.p].wait, Wait::Warp { .. }) {
            return Ok(Flow::Wait(Wait::Warp { mask: members }));
        }
        let p = warp.merge_waiting(site.pc);
        let merged = Site { p, mask: warp.paths[p].mask, ..site };
        act(self, merged)?;
        self.blocks[site.b].warps[site.w].paths[p].pc += 1;
        Ok(Flow::Gone)
    }

    #[allow(clippy::too_many_arguments)]
    fn shuffle(
        &mut self,
        site: Site,
        mode: ShuffleMode,
        dst: Reg,
        valid: Option<Pred>,
        a: &Operand,
        lane: &Operand,
        clamp: &Operand,
    ) {
        let (b, w) = (site.b, site.w);
        let (value, by, clamp) = (self.value(b, w, a), self.value(b, w, lane), self.value(b, w, clamp));
        let mut out = [0; 32];
        let mut good = 0u32;
        for i in 0..32u64 {
            // The segment's mask is in bits 8 to 12, the clamp in bits 0 to 4 (PTX ISA, "shfl.sync").
            let (bound, segment) = (clamp[i as usize] & 0x1f, clamp[i as usize] >> 8 & 0x1f);
            let most = (i & segment) | (bound & !segment);
            let least = i & segment;
            let by = by[i as usize] & 0x1f;
            let (from, ok) = match mode {
                ShuffleMode::Up => (i.wrapping_sub(by), i >= by && i - by >= most),
                ShuffleMode::Down => (i + by, i + by <= most),
                ShuffleMode::Butterfly => (i ^ by, i ^ by <= most),
                ShuffleMode::Index => (least | (by & !segment), (least | (by & !segment)) <= most),
            };
            let from = if ok { from } else { i };
            out[i as usize] = value[from as usize & 31];
            good |= u32::from(ok) << i;
        }
        self.set(site, dst, &out);
        if let Some(valid) = valid {
            self.set_pred(site, valid, good);
        }
    }

    /// Threads leave.
    fn exit(&mut self, site: Site) -> Exec<Flow> {
        self.progress += 1;
        self.note(What::Exit, site.b, site.w, site.mask, site.pc);
        self.before_exit(site)?;
        self.span_end(site);
        let warp = &mut self.blocks[site.b].warps[site.w];
        let whole = warp.paths[site.p].mask == site.mask;
        if !whole {
            warp.paths[site.p].pc += 1;
        }
        warp.exit(site.p, site.mask);
        let block = &mut self.blocks[site.b];
        let knowledge = block.warps[site.w].knowledge.clone();
        block.left.join(&knowledge);
        // Barriers that wait for all threads wait for fewer now.
        self.after_exit(site)?;
        Ok(Flow::Gone)
    }
}

/// Whether all lanes hold the same, as addresses of tiles and counters of loops do: one result is then enough.
fn uniform(lanes: &Lanes) -> bool {
    lanes.iter().fold(0, |different, value| different | (value ^ lanes[0])) == 0
}

fn boolean(op: BoolOp, a: u32, b: u32) -> u32 {
    match op {
        BoolOp::And => a & b,
        BoolOp::Or => a | b,
        BoolOp::Xor => a ^ b,
    }
}

pub(crate) fn low_bits(width: u64) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// A value of a signed type narrower than 64 bits, with its sign extended.
pub(crate) fn extend(ty: Type, value: u64) -> u64 {
    if !ty.signed() {
        return value;
    }
    let unused = 64 - ty.bytes() * 8;
    ((value << unused) as i64 >> unused) as u64
}

/// The address in a space of a generic address.
fn from_generic(space: Space, address: u64) -> u64 {
    match space {
        Space::Shared => address & ((1 << RANK_SHIFT) - 1),
        Space::Cluster => address & 0xffff_ffff,
        Space::Param => address & !PARAM_WINDOW,
        _ => address,
    }
}

/// The generic address of an address in a space.
fn to_generic(space: Space, rank: u32, address: u64) -> u64 {
    match space {
        Space::Shared | Space::Cluster => {
            let address = address & 0xffff_ffff;
            let ranked =
                if address >> RANK_SHIFT == 0 { address | (u64::from(rank) + 1) << RANK_SHIFT } else { address };
            SHARED_WINDOW | ranked
        }
        Space::Param => PARAM_WINDOW | address,
        _ => address,
    }
}
