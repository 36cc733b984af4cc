//! Gemv: few rows of A, for which B is read once and straight into registers.
//!
//! With eight rows or less a product is as fast as B comes from DRAM, and each element of B is used so seldom that
//! shared memory, TMA and `wgmma` only add to the way. So each lane loads 16 bytes of a row of B and multiplies them
//! as they are, with `mma.sync`, whose fragments want single pairs of K from each lane: but in a sum over K the order
//! does not matter, and if A is taken in the same other order, a lane's eight neighbours serve as well.
//!
//! ```text
//!  K of a chunk         0 1 2 3   4 5 6 7 │ 8 … 11   12 … 15 │ 16 … 19  20 … 23 │ 24 … 27  28 … 31
//!  lane of the row          t = 0         │      t = 1       │      t = 2       │      t = 3          16 bytes each
//!  multiplied by the      1st     2nd     │   1st     2nd    │   1st      2nd   │   1st      2nd      MMA of the chunk
//! ```
//!
//! The warps of a block have the same columns of C and share K, a chunk of 32 elements after the other: what a block reads
//! at a time lies side by side. In the end they add up through shared memory, always in the same order. What hides the
//! latency of DRAM is not a ring but that there are many warps, and that a load has the L2 fetch the whole line.
//!
//! ```text
//!  a round of K    │ warp 0           │ warp 1           │ …  │ warp W-1         │      `K` elements, `STAGES` chunks a warp
//!  a chunk         │ 32 │ 32 │ …      │ 32 │ 32 │ …      │    │ 32 │ 32 │ …      │
//! ```
//!
//! Before the grid waits for the one before it, its first blocks ask the L2 for what they will read of B first. That brings
//! no value to anybody: what the grid before still writes there, it writes to the L2.
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | block | all threads | all, with their sums written | all | – |

use crate::catalogue::{Config, WARP};
#[cfg(target_arch = "nvptx64")]
use crate::space::direct_entries;
use crate::space::{compiled, rows};

/// Elements of K that the four lanes which share a row load at a time, 16 bytes each.
pub const CHUNK: usize = 32;

/// Rows of tiles in a band of the tile order (see [`crate::tile_order::banded`]).
pub const BAND: usize = 16;

/// Threads of the blocks that ask for B before the grid waits for the one before it: about as many as an H200 runs at once.
/// Blocks behind those need not wait, and what they asked for would be on its way twice.
#[cfg(target_arch = "nvptx64")]
const EARLY_THREADS: u32 = 132 * 1024;

/// Warps of a block that takes `k` elements of K a round, `stages` chunks of which each warp loads together.
pub const fn warps(k: usize, stages: usize) -> usize {
    k / (stages * CHUNK)
}

/// Bytes of shared memory in which `warps` warps leave their sums of `octets` octets of columns: a lane's four for each.
pub const fn exchange_bytes(warps: usize, octets: usize) -> usize {
    warps * octets * WARP * 16
}

