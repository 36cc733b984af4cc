//! V2: a ring of stages.
//!
//! What changes from v1: there are several stages, and while the tensor cores work on one, TMA fills the
//! others. The first loads are issued before the loop (the prefill); from then on each turn refills the stage
//! that the turn before has used. All four warps do everything, so they must meet to know that a stage is free.
//!
//! ```text
//!  thread 0   │ prefill 0, 1 │ load 2 │       │ load 3 │       │ load 4 │
//!  TMA           ▒▒▒▒0▒▒▒▒▒▒1▒▒▒▒▒▒▒▒▒▒2▒▒▒▒▒▒▒▒▒▒▒▒3▒▒▒▒▒▒▒▒▒▒▒▒▒4▒▒▒▒
//!  warps 0–3  │              ║ wait 0 │ wgmma ║ wait 1 │ wgmma ║ wait 2 │ wgmma ║      ║ block barriers
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full[s]` | 1, and the bytes of both tiles | thread 0; TMA completes the bytes | all 128 threads | 0 |
//!
//! There is no empty barrier: the block-wide barriers say that a stage is free. One stands before the refill, so
//! that no warp still reads what is overwritten, and one behind the MMAs, so that no warp is a turn ahead. From one
//! turn to the next they stand side by side, and one of the two would do. They stop all four warps, for the sake of
//! the one thread that loads. That is what v3 ends.

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::entries;
use crate::space::{compiled, product, rows};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 1;

/// Rows of tiles in a band of the tile order (see [`crate::tile_order::banded`]).
pub const BAND: usize = 40;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::Tile;
    use crate::epilogue::{Output, Staging};
    use crate::mainloop::{Descriptors, mma_stage};
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, fence, mbarrier, shared, sreg, tma, wgmma};
    use crate::shared::{MBARRIER_BYTES, RingLayout};
    use crate::tile_order::banded;
    use crate::unroll::unroll;

    /// The kernel: C = A·Bᵀ for one tile of C of `FRAGMENTS`·64 rows and `N` columns per block, on a ring
    /// of `STAGES` stages with `K` elements of K each.
    ///
    /// `a_map` and `b_map` are the generic addresses of the tensor maps of A (M×K) and B (N×K), both
    /// row-major, with boxes of K × FRAGMENTS·64 and K × N elements and the swizzle of K's row.
    ///
    /// # Safety
    /// Launched as the catalogue says: 128 threads, `RingLayout::bytes` of dynamic shared memory, one
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
            RingLayout::new(E::BYTES, Tile { m: FRAGMENTS * 64, n: N, k: K }, STAGES)
                .without_empty_barriers()
                .with_overlaid_staging(CONSUMERS, E::BYTES, N)
        };
        let base = shared::dynamic();
        let full = |stage: u32| base + layout.full(0) as u32 + stage * MBARRIER_BYTES as u32;
        let a = |stage: u32| base + stage * layout.stage_bytes() as u32;
        let b = |stage: u32| a(stage) + layout.a_bytes as u32;

        // The tile of C that this block computes.
        let (tiles_m, tiles_n) = (out.m.div_ceil(tile.m as u32), out.n.div_ceil(tile.n as u32));
        let (tile_row, tile_column) = banded(sreg::block_x(), tiles_m, tiles_n, band);
        let (row, column) = (tile_row * tile.m as u32, tile_column * tile.n as u32);
        let k_tiles = k.div_ceil(tile.k as u32);
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let thread = sreg::thread();
        // ANCHOR: prefill
        // Fills `stage` with tile `k_tile` of K.
        let load = |k_tile: u32, stage: u32| {
            let column_k = (k_tile * tile.k as u32) as i32;
            // SAFETY: one thread calls it, for a stage that nobody reads; the bytes announced are those of the
            // two boxes.
            unsafe {
                mbarrier::arrive_expect_tx(full(stage), layout.stage_bytes() as u32);
                tma::load_2d(a(stage), a_map, column_k, row as i32, full(stage), None);
                tma::load_2d(b(stage), b_map, column_k, column as i32, full(stage), None);
            }
        };
        // Prefill: all stages but one, which the first turn fills.
        let ahead = const { STAGES as u32 - 1 };
        if thread == 0 {
            unroll!(S in 0..STAGES => {
                // SAFETY: the layout gives each barrier eight bytes of its own. Only this thread and, after the
                // fence, TMA use them before the block-wide barrier below.
                unsafe { mbarrier::init(base + layout.full(S) as u32, 1) };
            });
            fence::mbarrier_init();
            // In this branch and not in one of its own behind the barrier: LLVM joins two branches on the same
            // condition, and the barrier between them would be copied into both.
            for stage in 0..ahead {
                if stage < k_tiles {
                    load(stage, stage);
                }
            }
        }
        // SAFETY: all threads of the block come here, each warp converged again.
        unsafe { barrier::sync_block() };
        // ANCHOR_END: prefill

        // SAFETY: all-zero bits are valid f32 values.
        let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
        // ANCHOR: loop
        // The stage of this turn and the parity to wait for there; and the stage that this turn refills.
        let (mut stage, mut parity, mut refilled) = (0, 0, ahead);
        for k_tile in 0..k_tiles {
            // SAFETY: the tiles have landed once `full` has completed its phase. The stage refilled is that of
            // the turn before, whose MMAs all warps have waited for before they met.
            unsafe {
                barrier::sync_block();
                if thread == 0 && k_tile + ahead < k_tiles {
                    load(k_tile + ahead, refilled);
                }
                mbarrier::wait(full(stage), parity);
                wgmma::fence();
                mma_stage::<E, FRAGMENTS, N, K>(&mut d, &Descriptors::of::<E, K>(a(stage), b(stage)), k_tile > 0);
                wgmma::commit_group();
                wgmma::wait_group::<0>();
                barrier::sync_block();
            }
            refilled = stage;
            stage += 1;
            if stage == STAGES as u32 {
                stage = 0;
                parity ^= 1;
            }
        }
        // ANCHOR_END: loop

        // The staging buffers lie over the tiles, which all warps have now read to their end.
        // SAFETY: the four warps come here, and each block stores its own tile.
        unsafe {
            let mut staging = Staging::<N>::new(base + layout.staging() as u32, 0, E::BYTES);
            unroll!(FRAGMENT in 0..FRAGMENTS => {
                staging.store::<E>(d.get_unchecked(FRAGMENT).as_ref(), &out, row + 64 * FRAGMENT as u32, column);
            });
        }
    }
}

compiled! { ALL, rows, entries { [[V2 "v2"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 128] [128 x 64] [64 x 256] [128 x 128]] [16 32 64] [2 3 4] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[ALL];

/// The configurations of the space that cannot run: their accumulators alone take all registers.
pub const REFUSED: &[&[Config]] = &[product!(
    rows! { [[V2 "v2"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128] [256 x 256]] [16 32 64] [2 3 4] }
)];
