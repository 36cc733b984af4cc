//! Dynamic shared memory (PTX ISA, "Shared State Space"). Rust has no spelling for it: a `static` lands
//! in global memory. So the symbol is declared in PTX text, and kernels work with `u32` addresses.

use core::arch::{asm, global_asm};

// ANCHOR: dynamic
// 1024 bytes: what a tile with the 128-byte swizzle needs.
global_asm!(".extern .shared .align 1024 .b8 dynamic_shared[];");

/// `mov.u32 r, dynamic_shared;` — the shared address where the block's dynamic shared memory starts. A
/// multiple of 1024.
#[inline(always)]
pub fn dynamic() -> u32 {
    let address: u32;
    // SAFETY: takes the address of a symbol that the module declares.
    unsafe { asm!("mov.u32 {0}, dynamic_shared;", out(reg32) address, options(nomem, nostack)) }
    address
}
// ANCHOR_END: dynamic

/// `ld.shared.v4.b32 {r0, r1, r2, r3}, [address];` — 16 bytes of this block's shared memory.
///
/// # Safety
/// `address` is a multiple of 16, and the bytes have been written and are visible to this thread.
#[inline(always)]
pub unsafe fn load_x4(address: u32) -> [u32; 4] {
    let (r0, r1, r2, r3): (u32, u32, u32, u32);
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("ld.shared.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];",
            out(reg32) r0, out(reg32) r1, out(reg32) r2, out(reg32) r3, in(reg32) address, options(nostack));
    }
    [r0, r1, r2, r3]
}

/// `ld.shared.b16 r, [address];` — one element of 16 bits.
///
/// # Safety
/// As [`load_x4`], for an even `address`.
#[inline(always)]
pub unsafe fn load_u16(address: u32) -> u16 {
    let value: u16;
    // SAFETY: as promised by the caller.
    unsafe { asm!("ld.shared.b16 {0}, [{1}];", out(reg16) value, in(reg32) address, options(nostack)) }
    value
}

/// `st.shared.v4.f32 [address], {r0, r1, r2, r3};` — stores 16 bytes in this block's shared memory.
///
/// # Safety
/// `address` is a multiple of 16, and nobody else uses the bytes.
#[inline(always)]
pub unsafe fn store_x4(address: u32, values: [f32; 4]) {
    let [r0, r1, r2, r3] = values;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("st.shared.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}};",
            in(reg32) address, in(reg32) r0, in(reg32) r1, in(reg32) r2, in(reg32) r3, options(nostack));
    }
}
