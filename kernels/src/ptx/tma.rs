//! Bulk tensor copies by the tensor memory accelerator (PTX ISA, "Data Movement and Conversion
//! Instructions: cp.async.bulk.tensor").

use core::arch::asm;

/// `cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [dst], [map, {x, y}],
/// [bar];` — starts a copy of the box at column `x`, row `y` of a two-dimensional tensor into shared
/// memory, and completes its bytes on `bar` when they have landed.
///
/// `x` counts elements along the contiguous dimension, `y` rows. Elements outside the tensor arrive as
/// zeros and count as bytes all the same: the barrier always receives the full box.
///
/// # Safety
/// `map` is the generic address of a tensor map aligned to 64 bytes in parameter, constant or global
/// memory, and the tensor outlives the grid. `dst` is a shared address of this block with room for the
/// box, aligned to 128 bytes (1024 with the 128-byte swizzle), that no thread and no MMA still reads.
/// `bar` is an initialised barrier of this block that expects the bytes.
#[inline(always)]
pub unsafe fn load_2d(dst: u32, map: u64, x: i32, y: i32, bar: u32) {
    // SAFETY: as promised by the caller.
    unsafe {
        asm!(
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{2}, {3}}}], [{4}];",
            in(reg32) dst, in(reg64) map, in(reg32) x, in(reg32) y, in(reg32) bar, options(nostack)
        );
    }
}