/// The element of a chunk that MMA `mma`, 0 or 1, multiplies in place of its element `slot` of K, 0 to 15: of each
/// eight, the first four are the first's.
///
/// In a fragment a lane holds 2t, 2t + 1, 2t + 8 and 2t + 9 (`WarpMma::warp_mma`).
pub const fn element_of_chunk(mma: usize, slot: usize) -> usize {
    let (lane, pair) = (slot % 8 / 2, slot / 8);
    8 * lane + 4 * mma + 2 * pair + slot % 2
}

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::{CHUNK, EARLY_THREADS, warps};
    use crate::catalogue::WARP;
    use crate::epilogue::{Output, store_octet};
    use crate::ptx::mma::WarpMma;
    use crate::ptx::wgmma::MmaElement;
    use crate::ptx::{barrier, cache, control, global, shared, sreg};
    use crate::tile_order::banded;
    use crate::unroll::{unroll, unroll_wide};

    /// A row-major operand in global memory.
    #[derive(Clone, Copy)]
    pub struct Operand {
        /// Its first element; a multiple of 16 bytes.
        pub first: *mut u16,
        /// Elements from one row to the next; a multiple of eight.
        pub ld: u64,
    }

    impl Operand {
        /// The global address of element `column` of row `row`.
        #[inline(always)]
        fn address(&self, row: u32, column: u32) -> u64 {
            global::address(self.first) + 2 * (u64::from(row) * self.ld + u64::from(column))
        }
    }

    /// D (16×8) += A (16×32) · B (8×32)ᵀ: of both this lane has eight neighbouring elements of its row, of A also of the row
    /// eight below.
    ///
    /// # Safety
    /// All lanes of the warp execute it together.
    // ANCHOR: multiply
    #[inline(always)]
    unsafe fn multiply<E: WarpMma>(d: &mut [f32; 4], a: &[[u32; 4]; 2], [b0, b1, b2, b3]: [u32; 4]) {
        let [[a0, a1, a2, a3], [a4, a5, a6, a7]] = *a;
        // SAFETY: as promised by the caller.
        unsafe {
            E::warp_mma(d, [a0, a4, a1, a5], [b0, b1]);
            E::warp_mma(d, [a2, a6, a3, a7], [b2, b3]);
        }
    }
    // ANCHOR_END: multiply

    /// The last elements of a row, of which there are `count`, one to seven; zeros in place of the others of eight.
    ///
    /// # Safety
    /// They lie in live memory.
    #[inline(always)]
    unsafe fn load_tail(address: u64, count: u32) -> [u32; 4] {
        let mut bits = [0u64; 2];
        for i in 0..count {
            // SAFETY: as promised by the caller.
            let element = u64::from(unsafe { global::load_u16(address + 2 * u64::from(i)) }) << (16 * (i % 4));
            if i < 4 {
                bits[0] |= element;
            } else {
                bits[1] |= element;
            }
        }
        let [low, high] = bits;
        [low as u32, (low >> 32) as u32, high as u32, (high >> 32) as u32]
    }

    /// The kernel: C = A·Bᵀ for one tile of C of `HALVES`·8 rows, 8 or 16, and `OCTETS`·8 columns, over all of K in rounds of `K`
    /// elements, of which each warp loads `STAGES` chunks together.
    ///
    /// # Safety
    /// Launched as the catalogue says, one block for each tile of C, `band` ≥ 1, and `a`, `b` and `out` describe live
    /// memory: A of M×k, B of N×k.
    #[inline(always)]
    pub unsafe fn matmul<
        E: MmaElement + WarpMma,
        const HALVES: usize,
        const OCTETS: usize,
        const K: usize,
        const STAGES: usize,
    >(
        a: Operand,
        b: Operand,
        mut out: Output,
        k: u32,
        band: u32,
    ) {
        const { assert!(HALVES == 1 || HALVES == 2) }
        const { assert!(K.is_multiple_of(STAGES * CHUNK) && STAGES.is_multiple_of(2)) }
        let (rows, columns) = const { (8 * HALVES as u32, 8 * OCTETS as u32) };

        let (tiles_m, tiles_n) = (out.m.div_ceil(rows), out.n.div_ceil(columns));
        let (tile_row, tile_column) = match tiles_m {
            // Without divisions: a small product is short.
            1 => (0, sreg::block_x()),
            _ => banded(sreg::block_x(), tiles_m, tiles_n, band),
        };
        let (row, column) = (tile_row * rows, tile_column * columns);

        // Where this lane's first chunks lie: of the first octet of rows and of columns, and how much further those of the
        // next are. What is beyond C is computed from zeros, and not stored.
        let (warp, lane) = (sreg::thread() / WARP as u32, sreg::thread() % WARP as u32);
        let (in_octet, first) = (lane / 4, warp * (STAGES * CHUNK) as u32 + lane % 4 * 8);
        let (mut a_address, a_octet) = (a.address(row + in_octet, first), 16 * a.ld);
        let (mut b_address, b_octet) = (b.address(column + in_octet, first), 16 * b.ld);
        let in_a = |half: usize| row + in_octet + 8 * (half as u32) < out.m;
        let in_b = |octet: usize| column + in_octet + 8 * (octet as u32) < out.n;
        // The places of chunks of stage `stage`, of 2 bytes an element.
        let of_a =
            |address: u64, half: usize, stage: usize| address + half as u64 * a_octet + (2 * stage * CHUNK) as u64;
        let of_b =
            |address: u64, octet: usize, stage: usize| address + octet as u64 * b_octet + (2 * stage * CHUNK) as u64;

        control::launch_dependents();
        // ANCHOR: early
        // One lane of the four that share a row asks for their line of 128 bytes, two chunks.
        if lane % 4 == 0 && sreg::block_x() < const { EARLY_THREADS / (warps(K, STAGES) * WARP) as u32 } {
            unroll!(LINE in 0..STAGES / 2 => {
                let further = const { (LINE * 2 * CHUNK) as u32 };
                unroll!(OCTET in 0..OCTETS => {
                    if first + further < k && in_b(OCTET) {
                        // SAFETY: the address of an element of B.
                        unsafe { cache::prefetch(of_b(b_address, OCTET, 2 * LINE)) }
                    }
                });
            });
        }
        // ANCHOR_END: early
        // Memory is read and written from here on.
        control::wait_for_prerequisites();

        let mut d = [[0f32; 4]; OCTETS];
        // The chunks of eight elements before this one are whole.
        let whole = k & !7;
        // ANCHOR: loop
        let mut round = 0;
        while round + warp * ((STAGES * CHUNK) as u32) < k {
            // Of stage s, this lane's elements of K are `at` + 32·s and the seven behind it.
            let at = round + first;
            let mut a_chunks = [[[0u32; 4]; 2]; STAGES];
            let mut b_chunks = [[[0u32; 4]; OCTETS]; STAGES];
            // SAFETY: the indices are those of the arrays. What is loaded lies in the matrices: `whole` says so, and the
            // limits of rows do. All lanes of the warp are in the same round, and multiply together.
            unsafe {
                unroll!(STAGE in 0..STAGES => {
                    let is_there = at + ((STAGE * CHUNK) as u32) < whole;
                    unroll!(OCTET in 0..OCTETS => {
                        *b_chunks.get_unchecked_mut(STAGE).get_unchecked_mut(OCTET) =
                            global::stream_x4(of_b(b_address, OCTET, STAGE), is_there && in_b(OCTET));
                    });
                });
                unroll!(STAGE in 0..STAGES => {
                    let is_there = at + ((STAGE * CHUNK) as u32) < whole;
                    unroll!(HALF in 0..HALVES => {
                        *a_chunks.get_unchecked_mut(STAGE).get_unchecked_mut(HALF) =
                            global::load_x4_if(of_a(a_address, HALF, STAGE), is_there && in_a(HALF));
                    });
                });
                unroll!(STAGE in 0..STAGES => {
                    unroll!(OCTET in 0..OCTETS => {
                        let b_chunk = *b_chunks.get_unchecked(STAGE).get_unchecked(OCTET);
                        multiply::<E>(d.get_unchecked_mut(OCTET), a_chunks.get_unchecked(STAGE), b_chunk);
                    });
                });
            }
            (a_address, b_address, round) = (a_address + 2 * K as u64, b_address + 2 * K as u64, round + K as u32);
        }
        // ANCHOR_END: loop

        // ANCHOR: tail
        // Less than eight elements are left of each row: one warp's, and of it the lanes' whose turn it is.
        if whole != k && warp == whole % K as u32 / (STAGES * CHUNK) as u32 {
            let is_mine = lane % 4 == whole / 8 % 4;
            // SAFETY: the index is that of the array. What is loaded lies in the matrices. The warp is in one branch.
            unsafe {
                let tail = |matrix: &Operand, row: u32, rows: u32| {
                    if is_mine && row < rows { load_tail(matrix.address(row, whole), k - whole) } else { [0; 4] }
                };
                let mut halves = [[0u32; 4]; 2];
                unroll!(HALF in 0..HALVES => {
                    *halves.get_unchecked_mut(HALF) = tail(&a, row + in_octet + 8 * HALF as u32, out.m);
                });
                unroll!(OCTET in 0..OCTETS => {
                    let octet = tail(&b, column + in_octet + 8 * OCTET as u32, out.n);
                    multiply::<E>(d.get_unchecked_mut(OCTET), &halves, octet);
                });
            }
        }
        // ANCHOR_END: tail

        // ANCHOR: sum
        let base = shared::dynamic();
        let place = |warp: u32, octet: u32| base + (((warp * OCTETS as u32 + octet) * WARP as u32) + lane) * 16;
        // SAFETY: the exchange area has 16 bytes for each lane, octet and warp; all threads of the block come to the
        // barrier, behind which the sums stay as they are. Each octet of C is stored by one warp.
        unsafe {
            unroll!(OCTET in 0..OCTETS => { shared::store_x4(place(warp, OCTET as u32), *d.get_unchecked(OCTET)); });
            barrier::sync_block();
            if warp < OCTETS as u32 {
                let mut sum = [0f32; 4];
                unroll_wide!(OTHER in 0..warps(K, STAGES) => {
                    let [d0, d1, d2, d3] = shared::load_x4(place(OTHER as u32, warp)).map(f32::from_bits);
                    let [s0, s1, s2, s3] = sum;
                    sum = [s0 + d0, s1 + d1, s2 + d2, s3 + d3];
                });
                // Of eight rows the MMAs compute sixteen, of which the others are another tile's.
                out.m = out.m.min(row + rows);
                store_octet::<E, false>(&out, row, column + 8 * warp, sum);
            }
        }
        // ANCHOR_END: sum
    }
}

