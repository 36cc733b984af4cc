//! The timing model: a few round numbers, in clock cycles of a multiprocessor.
//!
//! It orders events plausibly for a picture; it does not predict speed. A warp instruction takes one
//! cycle. A bulk load's bytes leave one engine a cluster at a fixed rate and land a fixed latency later; a
//! store's bytes are read and written likewise. A wgmma of N columns holds the block's tensor cores for
//! N / 2 cycles. A wait ends when what it waits for has happened.

/// Cycles from the end of a load's transfer to its arrival in shared memory.
pub const LOAD_LATENCY: u64 = 600;
/// Bytes of bulk copies that move in a cycle.
pub const TMA_BYTES_PER_CYCLE: u64 = 64;
/// Cycles from the issue of a bulk store until it starts to read shared memory.
pub const STORE_READ_LATENCY: u64 = 100;
/// Cycles from then until its bytes are in global memory.
pub const STORE_WRITE_LATENCY: u64 = 500;
/// Cycles from the issue of a wgmma until the tensor cores can start it.
pub const WGMMA_ISSUE: u64 = 20;

/// Cycles that one m64nNk16 takes.
pub const fn wgmma_cycles(n: u32) -> u64 {
    n as u64 / 2
}
