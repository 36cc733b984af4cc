//! V4: the pipeline as a type, and two things that it makes easy.
//!
//! What changes from v3:
//!
//! - The ring is a `Ring` (`pipeline.rs`), each end of it a value that acquires a stage and
//!   advances; the two first parities are in one place, with names. The stage is an index that goes round,
//!   so the loop is not unrolled.
//! - One wgmma group stays in flight: the consumers issue the MMAs of stage `s` before they wait for those
//!   of `s - 1`. The tensor cores no longer run dry while a warp waits, arrives and tests a barrier. What
//!   may be released after `wait_group 1` is the *previous* stage.
//! - The whole producer warp walks the loop, and one elected lane issues. The loop's branches are uniform
//!   then, and the warp stays converged.
//! - The tile order's bands are a parameter of the launch: `band` rows of tiles.
//!
//! ```text
//!  consumers   │ wait full[0] │ MMA 0 ───────────────────┐
//!              │ wait full[1] │ MMA 1 ─────────────────┐ │
//!              │              │ wait_group 1 ◄─────────┼─┘  MMA 0 is done: release 0
//!              │ wait full[2] │ MMA 2 ───────────────┐ │
//!              │              │ wait_group 1 ◄───────┼─┘    MMA 1 is done: release 1
//! ```

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::entries;
use crate::space::{compiled, product, rows};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 1;

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

    /// The kernel: C = A·Bᵀ for one tile of C of `FRAGMENTS`·64 rows and `N` columns per block.
    ///
    /// # Safety
    /// As v3's, with the catalogue's launch for v4; `band` ≥ 1.
    #[inline(always)]
    pub unsafe fn matmul<E: Mma<N>, const FRAGMENTS: usize, const N: usize, const K: usize, const STAGES: usize>(
        a_map: u64,
        b_map: u64,
        out: Output,
        k: u32,
        band: u32,
    ) {
        let tile = const { Tile { m: FRAGMENTS * 64, n: N, k: K } };
        let layout = const {
            RingLayout::new(E::BYTES, Tile { m: FRAGMENTS * 64, n: N, k: K }, STAGES).with_overlaid_staging(
                CONSUMERS,
                E::BYTES,
                N,
            )
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
            unsafe { ring.init(WARPGROUP as u32) };
            fence::mbarrier_init();
        }
        // SAFETY: all threads of the block come here, each warp converged again.
        unsafe { barrier::sync_block() };

        if thread >= WARPGROUP as u32 {
            // SAFETY: the producer warp walks the ring as the consumers do; the bytes announced are those of
            // the two boxes; the warp is converged at `elect`.
            unsafe {
                // ANCHOR: producer
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
                // ANCHOR_END: producer
            }
        } else {
            // SAFETY: all-zero bits are valid f32 values.
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            // ANCHOR: consumer
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
                        &Descriptors::of::<E, K>(a_of(stage), b_of(stage)),
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

            // The staging buffers lie over the ring, which all four warps have now read to its end.
            // SAFETY: the warpgroup comes here; no MMA is in flight, and each block stores its own tile.
            unsafe {
                barrier::sync_named::<1, { WARPGROUP as u32 }>();
                let mut staging = Staging::<N>::new(base + layout.staging() as u32, 0, E::BYTES);
                unroll!(FRAGMENT in 0..FRAGMENTS => {
                    staging.store::<E>(d.get_unchecked(FRAGMENT).as_ref(), &out, row + 64 * FRAGMENT as u32, column);
                });
            }
        }
    }
}

compiled! { SMALL, rows, entries { [[V4 "v4"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64] [128 x 128]] [16 32 64] [3 4 5 6] } }
compiled! { WIDE, rows, entries { [[V4 "v4"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 192] [192 x 128]] [64] [3 4 5] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[SMALL, WIDE];

/// The configurations of the space that cannot run: their accumulators alone take all registers, or their
/// ring is larger than shared memory.
pub const REFUSED: &[&[Config]] = &[
    product!(
        rows! { [[V4 "v4"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128] [256 x 256]] [16 32 64] [3 4 5 6] }
    ),
    product!(rows! { [[V4 "v4"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 192] [192 x 128]] [64] [6] }),
];
