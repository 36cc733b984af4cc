//! Control flow (PTX ISA, "Control Flow Instructions" and "Miscellaneous Instructions").

use core::arch::asm;

/// `trap;` — aborts the grid and raises an interrupt to the host: the launch fails, the context with it.
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: `trap` never returns and has no operand.
    unsafe { asm!("trap;", options(noreturn, nostack)) }
}
