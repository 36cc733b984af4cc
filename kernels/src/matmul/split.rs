//! Split: several blocks share the K of one tile.
//!
//! What changes from v4: a small C has fewer tiles than the device has multiprocessors, and most of them would
//! stand idle. So the blocks of a cluster compute the same tile, each over its tiles of K, and add up what they
//! have through each other's shared memory ("distributed shared memory"): block r sums slice r of the columns
//! over all blocks, always in the same order, so that the result is the same bits each time.
//!
//! ```text
//!  tiles of K     0, 4, 8, …      1, 5, 9, …      2, 6, 10, …     3, 7, 11, …
//!                 block 0         block 1         block 2         block 3          one cluster, one tile of C
//!                    │               │               │               │
//!  exchange      f32 partial     f32 partial     f32 partial     f32 partial       in shared memory
//!                    └───────┬───────┴───────┬───────┴───────┬───────┘
//!                        cluster barrier: all partials are written
//!  columns of C   slice 0         slice 1         slice 2         slice 3          read from all four, summed
//! ```
//!
//! A cluster has at most eight blocks. Where a launch says that a tile has `parts` clusters and not one, each takes
//! its share of K, and they meet through global memory ([`crate::workspace`]), slice by slice and warp by warp. There
//! is no second kernel: once all have come, each part sums some octets of columns over all, always in the order of the
//! parts. Who has waited too long leaves that to the last to come, so that no grid depends on another to make room.
//!
//! ```text
//!  tiles of K     0, 3, 6, …         1, 4, 7, …         2, 5, 8, …
//!                 cluster 0          cluster 1          cluster 2                  of one block; parts = 3, one tile of C
//!                    │ sums             │ sums             │ sums                  of each slice, as above
//!  partials       part 0             part 1             part 2                     in global memory
//!                    └────────┬─────────┴────────┬─────────┘
//!                    meeting of each slice and warp: all partials are there
//!  octets of C    0, 3, 6, …         1, 4, 7, …         2, 5, 8, …                 part 0 + part 1 + part 2, to C
//! ```
//!
//! wgmma computes 64 rows at a time. Where C has a few only, most of them would be rows of zeros, which take as much
//! room in the ring as rows of A, and as long to add up. So tiles of fewer rows have their operands swapped: the MMAs
//! compute Cᵀ = B·Aᵀ, with 64 columns of C as their rows, and the epilogue transposes ([`Tile::is_swapped`]). Below,
//! D is what they compute, C or Cᵀ.
//!
//! [`Tile::is_swapped`]: crate::catalogue::Tile::is_swapped
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles | the producer; TMA completes the bytes | consumers | 0 |
//! | `empty[s]` | 128 | every consumer thread | the producer | 1 |
//! | cluster, first | all threads | all | all | – |
//! | cluster, last | all threads | all: no block leaves while a peer reads its partial sums | all | – |
//! | meeting of a slice and warp, where `parts` > 1 | `parts` | one lane of the warp in each part | the same, but not for ever | – |

use crate::catalogue::Config;
use crate::space::compiled;
#[cfg(target_arch = "nvptx64")]
use crate::space::split_entries;
use crate::space::split_rows;

/// Warpgroups that share the rows of what the MMAs compute.
pub const CONSUMERS: usize = 1;

