//! Memory fences (PTX ISA, "Parallel Synchronization and Communication Instructions: membar, fence").

use core::arch::asm;

/// `fence.mbarrier_init.release.cluster;` — makes this thread's earlier [`super::mbarrier::init`] visible
/// to the cluster and to the async proxy, once followed by a barrier that the observers wait on too.
#[inline(always)]
pub fn mbarrier_init() {
    // SAFETY: a fence has no operand and only orders memory.
    unsafe { asm!("fence.mbarrier_init.release.cluster;", options(nostack)) }
}

/// `fence.proxy.async.shared::cta;` — orders this thread's earlier ordinary accesses to shared memory
/// before later ones through the async proxy: TMA and wgmma (PTX ISA, "Async proxy"). Each thread that
/// wrote executes it, then a barrier, then one thread issues the copy.
#[inline(always)]
pub fn proxy_async() {
    // SAFETY: a fence has no operand and only orders memory.
    unsafe { asm!("fence.proxy.async.shared::cta;", options(nostack)) }
}
