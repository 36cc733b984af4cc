//! Small kernels: one for each thing that the model does beside what the catalogue's kernels use.

mod case;
mod cluster;
mod copies;
mod damaged;
mod global;
mod launch;
mod memory;
mod mma;
mod threads;
