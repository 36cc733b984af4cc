//! Ping-pong: two warpgroups take turns at the tensor cores, each with a tile of its own.
//!
//! What changes from the persistent kernel:
//!
//! - A tile belongs to one warpgroup, and not to both. While one multiplies, the other stores, so that the epilogue is
//!   hidden however short K is.
//! - A turn is the whole of a tile's K. Two named barriers hand it over: whoever has issued the last MMAs of its tile
//!   arrives at the other's.
//! - A stage is read by one warpgroup, which releases it alone. The producer loads tile after tile as before, and does
//!   not know whose they are.
//! - A thread holds the accumulators of a tile that is half as large as one of both warpgroups, and so each byte loaded is
//!   used less often.
//!
//! ```text
//!  warpgroup 0   │ tile 0: MMA MMA MMA … │ store │         waits │ tile 2: MMA MMA MMA … │ store │
//!  warpgroup 1   │                waits  │ tile 1: MMA MMA MMA … │ store │         waits │ tile 3 …
//!  producer      │ loads of tile 0 │ loads of tile 1 …     │ loads of tile 2 …
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles, whoever loads them | the producer; TMA completes the bytes | the warpgroup whose turn it is | 0 |
//! | `empty[s]` | 1 for each block that reads what this producer writes | one thread of the warpgroup that has read it there | the producer | 1 |
//! | turn of a warpgroup, named | 256 | the other warpgroup, without waiting, once its turn is over; at the start for warpgroup 0 | the warpgroup | – |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::clustered_entries;
use crate::space::{clustered_rows, compiled};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 1;

/// Warpgroups that take turns.
pub const TURNS: usize = 2;

