//! V5: two consumer warpgroups.
//!
//! What changes from v4: the rows of the tile are split between two warpgroups, and both multiply with the
//! same tile of B. A block of 288 threads computes a tile twice as large without more accumulators a
//! thread, so a byte loaded is used twice as often: 128×256 needs 3/4 of the traffic of 128×128, and
//! while one warpgroup waits at a barrier the other keeps the tensor cores busy.
//!
//! ```text
//!                  ┌──────────── B[s]: N × K ────────────┐
//!  ┌ A[s] ┐        │                                     │
//!  │ rows │ warpgroup 0: threads   0–127 ─► upper half of C's tile
//!  │ rows │ warpgroup 1: threads 128–255 ─► lower half of C's tile
//!  └──────┘        └─────────────────────────────────────┘
//!           producer warp: threads 256–287
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles | the producer; TMA completes the bytes | both warpgroups | 0 |
//! | `empty[s]` | 256 | every consumer thread | the producer | 1 |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::entries;
use crate::space::{compiled, product, rows};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 2;

/// Rows of tiles in a band, unless a launch says otherwise.
pub const BAND: usize = 16;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::{Tile, WARPGROUP};
    use crate::epilogue::{Output, Staging};
    use crate::mainloop::{Descriptors, mma_stage};
    use crate::pipeline::Ring;
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, control, fence, mbarrier, shared, sreg, tma, wgmma};
    use crate::shared::RingLayout;
    use crate::tile_order::banded;
    use crate::unroll::unroll;

    /// Threads that consume.
    const CONSUMER_THREADS: u32 = (CONSUMERS * WARPGROUP) as u32;

    /// The kernel: C = A·Bᵀ for one tile of C of `CONSUMERS`·`FRAGMENTS`·64 rows and `N` columns per block.
    ///
    /// # Safety
    /// As v3's, with the catalogue's launch for v5; `band` ≥ 1.
    #[inline(always)]
    pub unsafe fn matmul<E: Mma<N>, const FRAGMENTS: usize, const N: usize, const K: usize, const STAGES: usize>(
        a_map: u64,
        b_map: u64,
        out: Output,
        k: u32,
        band: u32,
    ) {
        let tile = const { Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K } };
        let layout =
            const {
                RingLayout::new(E::BYTES, Tile { m: CONSUMERS * FRAGMENTS * 64, n: N, k: K }, STAGES)
                    .with_overlaid_staging(CONSUMERS, E::BYTES, N)
            };
        let base = shared::dynamic();
        let ring = Ring::<STAGES>::at(base + layout.barriers() as u32);
        let a_of = |stage: u32| base + stage * layout.stage_bytes() as u32;
        let b_of = |stage: u32| a_of(stage) + layout.a_bytes as u32;

        let (tiles_m, tiles_n) = (out.m.div_ceil(tile.m as u32), out.n.div_ceil(tile.n as u32));
        let (tile_row, tile_column) = banded(sreg::block_x(), tiles_m, tiles_n, band);
        let (row, column) = (tile_row * tile.m as u32, tile_column * tile.n as u32);
        let k_tiles = k.div_ceil(tile.k as u32);
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let thread = sreg::thread();
        if thread == 0 {
            // SAFETY: the layout gives the barriers memory of their own; nobody uses them before the
            // block-wide barrier below.
            unsafe { ring.init(CONSUMER_THREADS) };
            fence::mbarrier_init();
        }
        // SAFETY: all threads of the block come here, each warp converged again.
        unsafe { barrier::sync_block() };

        if thread >= CONSUMER_THREADS {
            // SAFETY: the producer warp walks the ring as the consumers do; the bytes announced are those of
            // the two boxes; the warp is converged at `elect`.
            unsafe {
                let mut producer = ring.producer();
                for k_tile in 0..k_tiles {
                    let stage = producer.acquire();
                    if control::elect() {
                        let (full, column_k) = (ring.full(stage), (k_tile * tile.k as u32) as i32);
                        mbarrier::arrive_expect_tx(full, layout.stage_bytes() as u32);
                        tma::load_2d(a_of(stage), a_map, column_k, row as i32, full, None);
                        tma::load_2d(b_of(stage), b_map, column_k, column as i32, full, None);
                    }
                    producer.advance();
                }
                producer.drain(k_tiles);
            }
        } else {
            // ANCHOR: consumer
            // This warpgroup's share of the tile's rows.
            let first = thread / WARPGROUP as u32 * (FRAGMENTS * 64) as u32;
            let share_of = |stage: u32| a_of(stage) + first * (K * E::BYTES) as u32;
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            let mut consumer = ring.consumer();
            // The stage whose MMAs may still be running.
            let mut previous = 0;
            for k_tile in 0..k_tiles {
                // SAFETY: the tiles have landed once the stage is acquired, and stay until it is released,
                // which happens only after the MMAs that read it have finished: with one group left in
                // flight, those of the previous stage have.
                unsafe {
                    let stage = consumer.acquire();
                    wgmma::fence();
                    mma_stage::<E, FRAGMENTS, N, K>(
                        &mut d,
                        &Descriptors::of::<E, K>(share_of(stage), b_of(stage)),
                        k_tile > 0,
                    );
                    wgmma::commit_group();
                    wgmma::wait_group::<1>();
                    if k_tile > 0 {
                        mbarrier::arrive(ring.empty(previous));
                    }
                    previous = stage;
                    consumer.advance();
                }
            }
            // SAFETY: the last stage's MMAs have finished after wait_group 0.
            unsafe {
                wgmma::wait_group::<0>();
                mbarrier::arrive(ring.empty(previous));
            }
            // ANCHOR_END: consumer

            // The staging buffers lie over the ring, which both warpgroups have now read to its end.
            // SAFETY: the two warpgroups come here; no MMA is in flight, and each stores its own rows.
            unsafe {
                barrier::sync_named::<1, CONSUMER_THREADS>();
                let mut staging =
                    Staging::<N>::new(base + layout.staging() as u32, thread / WARPGROUP as u32, E::BYTES);
                unroll!(FRAGMENT in 0..FRAGMENTS => {
                    let row = row + first + 64 * FRAGMENT as u32;
                    staging.store::<E>(d.get_unchecked(FRAGMENT).as_ref(), &out, row, column);
                });
            }
        }
    }
}

compiled! { SMALL, rows, entries { [[V5 "v5"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64] [128 x 128]] [16 32 64] [3 4 5 6] } }
compiled! { SHALLOW, rows, entries { [[V5 "v5"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128]] [16 32] [3 4 5 6] } }
compiled! { DEEP, rows, entries { [[V5 "v5"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128]] [64] [3 4] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[SMALL, SHALLOW, DEEP];

/// The configurations of the space that cannot run: their accumulators alone take all registers, or their
/// ring is larger than shared memory.
pub const REFUSED: &[&[Config]] = &[
    product!(rows! { [[V5 "v5"]] [[F16 "f16"] [Bf16 "bf16"]] [[256 x 256]] [16 32 64] [3 4 5 6] }),
    product!(rows! { [[V5 "v5"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128]] [64] [5 6] }),
];