/// Rows of tiles in a band, unless a launch says otherwise.
pub const BAND: usize = 16;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::{Tile, WARPGROUP};
    use crate::epilogue::{Output, Staging};
    use crate::mainloop::{Descriptors, mma_stage};
    use crate::meeting::{Meeting, Parts};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::{Mma, MmaElement};
    use crate::ptx::{barrier, cluster, control, fence, mbarrier, shared, sreg, tma, wgmma};
    use crate::shared::RingLayout;
    use crate::tile_order::banded;
    use crate::unroll::{unroll, unroll_wide};
    use crate::workspace::share;

    const CONSUMER_THREADS: u32 = (CONSUMERS * WARPGROUP) as u32;

    /// Stores fragment `fragment` of D, of `SLICE` columns. `corner` is the row and the column of C that element (0, 0)
    /// of fragment 0 goes to.
    ///
    /// # Safety
    /// As [`Staging::store`].
    #[inline(always)]
    unsafe fn store<E: MmaElement, const SLICE: usize, const SWAPPED: bool>(
        staging: &mut Staging<SLICE>,
        out: &Output,
        (row, column): (u32, u32),
        fragment: usize,
        d: &[f32],
    ) {
        let further = 64 * fragment as u32;
        // SAFETY: as promised by the caller.
        unsafe {
            if SWAPPED {
                staging.store_transposed::<E>(d, out, row, column + further);
            } else {
                staging.store::<E>(d, out, row + further, column);
            }
        }
    }

    /// The kernel: C = A·Bᵀ for one tile of C per `parts.parts` clusters of `SPLITS` blocks. Of the tile, the MMAs
    /// compute D of `FRAGMENTS`·64 rows and `N` columns, which is the tile or, where `SWAPPED`, its transpose; each
    /// block sums `SLICE` = `N` / `SPLITS` columns of D.
    ///
    /// # Safety
    /// Launched as the catalogue says: `parts.parts` ≥ 1 clusters for each tile of C, `k` ≥ 1, `band` ≥ 1, and maps
    /// and `out` that describe live memory; so do the pointers of `parts` where it has more than one, with all
    /// meetings at zero and as much of both as [`crate::workspace`] says, which no other grid uses meanwhile.
    #[inline(always)]
    pub unsafe fn matmul<
        E: Mma<N>,
        const FRAGMENTS: usize,
        const N: usize,
        const SLICE: usize,
        const K: usize,
        const STAGES: usize,
        const SPLITS: usize,
        const SWAPPED: bool,
    >(
        a_map: u64,
        b_map: u64,
        out: Output,
        k: u32,
        band: u32,
        parts: Parts,
    ) {
        const { assert!(SLICE * SPLITS == N) }
        let tile = const {
            let rows = FRAGMENTS * 64;
            if SWAPPED { Tile { m: N, n: rows, k: K } } else { Tile { m: rows, n: N, k: K } }
        };
        let layout = const {
            let rows = FRAGMENTS * 64;
            let tile = if SWAPPED { Tile { m: N, n: rows, k: K } } else { Tile { m: rows, n: N, k: K } };
            RingLayout::new(E::BYTES, tile, STAGES).with_exchange(tile, SPLITS).with_overlaid_staging(
                CONSUMERS,
                E::BYTES,
                SLICE,
            )
        };
        let base = shared::dynamic();
        let ring = Ring::<STAGES>::at(base + layout.barriers() as u32);
        let a_of = |stage: u32| base + stage * layout.stage_bytes() as u32;
        let b_of = |stage: u32| a_of(stage) + layout.a_bytes as u32;

        // The tile of C that this cluster computes, with which others, and the tiles of K that are this block's.
        // Clusters with the same part of K follow each other: what they read at the same time are the same rows of A and
        // B, whose requests the hardware merges.
        // ANCHOR: part
        let index = sreg::block_x() / SPLITS as u32;
        let rank = if SPLITS > 1 { cluster::rank() } else { 0 };
        let (tiles_m, tiles_n) = (out.m.div_ceil(tile.m as u32), out.n.div_ceil(tile.n as u32));
        let (splits, all_k_tiles) = (SPLITS as u32, k.div_ceil(tile.k as u32));
        let (number, part, k_tiles) = match parts.parts {
            // Without divisions by what is known only now: a small product is short.
            1 => (index, 0, share(all_k_tiles, rank, splits)),
            parts => {
                let tiles = tiles_m * tiles_n;
                let part = index / tiles;
                (index % tiles, part, share(all_k_tiles, part * splits + rank, parts * splits))
            }
        };
        // The first of this block's tiles of K, and the distance to the next.
        let (first, step) = (part * splits + rank, parts.parts * splits);
        // ANCHOR_END: part
        let (tile_row, tile_column) = banded(number, tiles_m, tiles_n, band);
        let (row, column) = (tile_row * tile.m as u32, tile_column * tile.n as u32);

        let thread = sreg::thread();
        if thread == 0 {
            // SAFETY: the layout gives the barriers memory of their own; nobody uses them before the
            // block-wide barrier below.
            unsafe { ring.init(CONSUMER_THREADS) };
            fence::mbarrier_init();
        }
        // SAFETY: all threads of the block come here, each warp converged again.
        unsafe { barrier::sync_block() };
        // The set-up so far overlaps with the end of the grid before; memory is touched from here on. That the grid
        // before is complete is also why grids of a stream may use the same workspace.
        control::launch_dependents();
        control::wait_for_prerequisites();

        // This block's slice of D, where it goes, and the meeting about it.
        let slice = rank * SLICE as u32;
        let corner = if SWAPPED { (row + slice, column) } else { (row, column + slice) };
        let meeting = || Meeting::<FRAGMENTS, SLICE>::new(&parts, part, number * SPLITS as u32 + rank);

        if thread >= CONSUMER_THREADS {
            // SAFETY: the producer warp walks the ring as the consumers do; the bytes announced are those of
            // the two boxes; the warp is converged at `elect`.
            unsafe {
                let mut producer = ring.producer();
                for turn in 0..k_tiles {
                    let stage = producer.acquire();
                    if control::elect() {
                        let (full, column_k) = (ring.full(stage), ((first + turn * step) * tile.k as u32) as i32);
                        mbarrier::arrive_expect_tx(full, layout.stage_bytes() as u32);
                        tma::load_2d(a_of(stage), a_map, column_k, row as i32, full, None);
                        tma::load_2d(b_of(stage), b_map, column_k, column as i32, full, None);
                    }
                    producer.advance();
                }
                producer.drain(k_tiles);
            }
        } else {
            // Zeros and not a first MMA that overwrites: a block without a part of K has them to add.
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            let mut consumer = ring.consumer();
            // The stage whose MMAs may still be running.
            let mut previous = 0;
            for turn in 0..k_tiles {
                // SAFETY: as in v4.
                unsafe {
                    let stage = consumer.acquire();
                    wgmma::fence();
                    let (left, right) = if SWAPPED { (b_of(stage), a_of(stage)) } else { (a_of(stage), b_of(stage)) };
                    mma_stage::<E, FRAGMENTS, N, K>(&mut d, &Descriptors::of::<E, K>(left, right), true);
                    wgmma::commit_group();
                    wgmma::wait_group::<1>();
                    if turn > 0 {
                        mbarrier::arrive(ring.empty(previous));
                    }
                    previous = stage;
                    consumer.advance();
                }
            }
            wgmma::wait_group::<0>();
            // SAFETY: the last stage's MMAs have finished. Then all four warps have read the ring to its end, and
            // what lies over it may be written.
            unsafe {
                if k_tiles > 0 {
                    mbarrier::arrive(ring.empty(previous));
                }
                barrier::sync_named::<1, CONSUMER_THREADS>();
            }
            if SPLITS == 1 {
                // SAFETY: the warpgroup comes here, and each block stores its own tile, or leaves its own part of it.
                unsafe {
                    let mut staging = Staging::<SLICE>::new(base + layout.staging() as u32, 0, E::BYTES);
                    unroll!(FRAGMENT in 0..FRAGMENTS => {
                        let d = d.get_unchecked(FRAGMENT).as_ref();
                        if parts.parts == 1 {
                            store::<E, SLICE, SWAPPED>(&mut staging, &out, corner, FRAGMENT, d);
                        } else {
                            meeting().leave(FRAGMENT, d);
                        }
                    });
                }
            } else {
                // ANCHOR: partial
                unroll!(FRAGMENT in 0..FRAGMENTS => {
                    unroll_wide!(OCTET in 0..N / 8 => {
                        // SAFETY: the exchange area has 16 bytes for each octet of each thread.
                        unsafe {
                            let d = d.get_unchecked(FRAGMENT).as_ref().as_ptr().add(4 * OCTET).cast::<[f32; 4]>();
                            shared::store_x4(base + layout.exchanged(N / 8, thread, FRAGMENT, OCTET), *d);
                        }
                    });
                });
                // ANCHOR_END: partial
            }
        }

        // ANCHOR: exchange
        if SPLITS > 1 {
            // SAFETY: all threads of the cluster come here, and again at the end. In between the partial sums of
            // all blocks are written and stay; each warpgroup stores its own slice.
            unsafe {
                cluster::sync();
                if thread < CONSUMER_THREADS {
                    let mut staging = Staging::<SLICE>::new(base + layout.staging() as u32, 0, E::BYTES);
                    unroll!(FRAGMENT in 0..FRAGMENTS => {
                        let mut sum = [[0f32; 4]; 16];
                        let own = base + layout.exchanged(N / 8, thread, FRAGMENT, 0) + slice / 8 * layout.octet_bytes();
                        unroll!(PEER in 0..SPLITS => {
                            let partial = cluster::map_shared(own, PEER as u32);
                            unroll_wide!(OCTET in 0..SLICE / 8 => {
                                let [s0, s1, s2, s3] = *sum.get_unchecked(OCTET);
                                let [d0, d1, d2, d3] = cluster::load_x4(partial + OCTET as u32 * layout.octet_bytes());
                                *sum.get_unchecked_mut(OCTET) = [s0 + d0, s1 + d1, s2 + d2, s3 + d3];
                            });
                        });
                        if parts.parts == 1 {
                            store::<E, SLICE, SWAPPED>(&mut staging, &out, corner, FRAGMENT, sum.as_flattened());
                        } else {
                            meeting().leave(FRAGMENT, sum.as_flattened());
                        }
                    });
                }
                cluster::sync();
            }
        }
        // ANCHOR_END: exchange

        // ANCHOR: meeting
        if parts.parts > 1 && thread < CONSUMER_THREADS {
            let meeting = meeting();
            // SAFETY: each warp of the warpgroup comes here together, having left its sums of all fragments; what a
            // share is of is stored by whoever has it, and nobody else.
            unsafe {
                let outcome = meeting.attend();
                meeting.conclude::<E, SWAPPED>(outcome, &out, corner);
            }
        }
        // ANCHOR_END: meeting
    }
}

