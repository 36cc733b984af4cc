//! V3: warp specialisation.
//!
//! One warp moves data, four warps compute, and two barriers per stage are all that connects them.
//!
//! ```text
//!  threads   0–127  consumers: warps 0–3, one warpgroup          threads 128–159  producer: warp 4
//!
//!           ┌────────────────────────────────────────┐         ┌──────────────────────────────────┐
//!           │ wait full[s]                           │◄──full──┤ wait empty[s]                    │
//!           │ wgmma on A[s], B[s]                    │         │ expect the bytes of A[s] and B[s]│
//!           │ wait for the wgmma                     │         │ TMA load A[s]                    │
//!           │ arrive on empty[s]                     ├─empty──►│ TMA load B[s]                    │
//!           └────────────────────────────────────────┘         └──────────────────────────────────┘
//!                      C ← accumulators                            drain: wait for what it filled
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles | the producer; TMA completes the bytes | consumers | 0: blocks until filled |
//! | `empty[s]` | 128 | every consumer thread | the producer | 1: passes, the stage is free |
//!
//! There is no block-wide barrier in the loop: a fast producer runs up to `STAGES` tiles ahead, a fast
//! consumer waits for exactly the stage it needs.

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::entries;
use crate::space::{compiled, product, rows};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 1;

/// Rows of tiles in a band of the tile order (see [`crate::tile_order::banded`]).
///
/// With tiles of 128×128 a multiprocessor at full speed would ask the L2 cache for 64 bytes a clock, which
/// is more than it gives; requests for the same rows that neighbouring multiprocessors make at about the
/// same time are merged on the way. How many are depends on which tiles run side by side: see the worklog.
pub const BAND: usize = 24;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::{Swizzle, Tile, WARPGROUP};
    use crate::epilogue::{Output, Staging};
    use crate::ptx::wgmma::{Mma, descriptor};
    use crate::ptx::{barrier, fence, mbarrier, shared, sreg, tma, wgmma};
    use crate::shared::RingLayout;
    use crate::tile_order::banded;
    use crate::unroll::unroll;

    /// The kernel: C = A·Bᵀ for one tile of C of `FRAGMENTS`·64 rows and `N` columns per block, on a ring
    /// of `STAGES` stages with `K` elements of K each.
    ///
    /// `a_map` and `b_map` are the generic addresses of the tensor maps of A (M×K) and B (N×K), both
    /// row-major, with boxes of K × FRAGMENTS·64 and K × N elements and the swizzle of K's row.
    ///
    /// # Safety
    /// Launched as the catalogue says: 160 threads, `RingLayout::bytes` of dynamic shared memory, one
    /// block for each tile of C, `k` ≥ 1, `band` ≥ 1, and maps and `out` that describe live memory.
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
        let swizzle = const { Swizzle::of_row_bytes(K * E::BYTES) };
        let base = shared::dynamic();
        let full = |stage: usize| base + layout.full(stage) as u32;
        let empty = |stage: usize| base + layout.empty(stage) as u32;

        // The tile of C that this block computes.
        let (tiles_m, tiles_n) = (out.m.div_ceil(tile.m as u32), out.n.div_ceil(tile.n as u32));
        let (tile_row, tile_column) = banded(sreg::block_x(), tiles_m, tiles_n, band);
        let (row, column) = (tile_row * tile.m as u32, tile_column * tile.n as u32);
        let k_tiles = k.div_ceil(tile.k as u32);
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let thread = sreg::thread();
        // ANCHOR: barriers
        if thread == 0 {
            unroll!(S in 0..STAGES => {
                // SAFETY: the layout gives each barrier eight bytes of its own, and no thread uses them
                // before the block-wide barrier below.
                unsafe {
                    mbarrier::init(full(S), 1);
                    mbarrier::init(empty(S), WARPGROUP as u32);
                }
            });
            fence::mbarrier_init();
        }
        // SAFETY: all 160 threads come here; each warp is converged again after the branch on thread 0.
        unsafe { barrier::sync_block() };
        // ANCHOR_END: barriers

        if thread >= WARPGROUP as u32 {
            // ANCHOR: producer
            // Producer warp. One thread issues for all; the others have nothing to do.
            if thread == WARPGROUP as u32 {
                // Bit S is the parity to wait for on empty[S]. It starts at 1, which passes at once on a
                // fresh barrier: every stage is free.
                let mut phases = (1u32 << STAGES) - 1;
                let mut k_tile = 0;
                'ring: loop {
                    unroll!(S in 0..STAGES => {
                        if k_tile == k_tiles {
                            break 'ring;
                        }
                        let column_k = (k_tile * tile.k as u32) as i32;
                        // SAFETY: the stage is free once empty[S] has completed its phase; the bytes
                        // announced are those of the two boxes, which land even where they lie outside A
                        // or B, as zeros.
                        unsafe {
                            mbarrier::wait(empty(S), phases >> S & 1);
                            mbarrier::arrive_expect_tx(full(S), layout.stage_bytes() as u32);
                            tma::load_2d(base + layout.a(S) as u32, a_map, column_k, row as i32, full(S), None);
                            tma::load_2d(base + layout.b(S) as u32, b_map, column_k, column as i32, full(S), None);
                        }
                        phases ^= 1 << S;
                        k_tile += 1;
                    });
                }
                // Drain: the block's shared memory must not go away while a load is on its way to it, so
                // wait until every stage that was filled has been released.
                unroll!(S in 0..STAGES => {
                    if (S as u32) < k_tiles {
                        // SAFETY: empty[S] completes this phase once the consumers release the last fill.
                        unsafe { mbarrier::wait(empty(S), phases >> S & 1) };
                    }
                });
            }
            // ANCHOR_END: producer
        } else {
            // ANCHOR: consumer
            // Consumer warpgroup.
            // SAFETY: all-zero bits are valid f32 values. (A loop that stores zeros would put the
            // accumulators in memory.)
            let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
            // Bit S is the parity to wait for on full[S]. It starts at 0, which blocks until the first
            // fill has landed.
            let mut phases = 0u32;
            let mut k_tile = 0;
            'ring: loop {
                unroll!(S in 0..STAGES => {
                    if k_tile == k_tiles {
                        break 'ring;
                    }
                    let base = shared::dynamic();
                    let a = descriptor(base + layout.a(S) as u32, swizzle);
                    let b = descriptor(base + layout.b(S) as u32, swizzle);
                    // SAFETY: the tiles have landed once full[S] has completed its phase, and the
                    // producer leaves them alone until all 128 threads have arrived on empty[S], which
                    // each does only after its MMAs have finished reading.
                    unsafe {
                        mbarrier::wait(full(S), phases >> S & 1);
                        wgmma::fence();
                        unroll!(STEP in 0..K / E::MMA_K => {
                            unroll!(FRAGMENT in 0..FRAGMENTS => {
                                // 32 bytes further in K; 64 rows further down in A.
                                let a = a + (2 * STEP + 4 * swizzle.span() * FRAGMENT) as u64;
                                let b = b + (2 * STEP) as u64;
                                E::mma(d.get_unchecked_mut(FRAGMENT), a, b);
                            });
                        });
                        wgmma::commit_group();
                        wgmma::wait_group::<0>();
                        mbarrier::arrive(empty(S));
                    }
                    phases ^= 1 << S;
                    k_tile += 1;
                });
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

// ANCHOR: space
compiled! { ALL, rows, entries { [[V3 "v3"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 64] [128 x 128]] [16 32 64] [2 3 4 5 6 7] } }
// ANCHOR_END: space

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[ALL];

/// The configurations of the space that cannot run: their accumulators alone take all registers.
pub const REFUSED: &[&[Config]] = &[product!(
    rows! { [[V3 "v3"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128] [256 x 256]] [16 32 64] [2 3 4 5 6 7] }
)];
