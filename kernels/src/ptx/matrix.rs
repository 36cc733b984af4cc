//! Warp-wide moves of 8×8 matrices of 16-bit elements (PTX ISA, "Warp Level Matrix Instructions").

use core::arch::asm;

/// `stmatrix.sync.aligned.m8n8.x4.shared.b16 [row], {r0, r1, r2, r3};` — stores four 8×8 matrices. Lane
/// `l` gives in `row` the shared address of row `l mod 8` of matrix `l / 8`; register `i` of lane `l` holds
/// elements 2·(l mod 4) and that plus one of row `l / 4` of matrix `i`, as the accumulators of wgmma do.
///
/// # Safety
/// All 32 lanes execute it together. Each `row` is the address, aligned to 16 bytes, of 16 bytes of this
/// block's shared memory that nobody else uses.
#[inline(always)]
pub unsafe fn store_x4(row: u32, matrices: [u32; 4]) {
    let [r0, r1, r2, r3] = matrices;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x4.shared.b16 [{0}], {{{1}, {2}, {3}, {4}}};",
            in(reg32) row, in(reg32) r0, in(reg32) r1, in(reg32) r2, in(reg32) r3, options(nostack));
    }
}

/// `stmatrix.sync.aligned.m8n8.x2.shared.b16 [row], {r0, r1};` — as [`store_x4`] two matrices. Lanes 0 to 15 give the
/// addresses.
///
/// # Safety
/// As [`store_x4`].
#[inline(always)]
pub unsafe fn store_x2(row: u32, matrices: [u32; 2]) {
    let [r0, r1] = matrices;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x2.shared.b16 [{0}], {{{1}, {2}}};",
            in(reg32) row, in(reg32) r0, in(reg32) r1, options(nostack));
    }
}

/// `ldmatrix.sync.aligned.m8n8.x4.shared.b16 {r0, r1, r2, r3}, [row];` — loads four 8×8 matrices, with lanes
/// and registers as in [`store_x4`].
///
/// # Safety
/// All 32 lanes execute it together. Each `row` is the address, aligned to 16 bytes, of 16 bytes of this
/// block's shared memory that have been written and are visible to the warp.
#[inline(always)]
pub unsafe fn load_x4(row: u32) -> [u32; 4] {
    let (r0, r1, r2, r3): (u32, u32, u32, u32);
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {{{0}, {1}, {2}, {3}}}, [{4}];",
            out(reg32) r0, out(reg32) r1, out(reg32) r2, out(reg32) r3, in(reg32) row, options(nostack));
    }
    [r0, r1, r2, r3]
}

/// `stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [row], {r0, r1};` — as [`store_x2`], each matrix transposed:
/// what a lane's register holds of row `l / 4` goes to column `l / 4`.
///
/// # Safety
/// As [`store_x4`].
#[inline(always)]
pub unsafe fn store_transposed_x2(row: u32, matrices: [u32; 2]) {
    let [r0, r1] = matrices;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [{0}], {{{1}, {2}}};",
            in(reg32) row, in(reg32) r0, in(reg32) r1, options(nostack));
    }
}
