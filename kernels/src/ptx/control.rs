//! Control flow and the register budget (PTX ISA, "Control Flow Instructions", "elect.sync" and "Miscellaneous
//! Instructions").

use core::arch::asm;

/// `trap;` — aborts the grid and raises an interrupt to the host: the launch fails, the context with it.
#[inline(always)]
pub fn trap() -> ! {
    // SAFETY: `trap` never returns and has no operand.
    unsafe { asm!("trap;", options(noreturn, nostack)) }
}

/// `elect.sync _|p, 0xffffffff;` — true in exactly one lane of the warp, always the same one.
///
/// # Safety
/// All 32 lanes execute it together.
#[inline(always)]
pub unsafe fn elect() -> bool {
    let elected: u32;
    // SAFETY: the caller promises a converged warp.
    unsafe {
        asm!(
            "{{",
            ".reg .pred elected;",
            "elect.sync _|elected, 0xffffffff;",
            "selp.u32 {0}, 1, 0, elected;",
            "}}",
            out(reg32) elected, options(nomem, nostack)
        );
    }
    elected != 0
}

/// Both values, computed by the time that the program comes here and not where they are first used.
#[inline(always)]
pub fn computed_here((mut x, mut y): (u32, u32)) -> (u32, u32) {
    // SAFETY: a comment. Not being pure, it stays in order with other blocks of assembly.
    unsafe { asm!("// {0} {1}", inout(reg32) x, inout(reg32) y, options(nomem, nostack)) }
    (x, y)
}

/// `setmaxnreg.dec.sync.aligned.u32 N;` — gives registers back until each thread of the warpgroup has `N`.
///
/// # Safety
/// All 128 threads of a warpgroup execute it together, and the kernel has a launch bound (without one,
/// ptxas ignores it and says C7508). `N` is a multiple of 8 from 24 to 256, and not above what they have.
#[inline(always)]
pub unsafe fn give_registers<const N: u32>() {
    const { assert!(N.is_multiple_of(8) && N >= 24 && N <= 256) }
    // SAFETY: as promised by the caller.
    unsafe { asm!("setmaxnreg.dec.sync.aligned.u32 {0};", const N, options(nomem, nostack)) }
}

/// `setmaxnreg.inc.sync.aligned.u32 N;` — waits until each thread of the warpgroup can have `N` registers.
///
/// # Safety
/// As [`give_registers`], except that `N` is not below what they have, and that the block's pool will hold
/// enough once others have given theirs.
#[inline(always)]
pub unsafe fn take_registers<const N: u32>() {
    const { assert!(N.is_multiple_of(8) && N >= 24 && N <= 256) }
    // SAFETY: as promised by the caller.
    unsafe { asm!("setmaxnreg.inc.sync.aligned.u32 {0};", const N, options(nomem, nostack)) }
}

/// `griddepcontrol.launch_dependents;` — lets the next grid of the stream start, where it was launched to overlap
/// with this one, as soon as every block of this grid has said so or has exited (PTX ISA, "griddepcontrol").
#[inline(always)]
pub fn launch_dependents() {
    // SAFETY: only a hint to the scheduler of grids; the next grid waits before it touches memory.
    unsafe { asm!("griddepcontrol.launch_dependents;", options(nostack)) }
}

/// `griddepcontrol.wait;` — waits until the grids before this one in the stream are complete and what they
/// wrote is visible. Passes at once where this grid was not launched to overlap with them.
#[inline(always)]
pub fn wait_for_prerequisites() {
    // SAFETY: only waits. Not `nomem`: no access to memory may move up across it.
    unsafe { asm!("griddepcontrol.wait;", options(nostack)) }
}
