//! Parts: the K of each tile shared by blocks that have nothing else in common, and tiles of one part side by side.
//!
//! What changes from split: where C has a few tiles and K is long, what bounds split is not DRAM but what the L2 delivers to
//! the multiprocessors. So here tiles are as large as two warpgroups can hold, and the blocks of one part, which read
//! the same rows of A and B, are to be neighbours on the chip, where requests for the same lines are merged. They follow each
//! other in the grid, which places them so, unless the grid before has let this one in early. Or they are a
//! cluster: each block loads a part of the operand that they share, and multicasts it, as in the persistent kernel.
//! Clusters, of one block or several, share K as the *parts* of their tiles, and meet through global memory as those
//! of split do ([`crate::workspace`]).
//!
//! ```text
//!  tiles of K     0, 3, 6, …          1, 4, 7, …          2, 5, 8, …
//!                 cluster 0           cluster 1           cluster 2           parts = 3, the same two tiles of C
//!                 block 0 ◄─B─► 1     block 0 ◄─B─► 1     block 0 ◄─B─► 1     each loads half of their tile of B
//!                    │      │            │      │            │      │
//!  partials       part 0, each        part 1, each        part 2, each        in global memory
//!                    └──────┬────────────┴──────┬────────────┘
//!                     meeting of each warp: all partials of its rows are there
//!  octets of C    0, 3, 6, …          1, 4, 7, …          2, 5, 8, …          part 0 + part 1 + part 2, to C
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles, whoever loads them | the producer; TMA completes the bytes | both warpgroups | 0 |
//! | `empty[s]` | 2 for each block that reads what this producer writes | one thread of each warpgroup there | the producer | 1 |
//! | cluster, last | all threads | all: no block leaves while a peer may write to it | all | – |
//! | meeting of a warp's rows, where `parts` > 1 | `parts` | one lane of the warp in each part | the same, but not for ever | – |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::parted_entries;
use crate::space::{clustered_rows, compiled};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 2;

