//! One launch of one kernel, for a profiler or a sanitizer to look at.

use half::{bf16, f16};
use kernels::catalogue::{self, Config};

use super::inputs::Inputs;
use super::results::Check;
use super::verify::Verifier;
use crate::bench::arm::{ArmSpec, Tools};
use crate::cuda::{Device, Gemm};
use crate::element::Element;
use crate::error::Result;
use crate::select::Selection;

/// Launches `config` exactly once on normal random operands of M×N×K `sizes`, and checks the result.
pub fn once(device: u32, config: &'static Config, sizes: (usize, usize, usize), seed: u64) -> Result<Check> {
    match config.element {
        catalogue::Element::F16 => once_of::<f16>(device, config, sizes, seed),
        catalogue::Element::Bf16 => once_of::<bf16>(device, config, sizes, seed),
    }
}

fn once_of<T: Element>(device: u32, config: &'static Config, sizes: (usize, usize, usize), seed: u64) -> Result<Check> {
    let device = Device::open(device)?;
    let gemm = Gemm::new(&device)?;
    let stream = device.stream()?;
    let tools = Tools {
        gemm: &gemm,
        stream: &stream,
        #[cfg(feature = "cublas")]
        cublas: None,
        proposals: 0,
    };
    let inputs = Inputs::<T>::single(&stream, sizes, seed)?;
    let mut arm = ArmSpec::of_config(Selection::new(config)).prepare(&tools, &inputs)?;
    Verifier::new().check(arm.as_mut(), &stream, &inputs)
}
