//! From accumulators to C.

use crate::ptx::sreg;
use crate::ptx::wgmma::Mma;

/// A view of C, row-major, with the bounds that a store must respect.
#[derive(Clone, Copy)]
pub struct Output {
    /// First element. Aligned to 2 bytes.
    pub c: *mut u16,
    /// Rows.
    pub m: u32,
    /// Columns.
    pub n: u32,
    /// Elements from one row to the next.
    pub ldc: u64,
}

impl Output {
    /// Whether columns `column` to `column + width` all lie in C and two neighbours at an even column may
    /// be stored as one 32-bit word, for which all rows must start at a multiple of four bytes.
    #[inline(always)]
    fn takes_pairs(&self, column: u32, width: u32) -> bool {
        (self.c as u64 | (self.ldc * 2)) & 3 == 0 && column + width <= self.n
    }
}

/// Stores the accumulators of one warpgroup's 64×N fragment, whose first element is row `row`, column
/// `column` of C, rounding each to the element type. Rows and columns outside C are not stored.
///
/// A thread holds pairs of neighbouring columns. Where the fragment lies inside C's columns, a pair goes
/// out as one 32-bit word, so that four lanes write 16 contiguous bytes; at the right edge, and where C
/// is not aligned for that, each element is stored on its own.
///
/// # Safety
/// The 128 threads of a warpgroup call it together, no MMA on `d` is in flight, `row` and `column` are
/// multiples of 8, and `out` describes memory that this block alone writes in the fragment's area.
#[inline(always)]
pub unsafe fn store_direct<E: Mma<N>, const N: usize>(d: &E::Accumulators, out: &Output, row: u32, column: u32) {
    let thread = sreg::thread() % 128;
    let (warp, lane) = (thread / 32, thread % 32);
    let row = row + 16 * warp + lane / 4;
    let first = column + 2 * (lane % 4);
    let pairs = out.takes_pairs(column, N as u32);
    // The two rows of a thread, eight apart (see `Mma::Accumulators`).
    for half in 0..2 {
        let row = row + 8 * half as u32;
        if row >= out.m {
            continue;
        }
        // SAFETY: row < m, so the row lies in C; of its columns only those below n are written. The
        // accumulator indices stay below N / 2, the length of `d`.
        unsafe {
            let c = out.c.add(row as usize * out.ldc as usize + first as usize);
            let pair = |octet: usize| {
                let i = 4 * octet + 2 * half;
                E::pack(*d.as_ref().get_unchecked(i), *d.as_ref().get_unchecked(i + 1))
            };
            if pairs {
                for octet in 0..N / 8 {
                    c.add(8 * octet).cast::<u32>().write(pair(octet));
                }
            } else {
                for octet in 0..N / 8 {
                    let packed = pair(octet);
                    let left = first + 8 * octet as u32;
                    if left < out.n {
                        c.add(8 * octet).write(packed as u16);
                    }
                    if left + 1 < out.n {
                        c.add(8 * octet + 1).write((packed >> 16) as u16);
                    }
                }
            }
        }
    }
}
