//! Global memory that blocks of a grid share (PTX ISA, "Memory Consistency Model", "ld", "st" and "atom").
//!
//! Addresses are `u64` in the `global` state space, as [`address`] gives them.

use core::arch::asm;

/// `cvta.to.global.u64 r, pointer;` — the global address of what a generic pointer points to.
#[inline(always)]
pub fn address<T>(pointer: *mut T) -> u64 {
    let generic = pointer as u64;
    let address: u64;
    // SAFETY: computes an address; touches no memory.
    unsafe {
        asm!("cvta.to.global.u64 {0}, {1};", out(reg64) address, in(reg64) generic, options(pure, nomem, nostack));
    }
    address
}

/// `ld.global.v4.f32 {r0, r1, r2, r3}, [address];` — 16 bytes of global memory.
///
/// # Safety
/// `address` is a multiple of 16, and the bytes have been written and are visible to this thread.
#[inline(always)]
pub unsafe fn load_x4(address: u64) -> [f32; 4] {
    let (r0, r1, r2, r3): (f32, f32, f32, f32);
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("ld.global.v4.f32 {{{0}, {1}, {2}, {3}}}, [{4}];",
            out(reg32) r0, out(reg32) r1, out(reg32) r2, out(reg32) r3, in(reg64) address, options(nostack));
    }
    [r0, r1, r2, r3]
}

macro_rules! load_x4_if {
    ($name:ident, $instruction:literal, $doc:literal) => {
        #[doc = concat!("`@p ", $instruction, " {r0, r1, r2, r3}, [address];` — ", $doc)]
        ///
        /// Not `.nc`: where grids overlap, the one before may have written the bytes while this one was running.
        ///
        /// # Safety
        /// Where `is_there`, `address` is a multiple of 16, and the bytes have been written and are visible to this thread.
        #[inline(always)]
        pub unsafe fn $name(address: u64, is_there: bool) -> [u32; 4] {
            let [mut r0, mut r1, mut r2, mut r3] = [0u32; 4];
            // SAFETY: as promised by the caller.
            unsafe {
                asm!("{{",
                    ".reg .pred is_there;",
                    "setp.ne.u32 is_there, {5}, 0;",
                    concat!("@is_there ", $instruction, " {{{0}, {1}, {2}, {3}}}, [{4}];"),
                    "}}",
                    inout(reg32) r0, inout(reg32) r1, inout(reg32) r2, inout(reg32) r3, in(reg64) address,
                    in(reg32) u32::from(is_there), options(nostack));
            }
            [r0, r1, r2, r3]
        }
    };
}
load_x4_if!(load_x4_if, "ld.global.v4.b32", "16 bytes of global memory, or zeros.");
load_x4_if!(
    stream_x4,
    "ld.global.L1::no_allocate.L2::128B.v4.b32",
    "16 bytes that nobody else needs, or zeros; the L2 fetches the line of 128 bytes in which they lie."
);

/// `ld.global.b16 r, [address];` — one element of 16 bits.
///
/// # Safety
/// As [`load_x4`], for an even `address`.
#[inline(always)]
pub unsafe fn load_u16(address: u64) -> u16 {
    let value: u16;
    // SAFETY: as promised by the caller.
    unsafe { asm!("ld.global.b16 {0}, [{1}];", out(reg16) value, in(reg64) address, options(nostack)) }
    value
}

/// `st.global.v4.f32 [address], {r0, r1, r2, r3};` — stores 16 bytes in global memory.
///
/// # Safety
/// `address` is a multiple of 16, and nobody else uses the bytes.
#[inline(always)]
pub unsafe fn store_x4(address: u64, values: [f32; 4]) {
    let [r0, r1, r2, r3] = values;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("st.global.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}};",
            in(reg64) address, in(reg32) r0, in(reg32) r1, in(reg32) r2, in(reg32) r3, options(nostack));
    }
}

/// `atom.acq_rel.gpu.global.add.u64 r, [address], value;` — adds, and returns what was there before. Releases what
/// this thread has written or knows to be written, and acquires what those who added before it have released.
///
/// # Safety
/// `address` is a multiple of 8, and its word is accessed by atomic and ordered operations only while the grid runs.
#[inline(always)]
pub unsafe fn add(address: u64, value: u64) -> u64 {
    let before: u64;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("atom.acq_rel.gpu.global.add.u64 {0}, [{1}], {2};",
            out(reg64) before, in(reg64) address, in(reg64) value, options(nostack));
    }
    before
}

/// `atom.relaxed.gpu.global.add.u64 r, [address], value;` — as [`add`], and orders nothing else.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn add_relaxed(address: u64, value: u64) -> u64 {
    let before: u64;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("atom.relaxed.gpu.global.add.u64 {0}, [{1}], {2};",
            out(reg64) before, in(reg64) address, in(reg64) value, options(nostack));
    }
    before
}

/// `ld.acquire.gpu.global.u64 r, [address];` — acquires what those who added before have released.
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn load_acquire(address: u64) -> u64 {
    let value: u64;
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("ld.acquire.gpu.global.u64 {0}, [{1}];", out(reg64) value, in(reg64) address, options(nostack));
    }
    value
}

/// `st.relaxed.gpu.global.u64 [address], value;`
///
/// # Safety
/// As [`add`].
#[inline(always)]
pub unsafe fn store_relaxed(address: u64, value: u64) {
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("st.relaxed.gpu.global.u64 [{0}], {1};", in(reg64) address, in(reg64) value, options(nostack));
    }
}
