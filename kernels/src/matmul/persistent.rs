//! The persistent kernel: blocks that stay, and an epilogue that nobody waits for.
//!
//! What changes from v5:
//!
//! - As many blocks as multiprocessors are launched, and each walks through tiles of C. The ring goes on
//!   from one tile to the next: while the consumers store a tile, the producer already loads the next one.
//! - The epilogue goes through shared memory that is not the ring's: `stmatrix` writes the tile, swizzled, into
//!   staging buffers of the warpgroup, and TMA stores it while the next tile is computed. Where only two
//!   buffers fit beside the ring, it stores one slab of the tile while the next is written.
//! - The producer is a whole warpgroup, so that it can give its registers to the consumers
//!   (`setmaxnreg`). One thread of it works.
//! - Blocks may form clusters of `CM`×`CN` tiles. Blocks of the same column share their tile of B: each loads a
//!   part of it and multicasts it to all of them. Likewise for rows and A.
//! - One thread of each consumer warpgroup releases a stage for all, in every block that writes to it.
//! - Where the descriptors of all stages fit in the uniform registers, the loop over K is unrolled by laps of the ring
//!   and works out none.
//! - Tiles of 192 rows have three consumer warpgroups.
//! - Neighbours in C should be neighbours on the chip, where requests for the same lines are merged: a long grid does not
//!   let the next one in early, whose blocks would land anywhere (`neighbours.rs`), and
//!   where K is long too, tiles are taken in patches.
//!
//! ```text
//!  warpgroup 0   │ tile 0: MMA MMA MMA … │ store │ tile 1: MMA MMA MMA … │ store │
//!  warpgroup 1   │ tile 0: MMA MMA MMA … │ store │ tile 1: MMA MMA MMA … │ store │
//!  producer      │ loads of tile 0 │ loads of tile 1 …     │ loads of tile 2 …
//!  TMA stores                            ▒▒▒▒▒▒▒▒                        ▒▒▒▒▒▒▒▒
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles, whoever loads them | the producer; TMA completes the bytes | all consumer warpgroups | 0 |
//! | `empty[s]` | one of each consumer warpgroup of each block that reads what this producer writes | one thread of each | the producer | 1 |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::clustered_entries;
use crate::space::{clustered_rows, compiled};

/// Warpgroups that share a tile of `rows` rows: two, or three where two would not have fragments of 64 rows.
pub const fn consumers(rows: usize) -> usize {
    if rows.is_multiple_of(2 * 64) { 2 } else { 3 }
}

/// Rows of tiles in a band of the tile order, unless a launch says otherwise.
pub const BAND: usize = 16;

/// Registers of each thread, once `setmaxnreg` has moved them.
pub struct Registers {
    /// Of the producer's warpgroup.
    pub producer: u32,
    /// Of the warpgroups that compute.
    pub consumer: u32,
}

/// The [`Registers`] of a block with `consumers` warpgroups that compute: 128·40 + 256·232 is what 384 threads have at 168,
/// 128·56 + 384·152 what 512 have at 128.
///
/// ptxas goes by what threads begin with when it asks whether a wgmma has the registers it wants (C7602), so that three
/// warpgroups cannot have more than 200 columns.
pub const fn registers(consumers: usize) -> Registers {
    if consumers > 2 { Registers { producer: 56, consumer: 152 } } else { Registers { producer: 40, consumer: 232 } }
}

/// Whether the loop over K is unrolled by laps of the ring: where four MMAs for each fragment of each stage, whose descriptors
/// take four uniform registers each, leave some of the 63 to the rest. (With three warpgroups it spills.)
pub const fn by_laps(stages: usize, fragments: usize, consumers: usize) -> bool {
    stages * fragments <= 3 && consumers == 2
}

#[cfg(target_arch = "nvptx64")]
pub(super) mod device {
    use super::{by_laps, registers};
    use crate::catalogue::{Tile, WARP, WARPGROUP};
    use crate::epilogue::{Output, Staging, finish_stores};
    use crate::mainloop::{Descriptors, mma_stage, multiply_by_laps, warpgroup};
    use crate::neighbours::{Clusters, Neighbours};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{control, shared, sreg, wgmma};
    use crate::shared::RingLayout;
    use crate::unroll::unroll;

