//! Matrix product for NVIDIA Hopper GPUs.

pub mod modules;
