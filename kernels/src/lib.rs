//! The kernels of hopper-gemm.
//!
//! This crate compiles for two targets. For `nvptx64-nvidia-cuda` it is the device code: one function
//! per PTX instruction in `ptx`, and one file per kernel in [`matmul`]. For the host it is only the
//! [`catalogue`]: what each kernel is called, which tile it computes, how many threads and how much
//! shared memory it wants. The same macro list writes both, so the host cannot believe something about
//! a kernel that the device does not do.
#![no_std]
#![cfg_attr(target_arch = "nvptx64", feature(abi_ptx, asm_experimental_arch))]

pub mod catalogue;
pub mod matmul;
pub mod shared;
mod space;
pub mod tile_order;
pub mod workspace;

#[cfg(target_arch = "nvptx64")]
pub mod epilogue;
#[cfg(target_arch = "nvptx64")]
pub mod mainloop;
#[cfg(target_arch = "nvptx64")]
pub mod meeting;
#[cfg(target_arch = "nvptx64")]
pub mod neighbours;
#[cfg(target_arch = "nvptx64")]
pub mod pipeline;
#[cfg(target_arch = "nvptx64")]
pub mod ptx;
#[cfg(target_arch = "nvptx64")]
mod unroll;

/// Kernels are built with `panic = immediate-abort` and contain no panicking operation; the finishing
/// pass refuses any module that still has a call. This handler exists because `no_std` asks for one.
#[cfg(target_arch = "nvptx64")]
#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    ptx::control::trap()
}