    /// The kernel: C = A·Bᵀ. Tiles of C have `CONSUMERS`·`FRAGMENTS`·64 rows and `N` columns.
    ///
    /// `c_map` is the generic address of the tensor map of C, with the catalogue's box and swizzle; it is used
    /// only where C's rows are aligned for TMA.
    ///
    /// # Safety
    /// Launched as the catalogue says: a whole number of clusters, `k` ≥ 1, `band` ≥ 1, and maps and `out` that
    /// describe live memory.
    #[inline(always)]
    pub unsafe fn matmul<
        E: Mma<N>,
        const CONSUMERS: usize,
        const FRAGMENTS: usize,
        const N: usize,
        const K: usize,
        const STAGES: usize,
        const CM: usize,
        const CN: usize,
    >(
        a_map: u64,
        b_map: u64,
        c_map: u64,
        out: Output,
        k: u32,
        band: u32,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { loading::<E, CONSUMERS, FRAGMENTS, N, K, STAGES, CM, CN, true>(a_map, b_map, c_map, out, k, band) }
    }

    /// As [`matmul`]. With `LOADS` false the operands of the first stages stay in shared memory and nothing else is
    /// loaded: a wrong product at the speed that the tensor cores allow.
    ///
    /// # Safety
    /// As [`matmul`].
    #[inline(always)]
    pub unsafe fn loading<
        E: Mma<N>,
        const CONSUMERS: usize,
        const FRAGMENTS: usize,
        const N: usize,
        const K: usize,
        const STAGES: usize,
        const CM: usize,
        const CN: usize,
        const LOADS: bool,
    >(
        a_map: u64,
        b_map: u64,
        c_map: u64,
        out: Output,
        k: u32,
        band: u32,
    ) {
        let tile = const { Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K } };
        let layout = const {
            RingLayout::new(E::BYTES, Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K }, STAGES).with_staging(
                CONSUMERS,
                FRAGMENTS,
                E::BYTES,
                N,
            )
        };
        let blocks = Neighbours::<CM, CN>::BLOCKS;
        let base = shared::dynamic();
        let ring = Ring::<STAGES>::at(base + layout.barriers() as u32);
        let a_of = |stage: u32| base + stage * layout.stage_bytes() as u32;
        let b_of = |stage: u32| a_of(stage) + layout.a_bytes as u32;

        // The grid walks over clusters of tiles.
        let neighbours = Neighbours::<CM, CN>::here();
        let first = sreg::block_x() / blocks;
        let step = sreg::blocks_x() / blocks;
        let k_tiles = k.div_ceil(tile.k as u32);
        let tiles = Clusters::new(neighbours, &out, tile, band).in_patches(step, k_tiles);
        let clusters = tiles.count();
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let kept = tiles.kept::<E>(step, k_tiles);
        let thread = sreg::thread();
        // SAFETY: all threads of the cluster come here, each warp converged; the layout gives the barriers memory of their
        // own.
        unsafe { neighbours.begin(&ring, CONSUMERS, tiles.let_next_in(step, k_tiles)) };

        if thread >= (CONSUMERS * WARPGROUP) as u32 {
            // SAFETY: the producer warpgroup walks the ring as the consumers do, and one thread of it loads what stages
            // have been released for.
            unsafe {
                if CONSUMERS > 2 {
                    control::give_registers::<{ registers(3).producer }>();
                } else {
                    control::give_registers::<{ registers(2).producer }>();
                }
                if thread < (CONSUMERS * WARPGROUP + WARP) as u32 && control::elect() {
                    // ANCHOR: producer
                    let mut producer = ring.producer();
                    let mut filled = 0;
                    let mut index = first;
                    while index < clusters && (LOADS || filled < STAGES as u32) {
                        let (row, column) = tiles.corner(index);
                        for k_tile in 0..k_tiles {
                            if !LOADS && filled == STAGES as u32 {
                                break;
                            }
                            let stage = producer.acquire();
                            let (addresses, k) = ([a_of(stage), b_of(stage)], k_tile * tile.k as u32);
                            let at = [row, column, k];
                            neighbours.load::<E>(tile, [a_map, b_map], addresses, ring.full(stage), at, kept);
                            producer.advance();
                            filled += 1;
                        }
                        index += step;
                    }
                    // ANCHOR_END: producer
                    if LOADS {
                        producer.drain(filled);
                    }
                }
            }
        } else {
            // SAFETY: whole warps come here.
            let warpgroup = unsafe { warpgroup() };
            let in_group = thread % WARPGROUP as u32;
            // This warpgroup's share of the tile's rows.
            let share = warpgroup * (FRAGMENTS * 64) as u32;
            let releases = neighbours.releases(in_group);
            let describe =
                |stage: u32| Descriptors::of::<E, K>(a_of(stage) + share * (K * E::BYTES) as u32, b_of(stage));
            let release = |stage: u32| {
                if LOADS && releases {
                    // SAFETY: the MMAs that read the stage have finished; blocks of a cluster exit together.
                    unsafe { neighbours.release(ring.empty(stage), in_group) };
                }
            };
            let mut staging = Staging::<N>::of_layout(&layout, base, warpgroup, E::BYTES);
            let through_tma = out.takes_tma();

            // SAFETY: the producer warpgroup gives what the consumers take here.
            unsafe {
                if CONSUMERS > 2 {
                    control::take_registers::<{ registers(3).consumer }>();
                } else {
                    control::take_registers::<{ registers(2).consumer }>();
                }
            }
            // Zeroed once: the first MMA of each tile overwrites them.
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            let mut consumer = ring.consumer();
            let mut lap = consumer.lap();
            let mut index = first;
            while index < clusters {
                let last = if const { LOADS && by_laps(STAGES, FRAGMENTS, CONSUMERS) } {
                    // SAFETY: the producer fills as many stages for each tile; whole warps are here.
                    let last = unsafe {
                        multiply_by_laps::<E, FRAGMENTS, N, K, STAGES>(&mut d, lap, k_tiles, describe, release)
                    };
                    consumer.skip(k_tiles);
                    lap = consumer.lap();
                    last
                } else {
                    let mut previous = 0;
                    for k_tile in 0..k_tiles {
                        // SAFETY: as in v4; the stage of the ceiling's operands is full for ever once filled.
                        unsafe {
                            let stage = if LOADS { consumer.acquire() } else { consumer.acquire_first_fill() };
                            wgmma::fence();
                            mma_stage::<E, FRAGMENTS, N, K>(&mut d, &describe(stage), k_tile > 0);
                            wgmma::commit_group();
                            wgmma::wait_group::<1>();
                            if k_tile > 0 {
                                release(previous);
                            }
                            previous = stage;
                            consumer.advance();
                        }
                    }
                    previous
                };
                // Divisions take a hundred cycles; here the tensor cores are still busy.
                let (row, column) = control::computed_here(tiles.corner(index));
                wgmma::wait_group::<0>();
                release(last);

                unroll!(FRAGMENT in 0..FRAGMENTS => {
                    let row = row + share + 64 * FRAGMENT as u32;
                    // SAFETY: no MMA is in flight, and each warpgroup stores its own rows.
                    unsafe {
                        let d = d.get_unchecked(FRAGMENT).as_ref();
                        if through_tma {
                            staging.store_by_tma::<E>(d, c_map, row, column, kept.c);
                        } else {
                            staging.store::<E>(d, &out, row, column);
                        }
                    }
                });
                index += step;
            }
        }
        finish_stores();
        // SAFETY: all threads of the cluster come here.
        unsafe { neighbours.end() };
    }
}

compiled! { LARGE, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128]] [64] [4] [[1 x 1] [2 x 1] [1 x 2]] } }
compiled! { SHALLOW, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256]] [64] [3] [[1 x 1] [2 x 1]] } }
// Three warpgroups.
compiled! { ROWS192, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[192 x 192]] [64] [4] [[1 x 1] [1 x 2]] } }
compiled! { N192, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 192]] [64] [4] [[1 x 1] [2 x 1] [1 x 2]] } }
compiled! { N128, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 128]] [64] [6] [[1 x 1] [2 x 1] [1 x 2]] } }
// Widths between, one of which often fits a C to a whole number of turns.
compiled! { N64, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64]] [64] [6] [[1 x 1] [1 x 2]] } }
compiled! { N96, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 96]] [64] [6] [[1 x 1]] } }
compiled! { N144, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 144]] [64] [5] [[1 x 1]] } }
compiled! { N160, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 160]] [64] [5] [[1 x 1] [2 x 1]] } }
compiled! { N224, clustered_rows, clustered_entries { [[Persistent "persistent"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 224]] [64] [4] [[1 x 1] [2 x 1]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[LARGE, SHALLOW, ROWS192, N192, N128, N64, N96, N144, N160, N224];
