//! Wide: tiles of 256 rows, for which a producer leaves too few registers.
//!
//! What changes from the persistent kernel:
//!
//! - There is no producer. A block has two warpgroups and nothing else, so that a thread may have 255 registers, of which
//!   up to 208 hold accumulators. With a producer warpgroup beside them ptxas spilled what is above 128 (see the worklog).
//! - One thread of the first warpgroup loads. Whenever its warpgroup has released a stage, it waits until all others have,
//!   and fills it with what is as many stages further as the ring has; the tensor cores are busy with the next stage
//!   meanwhile.
//!
//! A tile of 256×192 loads a fifth less for each multiply-add than one of 128×256. That saves power, which bounds large
//! products, and requests, of which there are twice as many where rows straddle lines. The persistent kernel hides its
//! loads and its epilogue better.
//!
//! ```text
//!  warpgroup 0   │ MMA 0 │ release 0, fill it again │ MMA 1 │ release 1, fill it again │ MMA 2 …
//!  warpgroup 1   │ MMA 0 │ release 0 │ MMA 1 │ release 1 │ MMA 2 …
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles, whoever loads them | thread 0; TMA completes the bytes | both warpgroups | 0 |
//! | `empty[s]` | 2 for each block that reads what this one writes | one thread of each warpgroup there | thread 0 | 1 |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::clustered_entries;
use crate::space::{clustered_rows, compiled};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 2;

/// Rows of tiles in a band of the tile order, unless a launch says otherwise.
pub const BAND: usize = 8;

#[cfg(target_arch = "nvptx64")]
mod device {
    use crate::catalogue::{Tile, WARPGROUP};
    use crate::epilogue::{Output, Staging, finish_stores};
    use crate::mainloop::{Descriptors, mma_stage, warpgroup};
    use crate::neighbours::{Clusters, Neighbours};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, control, shared, sreg, wgmma};
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
        let loads = thread == 0;
        // SAFETY: all threads of the cluster come here, each warp converged; the layout gives the barriers memory of their
        // own.
        unsafe { neighbours.begin(&ring, CONSUMERS, tiles.let_next_in(step, k_tiles)) };

        // ANCHOR: load_next
        // What is loaded next: which tile, where it begins, and which of its tiles of K.
        let (mut ahead, mut ahead_k_tile, mut ahead_corner) = (first, 0, tiles.corner(first));
        let mut producer = ring.producer();
        let mut load_next = || {
            // SAFETY: one thread of each block comes here, for each tile of K of each of its tiles. A stage is acquired
            // once all that read its last filling have released it.
            unsafe {
                let stage = producer.acquire();
                let (addresses, k) = ([a_of(stage), b_of(stage)], ahead_k_tile * tile.k as u32);
                let (row, column) = ahead_corner;
                let at = [row, column, k];
                neighbours.load::<E>(tile, [a_map, b_map], addresses, ring.full(stage), at, kept);
            }
            producer.advance();
            ahead_k_tile += 1;
            if ahead_k_tile == k_tiles {
                (ahead, ahead_k_tile) = (ahead + step, 0);
                if ahead < clusters {
                    ahead_corner = tiles.corner(ahead);
                }
            }
            ahead < clusters
        };
        let mut more = first < clusters;
        if loads {
            let mut filled = 0;
            while more && filled < STAGES {
                more = load_next();
                filled += 1;
            }
        }
        // ANCHOR_END: load_next

        // SAFETY: whole warps come here.
        let warpgroup = unsafe { warpgroup() };
        let in_group = thread % WARPGROUP as u32;
        // This warpgroup's share of the tile's rows.
        let share = warpgroup * (FRAGMENTS * 64) as u32;
        let releases = neighbours.releases(in_group);
        // ANCHOR: release
        // Releases a stage whose MMAs have finished. The thread that loads then fills the next stage, which is the same.
        let mut release = |stage: u32| {
            // SAFETY: as said; blocks of a cluster exit together. Each warp comes here converged, and leaves so.
            unsafe {
                if releases {
                    neighbours.release(ring.empty(stage), in_group);
                }
                if loads && more {
                    more = load_next();
                }
                barrier::sync_warp();
            }
        };
        // ANCHOR_END: release
        let mut staging = Staging::<N>::of_layout(&layout, base, warpgroup, E::BYTES);
        let through_tma = out.takes_tma();

        // Zeroed once: the first MMA of each tile overwrites them.
        // SAFETY: all-zero bits are valid f32 values.
        let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
        let mut consumer = ring.consumer();
        let mut index = first;
        while index < clusters {
            let mut previous = 0;
            for k_tile in 0..k_tiles {
                // SAFETY: as in v4.
                unsafe {
                    let stage = consumer.acquire();
                    wgmma::fence();
                    let a = a_of(stage) + share * (K * E::BYTES) as u32;
                    mma_stage::<E, FRAGMENTS, N, K>(&mut d, &Descriptors::of::<E, K>(a, b_of(stage)), k_tile > 0);
                    wgmma::commit_group();
                    wgmma::wait_group::<1>();
                    if k_tile > 0 {
                        release(previous);
                    }
                    previous = stage;
                    consumer.advance();
                }
            }
            // Divisions take a hundred cycles; here the tensor cores are still busy.
            let (row, column) = control::computed_here(tiles.corner(index));
            wgmma::wait_group::<0>();
            release(previous);

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
        finish_stores();
        // SAFETY: all threads of the cluster come here.
        unsafe { neighbours.end() };
    }
}

compiled! { N160, clustered_rows, clustered_entries { [[Wide "wide"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 160]] [64] [4] [[1 x 1] [1 x 2]] } }
compiled! { N176, clustered_rows, clustered_entries { [[Wide "wide"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 176]] [64] [3] [[1 x 1] [1 x 2]] } }
compiled! { N192, clustered_rows, clustered_entries { [[Wide "wide"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 192]] [64] [3] [[1 x 1] [1 x 2]] } }
compiled! { N200, clustered_rows, clustered_entries { [[Wide "wide"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 200]] [64] [3] [[1 x 1] [1 x 2]] } }
compiled! { N208, clustered_rows, clustered_entries { [[Wide "wide"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 208]] [64] [3] [[1 x 1]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[N160, N176, N192, N200, N208];
