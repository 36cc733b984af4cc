//! The MMAs of one stage. (v3 spells them out.)

use crate::catalogue::{Swizzle, WARPGROUP};
use crate::ptx::wgmma::{Mma, descriptor_start, with_start};
use crate::ptx::{sreg, warp};
use crate::unroll::unroll;

/// The number of this thread's warpgroup in its block.
///
/// It comes from lane 0, so that ptxas knows it to be the same for the whole warp: the addresses that follow from it are
/// then worked out once a warp, by the uniform datapath, where the MMAs take their descriptors from.
///
/// # Safety
/// All lanes of the warp call it.
#[inline(always)]
pub unsafe fn warpgroup() -> u32 {
    // SAFETY: as promised by the caller.
    unsafe { warp::broadcast(sreg::thread() / WARPGROUP as u32) }
}

/// Issues the MMAs of one warpgroup on one stage: D (FRAGMENTS·64 × N) += A (FRAGMENTS·64 × K) · B (N × K)ᵀ.
/// With `accumulate` false the first of them overwrites D.
///
/// `a` and `b` are the shared addresses of the tiles, K-major, their rows one span of the swizzle long.
///
/// # Safety
/// As [`Mma::mma`]. `FRAGMENTS`·64 rows from `a` on and `N` rows from `b` on are in the tiles.
#[inline(always)]
// ANCHOR: mma_stage
pub unsafe fn mma_stage<E: Mma<N>, const FRAGMENTS: usize, const N: usize, const K: usize>(
    d: &mut [E::Accumulators; FRAGMENTS],
    a: u32,
    b: u32,
    accumulate: bool,
) {
    let swizzle = const { Swizzle::of_row_bytes(K * E::BYTES) };
    let (a, b) = (descriptor_start(a), descriptor_start(b));
    // All steps of a fragment before the next: 0.2 % faster than the other way round (see the worklog).
    unroll!(FRAGMENT in 0..FRAGMENTS => {
        unroll!(STEP in 0..K / E::MMA_K => {
            // 32 bytes further in K; 64 rows further down in A.
            let a = with_start(a + (2 * STEP + 4 * swizzle.span() * FRAGMENT) as u32, swizzle);
            let b = with_start(b + (2 * STEP) as u32, swizzle);
            // SAFETY: as promised by the caller; FRAGMENT is in bounds.
            unsafe {
                let d = d.get_unchecked_mut(FRAGMENT);
                if STEP == 0 {
                    E::mma_scaled(d, a, b, accumulate);
                } else {
                    E::mma(d, a, b);
                }
            }
        });
    });
}
// ANCHOR_END: mma_stage
