//! What the L2 cache should keep (PTX ISA, "createpolicy").

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
