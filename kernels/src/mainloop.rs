//! The MMAs of one stage, from v4 on. (v3 spells them out.)

use crate::catalogue::Swizzle;
use crate::ptx::wgmma::{Mma, descriptor};
use crate::unroll::unroll;

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
    let (a, b) = (descriptor(a, swizzle), descriptor(b, swizzle));
    unroll!(STEP in 0..K / E::MMA_K => {
        unroll!(FRAGMENT in 0..FRAGMENTS => {
            // 32 bytes further in K; 64 rows further down in A.
            let a = a + (2 * STEP + 4 * swizzle.span() * FRAGMENT) as u64;
            let b = b + (2 * STEP) as u64;
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
