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
    /// Whether two neighbouring elements at an even column may be stored as one 32-bit word: all rows
    /// must start at a multiple of four bytes.
    #[inline(always)]
    fn pairs_are_aligned(&self) -> bool {
        (self.c as u64 | (self.ldc * 2)) & 3 == 0
    }
}

/// Stores the accumulators of one warpgroup's 64×N fragment, whose first element is row `row`, column
/// `column` of C, rounding each to the element type. Rows and columns outside C are not stored.
///
/// A thread holds pairs of neighbouring columns, so a pair goes out as one 32-bit word where C allows
/// it; four lanes then write 16 contiguous bytes.
///
/// # Safety
/// The 128 threads of a warpgroup call it together, no MMA on `d` is in flight, `row` and `column` are
/// multiples of 8, and `out` describes memory that this block alone writes in the fragment's area.
#[inline(always)]
pub unsafe fn store_direct<E: Mma<N>, const N: usize>(d: &E::Accumulators, out: &Output, row: u32, column: u32) {
    let thread = sreg::thread() % 128;
    let (warp, lane) = (thread / 32, thread % 32);
    let first_row = row + 16 * warp + lane / 4;
    let first_column = column + 2 * (lane % 4);
    let pairs = out.pairs_are_aligned();
    for half in 0..2 {
        let row = first_row + 8 * half;
        if row >= out.m {
            continue;
        }
        for octet in 0..N / 8 {
            let column = first_column + 8 * octet as u32;
            let i = 4 * octet + 2 * half as usize;
            // SAFETY: i + 1 < N / 2, the length of the accumulators.
            let (low, high) = unsafe { (*d.as_ref().get_unchecked(i), *d.as_ref().get_unchecked(i + 1)) };
            let packed = E::pack(low, high);
            // SAFETY: row < m and the columns are compared with n before each store; the caller promises
            // the memory.
            unsafe {
                let element = out.c.add(row as usize * out.ldc as usize + column as usize);
                if pairs && column + 1 < out.n {
                    element.cast::<u32>().write(packed);
                } else {
                    if column < out.n {
                        element.write(packed as u16);
                    }
                    if column + 1 < out.n {
                        element.add(1).write((packed >> 16) as u16);
                    }
                }
            }
        }
    }
}
