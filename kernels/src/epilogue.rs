//! From accumulators to C.

use crate::catalogue::{Swizzle, WARPGROUP};
use crate::ptx::wgmma::Mma;
use crate::ptx::{barrier, fence, matrix, sreg, tma};
use crate::shared::{SLAB_ROWS, STAGING_BUFFERS, slab_columns};
use crate::unroll::{unroll, unroll_wide};

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

    /// Whether TMA can write C: it starts, and its rows start and end, at multiples of 16 bytes.
    ///
    /// The end matters because a store writes whole 16-byte chunks: with 130 columns and rows 136 apart,
    /// elements 130 to 135 of each row were overwritten (H200, found by the guard bytes of the GPU tests).
    #[inline(always)]
    pub fn takes_tma(&self) -> bool {
        (self.c as u64 | (self.ldc * 2) | (self.n as u64 * 2)) & 15 == 0
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
    unroll!(HALF in 0..2 => {
        let row = row + 8 * HALF as u32;
        if row < out.m {
        // SAFETY: row < m, so the row lies in C; of its columns only those below n are written. The
        // accumulator indices stay below N / 2, the length of `d`.
        unsafe {
            let c = out.c.add(row as usize * out.ldc as usize + first as usize);
            let pair = |octet: usize| {
                let i = 4 * octet + 2 * HALF;
                E::pack(*d.as_ref().get_unchecked(i), *d.as_ref().get_unchecked(i + 1))
            };
            if pairs {
                unroll_wide!(OCTET in 0..N / 8 => {
                    c.add(8 * OCTET).cast::<u32>().write(pair(OCTET));
                });
            } else {
                unroll_wide!(OCTET in 0..N / 8 => {
                    let packed = pair(OCTET);
                    let left = first + 8 * OCTET as u32;
                    if left < out.n {
                        c.add(8 * OCTET).write(packed as u16);
                    }
                    if left + 1 < out.n {
                        c.add(8 * OCTET + 1).write((packed >> 16) as u16);
                    }
                });
            }
        }
        }
    });
}

/// The staging buffers of one warpgroup for tiles of `N` columns.
///
/// A slab of 64 rows and [`slab_columns`] columns is written into one of them, with the swizzle of its
/// rows, and stored by TMA while the next slab is written into the other.
pub struct Staging<const N: usize> {
    /// Shared address of the first buffer.
    buffers: u32,
    /// Bytes of a buffer.
    buffer_bytes: u32,
    /// Which buffer is next.
    next: u32,
    /// The warpgroup's index among the consumers; its named barrier is one above.
    warpgroup: u32,
}

impl<const N: usize> Staging<N> {
    /// The buffers of warpgroup `warpgroup`, 0 or 1, where those of all begin at `base`.
    #[inline(always)]
    pub fn new(base: u32, warpgroup: u32, element_bytes: usize) -> Self {
        let buffer_bytes = (SLAB_ROWS * slab_columns(N) * element_bytes) as u32;
        let buffers = base + warpgroup * STAGING_BUFFERS as u32 * buffer_bytes;
        Staging { buffers, buffer_bytes, next: 0, warpgroup }
    }

    /// Waits for the other threads of the warpgroup.
    ///
    /// # Safety
    /// All of them call it.
    #[inline(always)]
    unsafe fn sync(&self) {
        const THREADS: u32 = WARPGROUP as u32;
        // SAFETY: as promised by the caller; each warpgroup has a barrier of its own.
        unsafe {
            match self.warpgroup {
                0 => barrier::sync_named::<1, THREADS>(),
                _ => barrier::sync_named::<2, THREADS>(),
            }
        }
    }

    /// Stores the accumulators of a 64×N fragment to row `row`, column `column` of C. Rows and columns outside
    /// C are not stored. Returns before the stores are done.
    ///
    /// # Safety
    /// The 128 threads of the warpgroup call it together, no MMA on `d` is in flight, and `c_map` is the
    /// generic address of C's tensor map with the box and swizzle of a slab.
    #[inline(always)]
    pub unsafe fn store<E: Mma<N>>(&mut self, d: &E::Accumulators, c_map: u64, row: u32, column: u32) {
        let columns = const { slab_columns(N) };
        let swizzle = const { Swizzle::of_row_bytes(slab_columns(N) * E::BYTES) };
        let thread = sreg::thread() % WARPGROUP as u32;
        let (warp, lane) = (thread / 32, thread % 32);
        // One stmatrix takes four 8×8 matrices: rows 0–7 and 8–15 of an octet of columns, then of the next.
        // This lane gives the address of one row of one of them.
        let lane_row = 16 * warp + lane % 8 + 8 * (lane / 8 % 2);
        let lane_octet = lane / 16;
        unroll!(SLAB in 0..N / slab_columns(N) => {
            let buffer = self.buffers + self.next * self.buffer_bytes;
            self.next = (self.next + 1) % STAGING_BUFFERS as u32;
            // SAFETY: the warpgroup is together. Its first thread issues all of its stores, so what that thread
            // waits for is free for all after the barrier; the fence and the second barrier make all writes
            // visible to TMA before it is told to read them.
            unsafe {
                if thread == 0 {
                    tma::wait_read::<{ STAGING_BUFFERS as u32 - 1 }>();
                }
                self.sync();
                unroll!(PAIR in 0..slab_columns(N) / 16 => {
                    let i = 4 * (SLAB * columns / 8 + 2 * PAIR);
                    let packed =
                        |j: usize| E::pack(*d.as_ref().get_unchecked(i + j), *d.as_ref().get_unchecked(i + j + 1));
                    let offset = lane_row as usize * columns * E::BYTES + (2 * PAIR + lane_octet as usize) * 16;
                    matrix::store_x4(
                        buffer + swizzle.apply(offset) as u32,
                        [packed(0), packed(2), packed(4), packed(6)],
                    );
                });
                fence::proxy_async();
                self.sync();
                if thread == 0 {
                    tma::store_2d(c_map, (column + (SLAB * columns) as u32) as i32, row as i32, buffer);
                    tma::commit_group();
                }
            }
        });
    }

    /// Waits until this thread's stores are done; the block must not exit before.
    #[inline(always)]
    pub fn finish(self) {
        tma::wait::<0>();
    }
}
