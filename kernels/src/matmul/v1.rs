//! V1: `wgmma` in place of `mma.sync`.
//!
//! What changes from v0: the four warps of the block, a warpgroup, multiply together. The tensor cores read
//! both tiles from shared memory themselves, so the `ldmatrix` and their registers are gone, and one
//! instruction does what took a warp dozens. Still nothing overlaps.
//!
//! ```text
//!  thread 0   │ load A, B │             │ load A, B │             │ …
//!  TMA                    ▒▒▒▒▒▒                    ▒▒▒▒▒▒
//!  warps 0–3  │ wait full       │ wgmma │ wait full       │ wgmma │ …
//!                               block barrier           block barrier
//! ```
//!
//! | barrier | arrivals a phase | who arrives | who waits | first waits on |
//! |---|---|---|---|---|
//! | `full` | 1, and the bytes of both tiles | thread 0; TMA completes the bytes | all 128 threads | 0 |

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::entries;
use crate::space::{compiled, product, rows};

/// Warpgroups that share the rows of a tile.
pub const CONSUMERS: usize = 1;

/// Rows of tiles in a band of the tile order (see [`crate::tile_order::banded`]).
pub const BAND: usize = 16;

#[cfg(target_arch = "nvptx64")]
mod device {
    use super::CONSUMERS;
    use crate::catalogue::Tile;
    use crate::epilogue::{Output, Staging};
    use crate::mainloop::{Descriptors, mma_stage};
    use crate::ptx::wgmma::Mma;
    use crate::ptx::{barrier, fence, mbarrier, shared, sreg, tma, wgmma};
    use crate::shared::RingLayout;
    use crate::tile_order::banded;
    use crate::unroll::unroll;

    /// The kernel: C = A·Bᵀ for one tile of C of `FRAGMENTS`·64 rows and `N` columns per block, through one stage
    /// (`STAGES` is 1) with `K` elements of K.
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
        let full = base + layout.full(0) as u32;
        let (a, b) = (base + layout.a(0) as u32, base + layout.b(0) as u32);

        // The tile of C that this block computes.
        let (tiles_m, tiles_n) = (out.m.div_ceil(tile.m as u32), out.n.div_ceil(tile.n as u32));
        let (tile_row, tile_column) = banded(sreg::block_x(), tiles_m, tiles_n, band);
        let (row, column) = (tile_row * tile.m as u32, tile_column * tile.n as u32);
        let k_tiles = k.div_ceil(tile.k as u32);
        // SAFETY: k ≥ 1. Without knowing this, the compiler keeps a second set of accumulators for the case
        // that the loop over K never runs.
        unsafe { core::hint::assert_unchecked(k_tiles > 0) };

        let thread = sreg::thread();
        if thread == 0 {
            // SAFETY: the layout gives the barrier eight bytes of its own, and no thread uses it before the
            // block-wide barrier below.
            unsafe { mbarrier::init(full, 1) };
            fence::mbarrier_init();
        }
        // SAFETY: all threads of the block come here, each warp converged again.
        unsafe { barrier::sync_block() };

        // SAFETY: all-zero bits are valid f32 values.
        let mut d: [E::Accumulators; FRAGMENTS] = unsafe { core::mem::zeroed() };
        // ANCHOR: loop
        let mut parity = 0;
        for k_tile in 0..k_tiles {
            // SAFETY: the bytes announced are those of the two boxes. The tiles have landed once `full` has
            // completed its phase, and stay until all warps have met, each after its MMAs have finished reading.
            unsafe {
                if thread == 0 {
                    let column_k = (k_tile * tile.k as u32) as i32;
                    mbarrier::arrive_expect_tx(full, layout.stage_bytes() as u32);
                    tma::load_2d(a, a_map, column_k, row as i32, full, None);
                    tma::load_2d(b, b_map, column_k, column as i32, full, None);
                }
                mbarrier::wait(full, parity);
                parity ^= 1;
                wgmma::fence();
                mma_stage::<E, FRAGMENTS, N, K>(&mut d, &Descriptors::of::<E, K>(a, b), k_tile > 0);
                wgmma::commit_group();
                wgmma::wait_group::<0>();
                barrier::sync_block();
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

compiled! { ALL, rows, entries { [[V1 "v1"]] [[F16 "f16"] [Bf16 "bf16"]] [[64 x 128] [128 x 64] [64 x 256] [128 x 128]] [16 32 64] [1] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[ALL];

/// The configurations of the space that cannot run: their accumulators alone take all registers.
pub const REFUSED: &[&[Config]] =
    &[product!(rows! { [[V1 "v1"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256] [256 x 128] [256 x 256]] [16 32 64] [1] })];
