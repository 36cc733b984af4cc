//! The kernels, one file each, in the order of the ladder.

pub mod v3;
