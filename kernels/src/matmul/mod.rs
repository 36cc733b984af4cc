//! The kernels, one file each, in the order of the ladder.

pub mod ceiling;
pub mod gemv;
pub mod parts;
pub mod persistent;
pub mod pingpong;
pub mod split;
pub mod v0;
pub mod v1;
pub mod v2;
pub mod v3;
pub mod v4;
pub mod v5;
pub mod wide;
