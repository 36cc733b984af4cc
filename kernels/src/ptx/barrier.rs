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
