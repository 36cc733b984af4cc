//! The kernels, one file each, in the order of the ladder.

pub mod ceiling;
pub mod persistent;
pub mod v3;
pub mod v4;
pub mod v5;
