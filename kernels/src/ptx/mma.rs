//! The matrix multiply of one warp, from registers (PTX ISA, "Warp Level Matrix Instructions: mma").
//!
//! Before Hopper this was the way to the tensor cores. v0 uses it, to show what [`super::wgmma`] changes.

use core::arch::asm;

use super::wgmma::{Bf16, F16};

/// An element type that `mma.sync` multiplies in shape m16n8k16.
pub trait WarpMma {
    /// `mma.sync.aligned.m16n8k16.row.col.f32.{type}.{type}.f32 d, a, b, d;` — D (16×8) += A (16×16) · B (8×16)ᵀ.
    ///
    /// Lane `l` holds, with g = l / 4 and t = l mod 4 (PTX ISA, "Matrix Fragments for mma.m16n8k16"):
    ///
    /// | register | row | columns |
    /// |---|---|---|
    /// | `a[0]`, `a[1]` | g, g + 8 of A | 2t and 2t + 1 of K |
    /// | `a[2]`, `a[3]` | g, g + 8 of A | 2t + 8 and 2t + 9 of K |
    /// | `b[0]`, `b[1]` | g of B | 2t and 2t + 1, 2t + 8 and 2t + 9 of K |
    /// | `d[0]` and `d[1]`, `d[2]` and `d[3]` | g, g + 8 of D | 2t and 2t + 1 |
    ///
    /// # Safety
    /// All 32 lanes execute it together.
    unsafe fn warp_mma(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]);
}

macro_rules! warp_mma {
    ($type:ident, $name:literal) => {
        impl WarpMma for $type {
            #[inline(always)]
            unsafe fn warp_mma(d: &mut [f32; 4], [a0, a1, a2, a3]: [u32; 4], [b0, b1]: [u32; 2]) {
                // SAFETY: works on registers only; the caller promises a converged warp.
                unsafe {
                    asm!(
                        concat!(
                            "mma.sync.aligned.m16n8k16.row.col.f32.", $name, ".", $name, ".f32 ",
                            "{{{d0}, {d1}, {d2}, {d3}}}, {{{a0}, {a1}, {a2}, {a3}}}, {{{b0}, {b1}}}, ",
                            "{{{d0}, {d1}, {d2}, {d3}}};"
                        ),
                        d0 = inout(reg32) d[0], d1 = inout(reg32) d[1], d2 = inout(reg32) d[2], d3 = inout(reg32) d[3],
                        a0 = in(reg32) a0, a1 = in(reg32) a1, a2 = in(reg32) a2, a3 = in(reg32) a3,
                        b0 = in(reg32) b0, b1 = in(reg32) b1, options(nomem, nostack)
                    );
                }
            }
        }
    };
}
warp_mma!(F16, "f16");
warp_mma!(Bf16, "bf16");
