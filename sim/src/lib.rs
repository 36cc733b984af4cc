//! A model of a Hopper GPU that runs PTX on a CPU.
pub mod alu;
pub mod clock;
pub mod float;
pub mod mbarrier;
pub mod memory;
pub mod shared;
pub mod tensor_core;
pub mod tensor_map;
