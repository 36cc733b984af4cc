//! Barriers of the threads of a block (PTX ISA, "Parallel Synchronization and Communication
//! Instructions: bar, barrier").

use core::arch::asm;

/// `bar.sync 0;` — waits until every thread of the block has arrived, and orders their ordinary memory
/// accesses.
///
/// # Safety
/// All threads of the block must execute it, each warp converged.
#[inline(always)]
pub unsafe fn sync_block() {
    // SAFETY: the caller promises that the whole block arrives; the instruction touches no operand.
    unsafe { asm!("bar.sync 0;", options(nostack)) }
}

/// `bar.sync ID, THREADS;` — waits until `THREADS` threads have arrived at named barrier `ID`, and orders
/// their ordinary memory accesses. Barrier 0 is the block's; 1 to 15 are free.
///
/// The id is part of the instruction's text: with a register there, ptxas reserves all sixteen barriers.
///
/// # Safety
/// Exactly `THREADS` threads, in whole converged warps, execute it with this `ID`.
#[inline(always)]
pub unsafe fn sync_named<const ID: u32, const THREADS: u32>() {
    const { assert!(ID > 0 && ID < 16 && THREADS.is_multiple_of(32)) }
    // SAFETY: the caller promises that the threads arrive; the instruction touches no operand.
    unsafe { asm!("bar.sync {0}, {1};", const ID, const THREADS, options(nostack)) }
}

/// `bar.arrive ID, THREADS;` — counts at named barrier `ID` as [`sync_named`] does, and does not wait.
///
/// # Safety
/// As [`sync_named`], where some of the threads arrive and others synchronise.
#[inline(always)]
pub unsafe fn arrive_named<const ID: u32, const THREADS: u32>() {
    const { assert!(ID > 0 && ID < 16 && THREADS.is_multiple_of(32)) }
    // SAFETY: the caller promises that others wait; the instruction touches no operand.
    unsafe { asm!("bar.arrive {0}, {1};", const ID, const THREADS, options(nostack)) }
}

/// `bar.warp.sync 0xffffffff;` — waits for the other lanes of the warp, and orders their ordinary memory
/// accesses.
///
/// # Safety
/// All 32 lanes execute it.
#[inline(always)]
pub unsafe fn sync_warp() {
    // SAFETY: the caller promises that the whole warp arrives.
    unsafe { asm!("bar.warp.sync 0xffffffff;", options(nostack)) }
}
