//! Special registers (PTX ISA, "Special Registers").

use core::arch::asm;

macro_rules! special_register {
    ($(#[$doc:meta])* $name:ident, $register:literal) => {
        $(#[$doc])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value: u32;
            // SAFETY: reads a special register that is constant for the life of the thread.
            unsafe { asm!(concat!("mov.u32 {0}, %", $register, ";"), out(reg32) value, options(pure, nomem, nostack)) }
            value
        }
    };
}

special_register!(
    /// `%tid.x`: index of the thread in its block.
    thread, "tid.x"
);
special_register!(
    /// `%ctaid.x`: index of the block in the grid.
    block_x, "ctaid.x"
);
special_register!(
    /// `%nctaid.x`: blocks of the grid.
    blocks_x, "nctaid.x"
);
