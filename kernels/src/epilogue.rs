//! From accumulators to C.
//!
//! A thread holds pairs of neighbouring columns, so that four lanes hold 16 contiguous bytes of a row, and
//! stored as they are a warp's 32-bit words touch eight rows, half a sector in each. So the tile goes
//! through shared memory: `stmatrix` writes a slab of it, swizzled, from which whole rows are stored, 16 bytes
//! a lane or by TMA.

use crate::catalogue::{Swizzle, WARP, WARPGROUP};
use crate::ptx::cache::Policy;
use crate::ptx::wgmma::MmaElement;
use crate::ptx::{barrier, fence, matrix, shared, sreg, tma};
use crate::shared::{RingLayout, SLAB_ROWS, STAGING_BUFFERS, slab_columns};
use crate::unroll::{unroll, unroll_wide};

/// Rows of a slab that one warp of the warpgroup holds.
const WARP_ROWS: usize = SLAB_ROWS / (WARPGROUP / WARP);

/// Steps in which a warp copies its rows of a slab of tiles of `n` columns, a chunk of 16 bytes for each lane.
const fn copy_steps(n: usize) -> usize {
    (WARP_ROWS * slab_columns(n)).div_ceil(8 * WARP)
}

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

/// Eight elements, as one lane stores them.
#[derive(Clone, Copy)]
#[repr(C, align(16))]
struct Chunk([u32; 4]);

impl Output {
    /// Whether all rows of C start at a multiple of 16 bytes.
    #[inline(always)]
    fn takes_chunks(&self) -> bool {
        (self.c as u64 | (self.ldc * 2)) & 15 == 0
    }

    /// Whether the `width` columns of C from `column` on can be stored in chunks of 16 bytes: each row starts at a multiple
    /// of that, and ends at one, or beyond these columns. Then no chunk lies across the end of a row.
    #[inline(always)]
    fn takes_chunks_of(&self, column: u32, width: u32) -> bool {
        self.takes_chunks() && (self.n.is_multiple_of(8) || column + width <= self.n)
    }

    /// Whether all rows of C are pairs of elements at multiples of four bytes.
    #[inline(always)]
    fn takes_pairs(&self) -> bool {
        (self.c as u64 | (self.ldc * 2)) & 3 == 0 && self.n.is_multiple_of(2)
    }

    /// Whether TMA can write C: it starts, and its rows start and end, at multiples of 16 bytes.
    ///
    /// The end matters because a store writes whole 16-byte chunks: with 130 columns and rows 136 apart,
    /// elements 130 to 135 of each row were overwritten (H200, found by the guard bytes of the GPU tests).
    #[inline(always)]
    pub fn takes_tma(&self) -> bool {
        self.takes_chunks() && self.n.is_multiple_of(8)
    }
}

/// Stores an octet of columns of a warp's 16 rows of D: of `d`, as a wgmma orders four accumulators, rounded to the
/// element type. Element (0, 0) goes to row `row`, column `column` of C; where `TRANSPOSED`, columns of D are rows
/// of C. What lies outside C is not stored.
///
/// # Safety
/// All lanes of the warp call it together, and nobody else writes these elements of C.
#[inline(always)]
pub unsafe fn store_octet<E: MmaElement, const TRANSPOSED: bool>(out: &Output, row: u32, column: u32, d: [f32; 4]) {
    let lane = sreg::thread() % WARP as u32;
    let (in_rows, in_columns) = (lane / 4, lane % 4 * 2);
    let element = |row: u32, column: u32| out.c.wrapping_add(row as usize * out.ldc as usize + column as usize);
    let store = |row: u32, column: u32, value: u32| {
        if row < out.m && column < out.n {
            // SAFETY: an element of C, which nobody else writes.
            unsafe { element(row, column).write(value as u16) };
        }
    };
    let [d0, d1, d2, d3] = d;
    for (in_rows, low, high) in [(in_rows, d0, d1), (in_rows + 8, d2, d3)] {
        let pair = E::pack(low, high);
        if TRANSPOSED {
            store(row + in_columns, column + in_rows, pair);
            store(row + in_columns + 1, column + in_rows, pair >> 16);
            continue;
        }
        let (row, column) = (row + in_rows, column + in_columns);
        if !out.takes_pairs() {
            store(row, column, pair);
            store(row, column + 1, pair >> 16);
        } else if row < out.m && column < out.n {
            // SAFETY: two elements of C, since it has an even number of columns, at a multiple of four bytes.
            unsafe { element(row, column).cast::<u32>().write(pair) };
        }
    }
}