// Narrow tiles where C has few columns, many warps where K is long, and few where C has many columns.
compiled! { NARROW, rows, direct_entries { [[Gemv "gemv"]] [[F16 "f16"] [Bf16 "bf16"]] [[8 x 8]] [1024 2048] [4] } }
compiled! { EIGHT_PAIRS, rows, direct_entries { [[Gemv "gemv"]] [[F16 "f16"] [Bf16 "bf16"]] [[8 x 16]] [1024] [2] } }
compiled! { EIGHT, rows, direct_entries { [[Gemv "gemv"]] [[F16 "f16"] [Bf16 "bf16"]] [[8 x 16]] [512 1024] [4] } }
compiled! { SIXTEEN, rows, direct_entries { [[Gemv "gemv"]] [[F16 "f16"] [Bf16 "bf16"]] [[16 x 16] [16 x 32]] [512] [2] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[NARROW, EIGHT_PAIRS, EIGHT, SIXTEEN];

#[cfg(test)]
mod tests {
    use super::*;

    /// The two MMAs of a chunk take each element once, and each lane of a row its own eight.
    #[test]
    fn a_chunk_is_multiplied_once() {
        let mut taken = [0; CHUNK];
        for mma in 0..2 {
            for slot in 0..CHUNK / 2 {
                taken[element_of_chunk(mma, slot)] += 1;
                // The lane that holds elements 2t, 2t + 1, 2t + 8 and 2t + 9 of a fragment has loaded 8t to 8t + 7.
                assert_eq!(element_of_chunk(mma, slot) / 8, slot % 8 / 2);
            }
        }
        assert_eq!(taken, [1; CHUNK]);
    }
}
