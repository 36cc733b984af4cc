//! The MMAs of one stage, and of a tile whose descriptors stay in registers. (v3 spells them out.)

use crate::catalogue::{Swizzle, WARPGROUP};
use crate::pipeline::Lap;
use crate::ptx::wgmma::{self, Mma, MmaElement, descriptor_of, descriptor_start, descriptor_upper};
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

/// Steps of K in a stage, at most: its rows have at most 128 bytes, and an MMA takes 32 of them.
const STEPS: usize = 4;

/// The descriptors of the MMAs of one warpgroup on one stage: for each step of K, those of A's fragments of 64 rows and B's.
#[derive(Clone, Copy)]
pub struct Descriptors<const FRAGMENTS: usize> {
    a: [[u64; STEPS]; FRAGMENTS],
    b: [u64; STEPS],
}

impl<const FRAGMENTS: usize> Descriptors<FRAGMENTS> {
    /// Those of tiles with rows of `K` elements at the shared addresses `a` and `b`, K-major, a row being one span of the
    /// swizzle long.
    #[inline(always)]
    // ANCHOR: descriptors
    pub fn of<E: MmaElement, const K: usize>(a: u32, b: u32) -> Self {
        let swizzle = const {
            assert!(K / E::MMA_K <= STEPS);
            Swizzle::of_row_bytes(K * E::BYTES)
        };
        let upper = descriptor_upper(swizzle);
        let (a, b) = (descriptor_start(a), descriptor_start(b));
        let mut all = Descriptors { a: [[0; STEPS]; FRAGMENTS], b: [0; STEPS] };
        // 32 bytes further in K; 64 rows further down in A.
        unroll!(STEP in 0..K / E::MMA_K => {
            unroll!(FRAGMENT in 0..FRAGMENTS => {
                let start = a + (2 * STEP + 4 * swizzle.span() * FRAGMENT) as u32;
                // SAFETY: both are in bounds.
                unsafe { *all.a.get_unchecked_mut(FRAGMENT).get_unchecked_mut(STEP) = descriptor_of(start, upper) };
            });
            // SAFETY: in bounds.
            unsafe { *all.b.get_unchecked_mut(STEP) = descriptor_of(b + (2 * STEP) as u32, upper) };
        });
        all
    }
    // ANCHOR_END: descriptors
}

/// Issues the MMAs of one warpgroup on one stage: D (FRAGMENTS·64 × N) += A (FRAGMENTS·64 × K) · B (N × K)ᵀ.
/// With `accumulate` false the first of them overwrites D.
///
/// # Safety
/// As [`Mma::mma`], for all tiles that `stage` describes: `FRAGMENTS`·64 rows of A, `N` of B.
#[inline(always)]
// ANCHOR: mma_stage
pub unsafe fn mma_stage<E: Mma<N>, const FRAGMENTS: usize, const N: usize, const K: usize>(
    d: &mut [E::Accumulators; FRAGMENTS],
    stage: &Descriptors<FRAGMENTS>,
    accumulate: bool,
) {
    // All steps of a fragment before the next: 0.2 % faster than the other way round (see the worklog).
    unroll!(FRAGMENT in 0..FRAGMENTS => {
        unroll!(STEP in 0..K / E::MMA_K => {
            // SAFETY: as promised by the caller; FRAGMENT and STEP are in bounds.
            unsafe {
                let d = d.get_unchecked_mut(FRAGMENT);
                let (a, b) = (*stage.a.get_unchecked(FRAGMENT).get_unchecked(STEP), *stage.b.get_unchecked(STEP));
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

/// The product of one warpgroup over a tile's K, `k_tiles` stages from `lap` on, a lap of the ring to each turn of the loop:
/// D (FRAGMENTS·64 × N) = A · Bᵀ. Returns the last stage, which the MMAs in flight still read; the others are released.
///
/// A stage has the same descriptors in every lap, so that the loop has nothing to work out: 23 instructions a stage of four
/// MMAs where one that turns by stages has 53. They must fit in the 63 uniform registers of a warp, four for each MMA.
///
/// # Safety
/// As [`Mma::mma`]; `describe` gives the descriptors of a stage's tiles; the producer will fill the stages; `k_tiles` ≥ 1.
#[inline(always)]
// ANCHOR: multiply_by_laps
pub unsafe fn multiply_by_laps<
    E: Mma<N>,
    const FRAGMENTS: usize,
    const N: usize,
    const K: usize,
    const STAGES: usize,
>(
    d: &mut [E::Accumulators; FRAGMENTS],
    mut lap: Lap<STAGES>,
    k_tiles: u32,
    describe: impl Fn(u32) -> Descriptors<FRAGMENTS>,
    release: impl Fn(u32),
) -> u32 {
    let mut descriptors = [describe(lap.stage(0)); STAGES];
    unroll!(I in 0..STAGES => { descriptors[I] = describe(lap.stage(I)); });
    let mut left = k_tiles;
    loop {
        unroll!(I in 0..STAGES => {
            let begins = I == 0 && left == k_tiles;
            // SAFETY: as promised by the caller. A stage is released when only the MMAs of the next are in flight.
            unsafe {
                lap.acquire(I);
                wgmma::fence();
                mma_stage::<E, FRAGMENTS, N, K>(d, &descriptors[I], !begins);
                wgmma::commit_group();
                wgmma::wait_group::<1>();
            }
            if !begins {
                release(lap.before(I));
            }
            left -= 1;
            if left == 0 {
                return lap.stage(I);
            }
        });
    }
}
// ANCHOR_END: multiply_by_laps
