//! Bulk tensor copies by the tensor memory accelerator (PTX ISA, "Data Movement and Conversion
//! Instructions: cp.async.bulk.tensor").

use core::arch::asm;

use super::cache::Policy;

/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [dst], [map, {x, y}],
/// [bar];` — starts a copy of the box at column `x`, row `y` of a two-dimensional tensor into shared
/// memory, and completes its bytes on `bar` when they have landed.
///
/// `x` counts elements along the contiguous dimension, `y` rows. Elements outside the tensor arrive as
/// zeros and count as bytes all the same: the barrier always receives the full box. With a `policy` the L2 cache keeps
/// what is read as it says (modifier `.L2::cache_hint`).
///
/// # Safety
/// `map` is the generic address of a tensor map aligned to 64 bytes in parameter, constant or global
/// memory, and the tensor outlives the grid. `dst` is a shared address of this block with room for the
/// box, aligned to 128 bytes (1024 with the 128-byte swizzle), that no thread and no MMA still reads.
/// `bar` is an initialised barrier of this block that expects the bytes.
#[inline(always)]
pub unsafe fn load_2d(dst: u32, map: u64, x: i32, y: i32, bar: u32, policy: Option<Policy>) {
    // SAFETY: as promised by the caller.
    unsafe {
        match policy {
            None => asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{2}, {3}}}], [{4}];",
                in(reg32) dst, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) bar, options(nostack)
            ),
            Some(Policy(policy)) => asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{0}], [{1}, {{{2}, {3}}}], [{4}], {5};",
                in(reg32) dst, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) bar, in(reg64) policy, options(nostack)
            ),
        }
    }
}

/// As [`load_2d`], into the shared memory of every block of the cluster whose bit is set in `blocks`: at
/// the same offset as `dst` in each, completing the bytes on the barrier at the offset of `bar` in each
/// (modifier `.multicast::cluster`).
///
/// # Safety
/// As [`load_2d`], for each of these blocks; none of them has exited.
#[inline(always)]
pub unsafe fn load_2d_multicast(dst: u32, map: u64, x: i32, y: i32, bar: u32, policy: Option<Policy>, blocks: u16) {
    // SAFETY: as promised by the caller.
    unsafe {
        match policy {
            None => asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{{2}, {3}}}], [{4}], {5};",
                in(reg32) dst, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) bar, in(reg16) blocks, options(nostack)
            ),
            Some(Policy(policy)) => asm!(
                "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint [{0}], [{1}, {{{2}, {3}}}], [{4}], {5}, {6};",
                in(reg32) dst, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) bar, in(reg16) blocks,
                in(reg64) policy, options(nostack)
            ),
        }
    }
}

/// `cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [map, {x, y}], [src];` — starts a copy of a box
/// from shared memory to column `x`, row `y` of a tensor. Elements outside the tensor are not written.
/// With a `policy` the L2 cache keeps what is written as it says (modifier `.L2::cache_hint`).
///
/// # Safety
/// As [`load_2d`] for `map` and the alignment of `src`. Ordinary writes to `src` have been made visible with
/// [`super::fence::proxy_async`], and `src` stays as it is until the copy has read it
/// ([`wait_read`]); the block does not exit before.
#[inline(always)]
pub unsafe fn store_2d(map: u64, x: i32, y: i32, src: u32, policy: Option<Policy>) {
    // SAFETY: as promised by the caller.
    unsafe {
        match policy {
            None => asm!(
                "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{0}, {{{1}, {2}}}], [{3}];",
                in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) src, options(nostack)
            ),
            Some(Policy(policy)) => asm!(
                "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint [{0}, {{{1}, {2}}}], [{3}], {4};",
                in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) src, in(reg64) policy, options(nostack)
            ),
        }
    }
}

/// `cp.async.bulk.commit_group;` — closes the group of this thread's stores since the last commit.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: has no operand.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) }
}

/// `cp.async.bulk.wait_group.read N;` — waits until all but the `N` youngest of this thread's groups have
/// read their source.
#[inline(always)]
pub fn wait_read<const N: u32>() {
    // SAFETY: waits; touches nothing.
    unsafe { asm!("cp.async.bulk.wait_group.read {0};", const N, options(nostack)) }
}

/// `cp.async.bulk.wait_group N;` — waits until all but the `N` youngest of this thread's groups are done.
#[inline(always)]
pub fn wait<const N: u32>() {
    // SAFETY: waits; touches nothing.
    unsafe { asm!("cp.async.bulk.wait_group {0};", const N, options(nostack)) }
}
