//! What the L2 cache should hold and keep (PTX ISA, "prefetch" and "createpolicy").

use core::arch::asm;

/// A cache policy, an operand of loads and stores that take one.
///
/// There is none for "as without": loads with a policy of `evict_normal` took up to a fifth longer than loads without a
/// policy (H200, see the worklog).
#[derive(Clone, Copy)]
pub struct Policy(pub(super) u64);

/// `createpolicy.fractional.L2::evict_first.b64 p, 1.0;` — what is accessed with it leaves the cache before all else.
#[inline(always)]
pub fn evict_first() -> Policy {
    let policy: u64;
    // SAFETY: makes a value; touches nothing.
    unsafe {
        asm!("createpolicy.fractional.L2::evict_first.b64 {0}, 1.0;", out(reg64) policy, options(pure, nomem, nostack));
    }
    Policy(policy)
}

/// `createpolicy.fractional.L2::evict_last.b64 p, 1.0;` — what is accessed with it leaves the cache after all else.
#[inline(always)]
pub fn evict_last() -> Policy {
    let policy: u64;
    // SAFETY: makes a value; touches nothing.
    unsafe {
        asm!("createpolicy.fractional.L2::evict_last.b64 {0}, 1.0;", out(reg64) policy, options(pure, nomem, nostack));
    }
    Policy(policy)
}

/// `prefetch.global.L2 [address];` — has the L2 fetch the line at a global address. Reads nothing: what another grid
/// still writes there is found by whoever reads it later.
///
/// # Safety
/// The address is one of live memory.
#[inline(always)]
pub unsafe fn prefetch(address: u64) {
    // SAFETY: as promised by the caller.
    unsafe { asm!("prefetch.global.L2 [{0}];", in(reg64) address, options(nostack)) }
}