/// Waits until this thread's stores by TMA are done; the block must not exit before.
///
/// All threads call it behind the join of their roles, those that have stored nothing too. Behind the consumers' loop over
/// tiles, in their branch, it makes ptxas 13.0.88 forget the registers that `setmaxnreg` has given: what is above 128
/// accumulators spills.
#[inline(always)]
pub fn finish_stores() {
    tma::wait::<0>();
}

/// The staging buffers of one warpgroup for tiles of `N` columns.
///
/// A slab of 64 rows and [`slab_columns`] columns is written into one of them, with the swizzle of its
/// rows, and stored while the next slab is written into another.
pub struct Staging<const N: usize> {
    /// Shared address of the first buffer.
    buffers: u32,
    /// Bytes of a buffer.
    buffer_bytes: u32,
    /// How many there are.
    count: u32,
    /// Which buffer is next.
    next: u32,
    /// The warpgroup's index among the consumers; its named barrier is one above.
    warpgroup: u32,
    /// How many consumers there are, at most three.
    warpgroups: usize,
}

impl<const N: usize> Staging<N> {
    /// The [`STAGING_BUFFERS`] buffers of warpgroup `warpgroup`, 0 or 1, where those of all begin at `base`.
    #[inline(always)]
    pub fn new(base: u32, warpgroup: u32, element_bytes: usize) -> Self {
        Self::with_buffers(STAGING_BUFFERS, base, warpgroup, 2, element_bytes)
    }

    /// As [`Staging::new`], with the buffers that `layout` has for each warpgroup: one, two, or as many as hold a fragment
    /// or several. `base` is the shared address where the layout begins.
    #[inline(always)]
    pub fn of_layout(layout: &RingLayout, base: u32, warpgroup: u32, element_bytes: usize) -> Self {
        let count = layout.staging_buffers;
        let warpgroups = layout.staging_bytes / (count * SLAB_ROWS * slab_columns(N) * element_bytes);
        Self::with_buffers(count, base + layout.staging() as u32, warpgroup, warpgroups, element_bytes)
    }

    #[inline(always)]
    fn with_buffers(count: usize, base: u32, warpgroup: u32, warpgroups: usize, element_bytes: usize) -> Self {
        let buffer_bytes = (SLAB_ROWS * slab_columns(N) * element_bytes) as u32;
        let buffers = base + warpgroup * count as u32 * buffer_bytes;
        Staging { buffers, buffer_bytes, count: count as u32, next: 0, warpgroup, warpgroups }
    }

