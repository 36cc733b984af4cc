//! The GPU, lowest layer first, each usable alone: [`driver`] (device, streams, events), tensor maps and
//! [`module`] (loaded kernels and checked launches), [`matrix`] (device memory), [`gemm`] (the product).

pub mod driver;
pub mod gemm;
pub mod matrix;
mod memory;
pub mod module;
mod sys;
mod tensor_map;
mod workspace;

pub use driver::{Device, DeviceInfo, Event, Stream};
pub use gemm::{Gemm, Plan};
pub use matrix::{DeviceMatrix, DeviceMatrixMut, DeviceMatrixRef};
pub use module::{Kernel, Kernels, Origin, Prefer};
pub use tensor_map::Encoded;
