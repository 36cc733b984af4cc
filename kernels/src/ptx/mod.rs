//! One function per PTX instruction.
//!
//! Each function wraps one instruction in `asm!`, gives its PTX, its units and the section of the PTX
//! ISA that defines it, and says what the caller must hold. Nothing is hidden: a kernel that calls
//! [`mbarrier::init`] and then [`fence::mbarrier_init`] executes exactly these two instructions.
//!
//! Shared-memory addresses are `u32` in the `shared` state space, as the instructions take them. Section
//! names refer to the PTX ISA, version 8.0 and later.
//!
//! Unless said otherwise a function acts for the calling thread alone. Functions whose instruction is
//! `.aligned` say which threads must execute it together.

pub mod barrier;
pub mod cache;
pub mod cluster;
pub mod control;
pub mod fence;
pub mod global;
pub mod matrix;
pub mod mbarrier;
pub mod mma;
pub mod param;
pub mod shared;
pub mod sreg;
pub mod tma;
pub mod warp;
pub mod wgmma;