/// Rows of tiles in a band of the tile order, unless a launch says otherwise.
pub const BAND: usize = 16;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::TURNS;
    use crate::catalogue::{Tile, WARP, WARPGROUP};
    use crate::epilogue::{Output, Staging, finish_stores};
    use crate::mainloop::{Descriptors, mma_stage, warpgroup};
    use crate::matmul::persistent::registers;
    use crate::neighbours::{Clusters, Neighbours};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, control, shared, sreg, wgmma};
    use crate::shared::RingLayout;
    use crate::unroll::unroll;

    /// Threads of both consumer warpgroups.
    const CONSUMER_THREADS: u32 = (TURNS * WARPGROUP) as u32;

    // ANCHOR: turns
    /// Waits until it is the turn of warpgroup `warpgroup`.
    ///
    /// # Safety
    /// The warpgroup is together.
    #[inline(always)]
    unsafe fn wait_for_turn(warpgroup: u32) {
        // SAFETY: of the 256 threads half arrive and half wait.
        unsafe {
            match warpgroup {
                0 => barrier::sync_named::<3, CONSUMER_THREADS>(),
                _ => barrier::sync_named::<4, CONSUMER_THREADS>(),
            }
        }
    }

    /// Gives the turn to warpgroup `warpgroup`.
    ///
    /// # Safety
    /// The other warpgroup calls it, together, once before each time that `warpgroup` waits.
    #[inline(always)]
    unsafe fn give_turn(warpgroup: u32) {
        // SAFETY: as in `wait_for_turn`.
        unsafe {
            match warpgroup {
                0 => barrier::arrive_named::<3, CONSUMER_THREADS>(),
                _ => barrier::arrive_named::<4, CONSUMER_THREADS>(),
            }
        }
    }
    // ANCHOR_END: turns

    /// The kernel: C = A·Bᵀ. Tiles of C have `FRAGMENTS`·64 rows and `N` columns.
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
        let tile = const { Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K } };
        let layout = const {
            RingLayout::new(E::BYTES, Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K }, STAGES).with_staging(
                TURNS,
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

        // As in the persistent kernel.
        let neighbours = Neighbours::<CM, CN>::here();
        let tiles = Clusters::new(neighbours, &out, tile, band);
        let clusters = tiles.count();
        let first = sreg::block_x() / blocks;
        let step = sreg::blocks_x() / blocks;
        let k_tiles = k.div_ceil(tile.k as u32);
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let kept = tiles.kept::<E>(step, k_tiles);
        let thread = sreg::thread();
        // SAFETY: all threads of the cluster come here, each warp converged; the layout gives the barriers memory of their
        // own.
        unsafe { neighbours.begin(&ring, CONSUMERS, tiles.let_next_in(step, k_tiles)) };

        if thread >= CONSUMER_THREADS {
            // SAFETY: the producer warpgroup walks the ring as the consumers do, and one thread of it loads what stages
            // have been released for.
            unsafe {
                control::give_registers::<{ registers(TURNS).producer }>();
                if thread < CONSUMER_THREADS + WARP as u32 && control::elect() {
                    let mut producer = ring.producer();
                    let mut filled = 0;
                    let mut index = first;
                    while index < clusters {
                        let (row, column) = tiles.corner(index);
                        for k_tile in 0..k_tiles {
                            let stage = producer.acquire();
                            let (addresses, k) = ([a_of(stage), b_of(stage)], k_tile * tile.k as u32);
                            let at = [row, column, k];
                            neighbours.load::<E>(tile, [a_map, b_map], addresses, ring.full(stage), at, kept);
                            producer.advance();
                            filled += 1;
                        }
                        index += step;
                    }
                    producer.drain(filled);
                }
            }
        } else {
            // SAFETY: whole warps come here.
            let warpgroup = unsafe { warpgroup() };
            let other = 1 - warpgroup;
            let in_group = thread % WARPGROUP as u32;
            let releases = neighbours.releases(in_group);
            let release = |stage: u32| {
                if releases {
                    // SAFETY: the MMAs that read the stage have finished; blocks of a cluster exit together.
                    unsafe { neighbours.release(ring.empty(stage), in_group) };
                }
            };
            let mut staging = Staging::<N>::of_layout(&layout, base, warpgroup, E::BYTES);
            let through_tma = out.takes_tma();

            // SAFETY: the producer warpgroup gives what the two consumers take here; the first turn is warpgroup 0's.
            unsafe {
                control::take_registers::<{ registers(TURNS).consumer }>();
                if warpgroup != 0 {
                    give_turn(0);
                }
            }
            // Zeroed once: the first MMA of each tile overwrites them.
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            let mut consumer = ring.consumer();
            let mut turn = 0;
            let mut index = first;
            while index < clusters {
                if turn == warpgroup {
                    let mut previous = 0;
                    // SAFETY: the warpgroup is together. In its turn it meets each filling of a stage in order, which the
                    // parity of a barrier alone would not tell from the one two laps later.
                    unsafe { wait_for_turn(warpgroup) };
                    for k_tile in 0..k_tiles {
                        // SAFETY: as in v4.
                        unsafe {
                            let stage = consumer.acquire();
                            wgmma::fence();
                            mma_stage::<E, FRAGMENTS, N, K>(
                                &mut d,
                                &Descriptors::of::<E, K>(a_of(stage), b_of(stage)),
                                k_tile > 0,
                            );
                            wgmma::commit_group();
                            wgmma::wait_group::<1>();
                            if k_tile > 0 {
                                release(previous);
                            }
                            previous = stage;
                            consumer.advance();
                        }
                    }
                    // The last MMAs are still running: the other warpgroup's follow them without a gap.
                    // SAFETY: as above.
                    unsafe { give_turn(other) };
                    let (row, column) = control::computed_here(tiles.corner(index));
                    wgmma::wait_group::<0>();
                    release(previous);

                    unroll!(FRAGMENT in 0..FRAGMENTS => {
                        let row = row + 64 * FRAGMENT as u32;
                        // SAFETY: no MMA is in flight, and each warpgroup stores its own tiles.
                        unsafe {
                            let d = d.get_unchecked(FRAGMENT).as_ref();
                            if through_tma {
                                staging.store_by_tma::<E>(d, c_map, row, column, kept.c);
                            } else {
                                staging.store::<E>(d, &out, row, column);
                            }
                        }
                    });
                } else {
                    consumer.skip(k_tiles);
                }
                turn = 1 - turn;
                index += step;
                // No block leaves with threads counted at a named barrier: the turn that does not come is taken. Here and not
                // behind the loop, for the reason that `finish_stores` gives.
                if index >= clusters && turn == warpgroup {
                    // SAFETY: as above.
                    unsafe { wait_for_turn(warpgroup) };
                }
            }
        }
        finish_stores();
        // SAFETY: all threads of the cluster come here.
        unsafe { neighbours.end() };
    }
}

compiled! { N128, clustered_rows, clustered_entries { [[PingPong "pingpong"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 128]] [64] [5] [[1 x 1]] } }
compiled! { N192, clustered_rows, clustered_entries { [[PingPong "pingpong"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 192]] [64] [4] [[1 x 1] [2 x 1] [1 x 2]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[N128, N192];
