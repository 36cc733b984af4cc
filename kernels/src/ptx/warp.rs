//! Between the lanes of a warp (PTX ISA, "shfl.sync").

use core::arch::asm;

/// `shfl.sync.idx.b32 r, value, 0, 31, 0xffffffff;` — the value of lane 0. Orders no memory accesses:
/// [`super::barrier::sync_warp`] does.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub unsafe fn broadcast(value: u32) -> u32 {
    let first: u32;
    // SAFETY: the caller promises that the whole warp comes here.
    unsafe {
        asm!("shfl.sync.idx.b32 {0}, {1}, 0, 31, 0xffffffff;",
            out(reg32) first, in(reg32) value, options(nomem, nostack));
    }
    first
}
