//! The ceiling: the persistent kernel with its operands resident in shared memory.
//!
//! Nothing is loaded in the loop, so its product is wrong and its speed is what the tensor cores, the
//! shared-memory reads of wgmma, the waves and the epilogue allow on this chip at this hour. It is a
//! benchmark arm; the library never chooses it.

use crate::catalogue::Config;
#[cfg(target_arch = "nvptx64")]
use crate::space::clustered_entries;
use crate::space::{clustered_rows, compiled};

pub use super::persistent::{BAND, CONSUMERS};

compiled! { LARGE, clustered_rows, clustered_entries { [[Ceiling "ceiling"]] [[F16 "f16"] [Bf16 "bf16"]] [[128 x 256]] [64] [4] [[1 x 1]] } }

/// The configurations that are compiled.
pub const COMPILED: &[&[Config]] = &[LARGE];