    /// Shared address of the `count` buffers whose turn it is, one after the other. It divides the number of all.
    #[inline(always)]
    fn take_buffers(&mut self, count: u32) -> u32 {
        let buffers = self.buffers + self.next * self.buffer_bytes;
        self.next = (self.next + count) % self.count;
        buffers
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
                2 if self.warpgroups > 2 => barrier::sync_named::<3, THREADS>(),
                _ => barrier::sync_named::<2, THREADS>(),
            }
        }
    }

    /// Writes slab `SLAB` of a 64×N fragment into the buffer at `buffer`: this warp its 16 rows. `d` are this
    /// thread's `N` / 2 accumulators, as [`Mma::Accumulators`](crate::ptx::wgmma::Mma::Accumulators) orders them.
    ///
    /// # Safety
    /// All lanes of the warp call it together, no MMA on `d` is in flight, and nobody else uses these rows
    /// of the buffer.
    #[inline(always)]
    // ANCHOR: write_slab
    unsafe fn write_slab<E: MmaElement, const SLAB: usize>(d: &[f32], buffer: u32) {
        let columns = const { slab_columns(N) };
        let swizzle = const { Swizzle::of_row_bytes(slab_columns(N) * E::BYTES) };
        let thread = sreg::thread() % WARPGROUP as u32;
        let (warp, lane) = (thread / WARP as u32, thread % WARP as u32);
        // One stmatrix takes four 8×8 matrices: rows 0–7 and 8–15 of an octet of columns, then of the next.
        // This lane gives the address of one row of one of them.
        let lane_row = WARP_ROWS as u32 * warp + lane % 8 + 8 * (lane / 8 % 2);
        let lane_octet = lane / 16;
        unroll_wide!(PAIR in 0..slab_columns(N) / 16 => {
            let i = 4 * (SLAB * columns / 8 + 2 * PAIR);
            let offset = lane_row as usize * columns * E::BYTES + (2 * PAIR + lane_octet as usize) * 16;
            // SAFETY: `i` + 7 is below N / 2, the length of `d`; the address lies in this warp's rows.
            unsafe {
                let packed =
                    |j: usize| E::pack(*d.get_unchecked(i + j), *d.get_unchecked(i + j + 1));
                matrix::store_x4(
                    buffer + swizzle.apply(offset) as u32,
                    [packed(0), packed(2), packed(4), packed(6)],
                );
            }
        });
        if const { !slab_columns(N).is_multiple_of(16) } {
            // The last octet is alone.
            let i = 4 * (SLAB + 1) * (columns / 8) - 4;
            let offset = lane_row as usize * columns * E::BYTES + (columns / 8 - 1) * 16;
            // SAFETY: as above, with `i` + 3.
            unsafe {
                let packed = |j: usize| E::pack(*d.get_unchecked(i + j), *d.get_unchecked(i + j + 1));
                matrix::store_x2(buffer + swizzle.apply(offset) as u32, [packed(0), packed(2)]);
            }
        }
    }
    // ANCHOR_END: write_slab

    /// Stores this warp's 16 rows of the slab at `buffer` to row `row`, column `column` of C, without what
    /// lies outside C.
    ///
    /// # Safety
    /// All lanes of the warp call it together, and see what was written. `column` is a multiple of 8, and `out`
    /// describes memory that this warp alone writes in the slab's area.
    #[inline(always)]
    unsafe fn copy_slab<E: MmaElement>(out: &Output, buffer: u32, row: u32, column: u32) {
        let columns = const { slab_columns(N) as u32 };
        let swizzle = const { Swizzle::of_row_bytes(slab_columns(N) * E::BYTES) };
        let thread = sreg::thread() % WARPGROUP as u32;
        let (warp, lane) = (thread / WARP as u32, thread % WARP as u32);
        let rows = warp * WARP_ROWS as u32;
        let address = |row: u32, column: u32| {
            let offset = (row * columns + column) as usize * E::BYTES;
            buffer + swizzle.apply(offset) as u32
        };
        // SAFETY: only elements of rows below m and columns below n are written; the addresses in shared
        // memory lie in this warp's rows.
        unsafe {
            let element = |row: u32, column: u32| out.c.add(row as usize * out.ldc as usize + column as usize);
            if out.takes_chunks_of(column, columns) {
                // Eight elements a lane, row after row.
                let (in_row, in_all) = const { (slab_columns(N) as u32 / 8, (WARP_ROWS * slab_columns(N) / 8) as u32) };
                unroll!(STEP in 0..if copy_steps(N) <= 8 { copy_steps(N) } else { 1 } => {
                    let mut number = (STEP * WARP) as u32 + lane;
                    while number < in_all {
                        let (in_slab, lane_column) = (rows + number / in_row, number % in_row * 8);
                        let chunk = shared::load_x4(address(in_slab, lane_column));
                        if row + in_slab < out.m && column + lane_column < out.n {
                            element(row + in_slab, column + lane_column).cast::<Chunk>().write(Chunk(chunk));
                        }
                        if const { copy_steps(N) <= 8 } {
                            break;
                        }
                        // A slab wider than 128 columns: with a copy of this for each of its steps, ptxas spills.
                        number += WARP as u32;
                    }
                });
            } else {
                // One element a lane, so that even rows without alignment are written side by side.
                for in_slab in rows..rows + WARP_ROWS as u32 {
                    unroll!(PART in 0..slab_columns(N).div_ceil(WARP) => {
                        let lane_column = (PART * WARP) as u32 + lane;
                        let inside = lane_column < columns && column + lane_column < out.n && row + in_slab < out.m;
                        if inside {
                            let value = shared::load_u16(address(in_slab, lane_column));
                            element(row + in_slab, column + lane_column).write(value);
                        }
                    });
                }
            }
        }
    }

    /// Stores the accumulators of a 64×N fragment to row `row`, column `column` of C, rounding each to the
    /// element type. Rows and columns outside C are not stored. Each warp works on its own.
    ///
    /// # Safety
    /// The 128 threads of the warpgroup call it, each warp converged; no MMA on `d` is in flight; nobody else
    /// uses the buffers. `column` is a multiple of 8, and `out` describes memory that this warpgroup alone
    /// writes in the fragment's area.
    #[inline(always)]
    // ANCHOR: store
    pub unsafe fn store<E: MmaElement>(&mut self, d: &[f32], out: &Output, row: u32, column: u32) {
        unroll_wide!(SLAB in 0..N / slab_columns(N) => {
            let buffer = self.take_buffers(1);
            // SAFETY: as promised by the caller. The warp has read what the buffer held before: that was two
            // slabs ago, and its lanes have met since; or, of one buffer, they met once they had read it.
            unsafe {
                Self::write_slab::<E, SLAB>(d, buffer);
                barrier::sync_warp();
                Self::copy_slab::<E>(out, buffer, row, column + (SLAB * slab_columns(N)) as u32);
                // Not before the slab is written, where it belongs as well: there ptxas takes the warp to be diverged from
                // then on, and keeps the descriptors of the next tile's MMAs in vector registers.
                if self.count == 1 {
                    barrier::sync_warp();
                }
            }
        });
    }
    // ANCHOR_END: store

    /// As [`Staging::store`], by TMA, and returns before the stores are done: [`finish_stores`] waits for them.
    ///
    /// Where the buffers hold the whole fragment, all of it is written before TMA is told, once, to read it; else
    /// one slab after the other. The L2 cache keeps what is stored as `kept` says.
    ///
    /// # Safety
    /// As [`Staging::store`], with the whole warpgroup together; and `c_map` is the generic address of C's tensor
    /// map with the box and swizzle of a slab.
    #[inline(always)]
    // ANCHOR: store_by_tma
    pub unsafe fn store_by_tma<E: MmaElement>(
        &mut self,
        d: &[f32],
        c_map: u64,
        row: u32,
        column: u32,
        kept: Option<Policy>,
    ) {
        let first = sreg::thread().is_multiple_of(WARPGROUP as u32);
        let slabs = const { N / slab_columns(N) } as u32;
        // Slabs from one pair of barriers to the next. The compiler knows all of this, and keeps no branch of it.
        let batch = if self.count >= slabs { slabs } else { 1 };
        let mut buffers = 0;
        unroll_wide!(SLAB in 0..N / slab_columns(N) => {
            let place = SLAB as u32 % batch;
            // SAFETY: the warpgroup is together. Its first thread issues all of its stores, so what that thread
            // waits for is free for all after the barrier; the fence and the second barrier make all writes
            // visible to TMA before it is told to read them.
            unsafe {
                if place == 0 {
                    buffers = self.take_buffers(batch);
                    if first {
                        // Other buffers than these may still be read.
                        if self.count > batch { tma::wait_read::<1>() } else { tma::wait_read::<0>() }
                    }
                    self.sync();
                }
                Self::write_slab::<E, SLAB>(d, buffers + place * self.buffer_bytes);
                if place + 1 == batch {
                    fence::proxy_async();
                    self.sync();
                    if first {
                        for place in 0..batch {
                            let column = column + (SLAB as u32 + 1 - batch + place) * slab_columns(N) as u32;
                            tma::store_2d(
                                c_map,
                                column as i32,
                                row as i32,
                                buffers + place * self.buffer_bytes,
                                kept,
                            );
                        }
                        tma::commit_group();
                    }
                }
            }
        });
    }
    // ANCHOR_END: store_by_tma

    /// As [`Staging::store`], the fragment being one of Cᵀ: its row 0 goes to column `column` of C and its column 0 to
    /// row `row`.
    ///
    /// # Safety
    /// As [`Staging::store`].
    #[inline(always)]
    // ANCHOR: store_transposed
    pub unsafe fn store_transposed<E: MmaElement>(&mut self, d: &[f32], out: &Output, row: u32, column: u32) {
        // Each of a warp's N rows is 32 bytes long: a sector.
        let row_bytes = const { WARP_ROWS * E::BYTES } as u32;
        let thread = sreg::thread() % WARPGROUP as u32;
        let (warp, lane) = (thread / WARP as u32, thread % WARP as u32);
        let buffer = self.take_buffers(1) + warp * N as u32 * row_bytes;
        let column = column + warp * WARP_ROWS as u32;
        // SAFETY: as promised by the caller; as in `store`, the warp has read what its share of the buffer held
        // before. `i` + 3 is below N / 2, the length of `d`; only elements of C are written.
        unsafe {
            // One stmatrix takes an octet of columns: rows 0–7 and 8–15, which become the halves of eight rows.
            let lane_row = buffer + lane % 8 * row_bytes + lane / 8 % 2 * 16;
            unroll_wide!(OCTET in 0..N / 8 => {
                let i = 4 * OCTET;
                let packed = |j: usize| E::pack(*d.get_unchecked(i + j), *d.get_unchecked(i + j + 1));
                matrix::store_transposed_x2(lane_row + (8 * OCTET) as u32 * row_bytes, [packed(0), packed(2)]);
            });
            barrier::sync_warp();
            let element = |row: u32, column: u32| out.c.add(row as usize * out.ldc as usize + column as usize);
            if out.takes_chunks_of(column, WARP_ROWS as u32) {
                // Two lanes a row, and 16 rows at once.
                for group in 0..N.div_ceil(16) {
                    let (in_slab, half) = ((16 * group) as u32 + lane / 2, lane % 2);
                    if in_slab < N as u32 && row + in_slab < out.m && column + 8 * half < out.n {
                        let chunk = shared::load_x4(buffer + in_slab * row_bytes + half * 16);
                        element(row + in_slab, column + 8 * half).cast::<Chunk>().write(Chunk(chunk));
                    }
                }
            } else {
                // One element a lane, and two rows at once.
                let (half, lane_column) = (lane / 16, lane % 16);
                for pair in 0..N / 2 {
                    let in_slab = (2 * pair) as u32 + half;
                    if row + in_slab < out.m && column + lane_column < out.n {
                        let value = shared::load_u16(buffer + in_slab * row_bytes + lane_column * E::BYTES as u32);
                        element(row + in_slab, column + lane_column).write(value);
                    }
                }
            }
        }
    }
    // ANCHOR_END: store_transposed
}
