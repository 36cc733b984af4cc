//! Dynamic shared memory (PTX ISA, "Shared State Space"). Rust has no spelling for it: a `static` lands
//! in global memory. So the symbol is declared in PTX text, and kernels work with `u32` addresses.

use core::arch::{asm, global_asm};

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