/// Rows of tiles in a band, unless a launch says otherwise.
pub const BAND: usize = 16;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::{Tile, WARPGROUP};
    use crate::epilogue::{Output, Staging};
    use crate::mainloop::{Descriptors, mma_stage, warpgroup};
    use crate::meeting::{Meeting, Parts};
    use crate::neighbours::{Clusters, Kept, Neighbours};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, control, shared, sreg, wgmma};
    use crate::shared::RingLayout;
    use crate::unroll::unroll;
    use crate::workspace::share;

    const CONSUMER_THREADS: u32 = (CONSUMERS * WARPGROUP) as u32;

    /// The kernel: C = A·Bᵀ for `CM`×`CN` tiles of C per `parts.parts` clusters. Tiles have
    /// `CONSUMERS`·`FRAGMENTS`·64 rows and `N` columns.
    ///
    /// # Safety
    /// Launched as the catalogue says: `parts.parts` ≥ 1 clusters for each cluster of tiles, `k` ≥ 1, `band` ≥ 1, and
    /// maps and `out` that describe live memory; so do the pointers of `parts` where it has more than one, with all
    /// meetings at zero and as much of both as [`crate::workspace`] says, which no other grid uses meanwhile.
    #[inline(always)]
    pub unsafe fn matmul<
        E: Mma<N>,
        const FRAGMENTS: usize,
        const N: usize,
        const K: usize,
        const STAGES: usize,
        const CM: usize,
        const CN: usize,
    >(
        a_map: u64,
        b_map: u64,
        out: Output,
        k: u32,
        band: u32,
        parts: Parts,
    ) {
        let tile = const { Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K } };
        let layout =
            const {
                RingLayout::new(E::BYTES, Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K }, STAGES)
                    .with_overlaid_staging(CONSUMERS, E::BYTES, N)
            };
        let blocks = Neighbours::<CM, CN>::BLOCKS;
        let base = shared::dynamic();
        let ring = Ring::<STAGES>::at(base + layout.barriers() as u32);
        let a_of = |stage: u32| base + stage * layout.stage_bytes() as u32;
        let b_of = |stage: u32| a_of(stage) + layout.a_bytes as u32;

        // Clusters with the same part of K follow each other, as in split.
        let neighbours = Neighbours::<CM, CN>::here();
        let tiles = Clusters::new(neighbours, &out, tile, band);
        let clusters = tiles.count();
        let index = sreg::block_x() / blocks;
        let (number, part) = (index % clusters, index / clusters);
        let k_tiles = share(k.div_ceil(tile.k as u32), part, parts.parts);
        let (row, column) = tiles.corner(number);

        let thread = sreg::thread();
        // SAFETY: all threads of the cluster come here, each warp converged; the layout gives the barriers memory of their
        // own. That the grid before is complete then is also why grids of a stream may use the same workspace.
        // Single blocks of one part, which share rows of A and B, should land side by side.
        unsafe { neighbours.begin(&ring, CONSUMERS, blocks > 1) };

        if thread >= CONSUMER_THREADS {
            // SAFETY: the producer warp walks the ring as the consumers do, and one thread of it loads what stages have
            // been released for.
            unsafe {
                if control::elect() {
                    let mut producer = ring.producer();
                    for turn in 0..k_tiles {
                        let stage = producer.acquire();
                        let (addresses, k) = ([a_of(stage), b_of(stage)], (part + turn * parts.parts) * tile.k as u32);
                        let at = [row, column, k];
                        neighbours.load::<E>(tile, [a_map, b_map], addresses, ring.full(stage), at, Kept::UNTOLD);
                        producer.advance();
                    }
                    producer.drain(k_tiles);
                }
            }
        } else {
            // SAFETY: whole warps come here.
            let warpgroup = unsafe { warpgroup() };
            let in_group = thread % WARPGROUP as u32;
            // This warpgroup's share of the tile's rows.
            let rows = warpgroup * (FRAGMENTS * 64) as u32;
            let releases = neighbours.releases(in_group);
            let release = |stage: u32| {
                if releases {
                    // SAFETY: the MMAs that read the stage have finished; blocks of a cluster exit together.
                    unsafe { neighbours.release(ring.empty(stage), in_group) };
                }
            };
            // Zeros and not a first MMA that overwrites: a block without a part of K has them to add.
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            let mut consumer = ring.consumer();
            let mut previous = 0;
            for turn in 0..k_tiles {
                // SAFETY: as in v4.
                unsafe {
                    let stage = consumer.acquire();
                    wgmma::fence();
                    let a = a_of(stage) + rows * (K * E::BYTES) as u32;
                    mma_stage::<E, FRAGMENTS, N, K>(&mut d, &Descriptors::of::<E, K>(a, b_of(stage)), true);
                    wgmma::commit_group();
                    wgmma::wait_group::<1>();
                    if turn > 0 {
                        release(previous);
                    }
                    previous = stage;
                    consumer.advance();
                }
            }
            wgmma::wait_group::<0>();
            if k_tiles > 0 {
                release(previous);
            }

            // ANCHOR: epilogue
            // A tile has a slice for each warpgroup, which has the rows of it.
            let tile_number = number * blocks + neighbours.number();
            let meeting = Meeting::<FRAGMENTS, N>::new(&parts, part, tile_number * CONSUMERS as u32 + warpgroup);
            // SAFETY: each warpgroup stores its own rows, through staging buffers over the ring, of which both have read
            // all that is ever written to it once they have met; or it leaves its own part of them, each warp of it comes
            // to the meeting, and what a share is of is stored by whoever has it.
            unsafe {
                if parts.parts == 1 {
                    barrier::sync_named::<3, CONSUMER_THREADS>();
                }
                let mut staging = Staging::<N>::new(base + layout.staging() as u32, warpgroup, E::BYTES);
                unroll!(FRAGMENT in 0..FRAGMENTS => {
                    let d = d.get_unchecked(FRAGMENT).as_ref();
                    if parts.parts == 1 {
                        staging.store::<E>(d, &out, row + rows + 64 * FRAGMENT as u32, column);
                    } else {
                        meeting.leave(FRAGMENT, d);
                    }
                });
                if parts.parts > 1 {
                    let outcome = meeting.attend();
                    meeting.conclude::<E, false>(outcome, &out, (row + rows, column));
                }
            }
            // ANCHOR_END: epilogue
        }
        // SAFETY: all threads of the cluster come here.
        unsafe { neighbours.end() };
    }
}

compiled! { N64, clustered_rows, parted_entries { [[Parts "parts"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64]] [64] [9] [[1 x 1] [1 x 2]] } }
compiled! { N128, clustered_rows, parted_entries { [[Parts "parts"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 128]] [64] [6] [[1 x 1] [2 x 1] [1 x 2] [2 x 2]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[N64, N128];