// Rings that leave room for two blocks on a multiprocessor, and rings that fill it: a product that is bound by
// memory wants as many bytes on their way as there is room for, and one wave of blocks; so the widths are many.
compiled! { N32, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 32]] [64] [8] [1 2] } }
compiled! { N32_DEEP, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 32]] [64] [16] [1] } }
compiled! { N48, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 48]] [64] [8 14] [1] } }
compiled! { N64, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 64]] [64] [6] [1 2 4] } }
compiled! { N64_DEEP, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 64]] [64] [12] [1 2] } }
compiled! { N96, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 96]] [64] [5 10] [1 2] } }
compiled! { N112, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 112]] [64] [5 9] [1] } }
compiled! { N128, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 128]] [64] [4 8] [1 2 4 8] } }
compiled! { N224, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 224]] [64] [6] [1 2] } }
compiled! { N256, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 256]] [64] [5] [1 2 4 8] } }
compiled! { TALL_N48, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 48]] [64] [9] [1] } }
compiled! { TALL_N64, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64]] [64] [4 8] [1 2 4] } }
compiled! { TALL_N96, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 96]] [64] [7] [1 2] } }
compiled! { SQUARE, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 128]] [64] [3 6] [1 2 4 8] } }
// For few rows.
compiled! { M16_N64, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[16 x 64]] [64] [10 20] [1 2] } }
compiled! { M16_N128, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[16 x 128]] [64] [12] [1 2] } }
compiled! { M16_N192, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[16 x 192]] [64] [8] [1 2] } }
compiled! { M32_N64, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[32 x 64]] [64] [9 18] [1 2] } }
compiled! { M32_N128, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[32 x 128]] [64] [11] [1 2] } }
compiled! { M32_N192, split_rows, split_entries { [[Split "split"]] [[F16 "f16"] [Bf16 "bf16"]] [[32 x 192]] [64] [8] [1 2] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[
    M16_N64, M16_N128, M16_N192, M32_N64, M32_N128, M32_N192, N32, N32_DEEP, N48, N64, N64_DEEP, N96, N112, N128, N224,
    N256, TALL_N48, TALL_N64, TALL_N96, SQUARE,
];
