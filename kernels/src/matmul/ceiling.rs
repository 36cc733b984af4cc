//! The ceiling: the persistent kernel with its operands resident in shared memory.
//!
//! Nothing is loaded in the loop, so its product is wrong and its speed is what the tensor cores, the
//! shared-memory reads of wgmma, the waves and the epilogue allow on this chip at this hour. It is a
//! benchmark arm; the library never chooses it.

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::clustered_entries;
use crate::space::{clustered_rows, compiled};

pub use super::persistent::BAND;

#[cfg(target_arch = "nvptx64")]
mod device {
    use crate::epilogue::Output;
    use crate::matmul::persistent::device::loading;
    use crate::ptx::wgmma::Mma;

    /// The persistent kernel that does not load.
    ///
    /// # Safety
    /// As that one.
    #[inline(always)]
    pub unsafe fn matmul<
        E: Mma<N>,
        const CONSUMERS: usize,
        const FRAGMENTS: usize,
        const N: usize,
        const K: usize,
        const STAGES: usize,
        const CM: usize,
        const CN: usize,
    >(
        a_map: u64,
        b_map: u64,
        c_map: u64,
        out: Output,
        k: u32,
        band: u32,
    ) {
        // SAFETY: as promised by the caller.
        unsafe { loading::<E, CONSUMERS, FRAGMENTS, N, K, STAGES, CM, CN, false>(a_map, b_map, c_map, out, k, band) }
    }
}

compiled! { LARGE, clustered_rows, clustered_entries { [[Ceiling "ceiling"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256]] [64] [4] [[1 x 1]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[LARGE];
