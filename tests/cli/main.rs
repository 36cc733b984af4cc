//! Tests of the whole program on a CPU: commands, files, errors and exit codes.

mod bench;
mod digits;
mod documentation;
mod errors;
mod explain;
mod info;
mod kernels;
mod matmul;
mod plot;
mod simulator;
mod support;
mod tune;
