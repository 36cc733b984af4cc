//! mbarrier objects in shared memory (PTX ISA, "Parallel Synchronization and Communication
//! Instructions: mbarrier").
//!
//! An mbarrier counts, for its current phase, pending arrivals and pending bytes. When both reach zero
//! the phase completes, the arrival count is armed again and the next phase begins. The phase's parity
//! starts at 0. A wait on parity `p` passes when the most recent phase of parity `p` has completed; so on
//! a fresh barrier a wait on 0 blocks and a wait on 1 passes at once.
//!
//! All operations use the default semantics: arrive is `.release.cta`, wait is `.acquire.cta`. The
//! explicit `.cluster` forms cost a full memory barrier at each stage and are not needed for data that
//! TMA wrote, whose visibility `complete_tx` itself carries.

use core::arch::asm;

/// `mbarrier.init.shared::cta.b64 [bar], count;` — a barrier whose phases each expect `count` arrivals.
///
/// # Safety
/// `bar` is the shared address of eight bytes, aligned to eight, that no thread uses as a barrier yet.
/// Others may use it only after [`super::fence::mbarrier_init`] and a block or cluster barrier.
#[inline(always)]
pub unsafe fn init(bar: u32, count: u32) {
    // SAFETY: the caller owns the eight bytes at `bar`.
    unsafe { asm!("mbarrier.init.shared::cta.b64 [{0}], {1};", in(reg32) bar, in(reg32) count, options(nostack)) }
}

/// `mbarrier.arrive.expect_tx.shared::cta.b64 _, [bar], bytes;` — adds `bytes` to the bytes that the
/// current phase waits for, then arrives once.
///
/// # Safety
/// `bar` is an initialised barrier of this block. Exactly `bytes` bytes will be completed on it.
#[inline(always)]
pub unsafe fn arrive_expect_tx(bar: u32, bytes: u32) {
    // SAFETY: the caller promises an initialised barrier.
    unsafe {
        asm!("mbarrier.arrive.expect_tx.shared::cta.b64 _, [{0}], {1};", in(reg32) bar, in(reg32) bytes, options(nostack));
    }
}

/// `mbarrier.arrive.shared::cta.b64 _, [bar];` — arrives once.
///
/// # Safety
/// `bar` is an initialised barrier of this block whose current phase still expects an arrival.
#[inline(always)]
pub unsafe fn arrive(bar: u32) {
    // SAFETY: the caller promises an initialised barrier.
    unsafe { asm!("mbarrier.arrive.shared::cta.b64 _, [{0}];", in(reg32) bar, options(nostack)) }
}

/// `mbarrier.arrive.shared::cluster.b64 _, [bar];` — arrives once on a barrier of any block of the cluster,
/// at an address from [`super::cluster::map_shared`].
///
/// # Safety
/// `bar` is an initialised barrier whose current phase still expects an arrival, of a block that has not
/// exited.
#[inline(always)]
pub unsafe fn arrive_remote(bar: u32) {
    // SAFETY: the caller promises an initialised barrier.
    unsafe { asm!("mbarrier.arrive.shared::cluster.b64 _, [{0}];", in(reg32) bar, options(nostack)) }
}

// ANCHOR: try_wait
/// `mbarrier.try_wait.parity.shared::cta.b64 p, [bar], parity;` — waits for a while, which the hardware
/// bounds, for the phase of this parity to complete; returns whether it has.
///
/// # Safety
/// `bar` is an initialised barrier of this block; `parity` is 0 or 1.
#[inline(always)]
pub unsafe fn try_wait(bar: u32, parity: u32) -> bool {
    let done: u32;
    // SAFETY: the caller promises an initialised barrier. rustc has no predicate operand, so the
    // predicate is turned into a register inside the block that declares it.
    unsafe {
        asm!(
            "{{",
            ".reg .pred done;",
            "mbarrier.try_wait.parity.shared::cta.b64 done, [{1}], {2};",
            "selp.u32 {0}, 1, 0, done;",
            "}}",
            out(reg32) done, in(reg32) bar, in(reg32) parity, options(nostack)
        );
    }
    done != 0
}
// ANCHOR_END: try_wait

/// Waits until the phase of parity `parity` has completed: [`try_wait`] in a loop, since it may return
/// false early.
///
/// # Safety
/// As [`try_wait`]; and the phase must be one that will complete, or the thread waits for ever.
#[inline(always)]
pub unsafe fn wait(bar: u32, parity: u32) {
    // SAFETY: as promised by the caller.
    while !unsafe { try_wait(bar, parity) } {}
}
