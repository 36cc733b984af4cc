//! The command line of hopper-gemm.
fn main() {}
