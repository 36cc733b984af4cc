//! The option `--device`: where a product is computed.

use std::fmt;
use std::str::FromStr;

use hopper_gemm::Error;

use super::failure::Failure;

/// What the user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Device {
    /// A GPU if the program can use one, else the CPU.
    Auto,
    /// The CPU.
    Cpu,
    /// The simulator: the kernel's PTX on a model of a Hopper GPU.
    Sim,
    /// The CUDA device of this number.
    Cuda(u32),
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let unknown =
            || Error::Syntax { value: text.to_owned(), rule: "a device is auto, cpu, sim, or cuda:N, such as cuda:0" };
        match text {
            "auto" => Ok(Device::Auto),
            "cpu" => Ok(Device::Cpu),
            "sim" => Ok(Device::Sim),
            "cuda" => Ok(Device::Cuda(0)),
            _ => match text.strip_prefix("cuda:").map(str::parse) {
                Some(Ok(index)) => Ok(Device::Cuda(index)),
                _ => Err(unknown()),
            },
        }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Device::Auto => f.write_str("auto"),
            Device::Cpu => f.write_str("cpu"),
            Device::Sim => f.write_str("sim"),
            Device::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// Where a product will be computed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// On the CPU.
    Cpu,
    /// In the simulator.
    Sim,
    /// On the CUDA device of this number.
    #[cfg(feature = "cuda")]
    Cuda(u32),
}

/// The place that `device` means, and why, where the program had to choose.
///
/// # Errors
/// When a GPU is asked for and the program cannot use any. Whether the device itself is fit shows when it
/// is opened.
pub fn resolve(device: Device) -> Result<(Place, Option<String>), Failure> {
    match device {
        Device::Cpu => Ok((Place::Cpu, None)),
        Device::Sim => Ok((Place::Sim, None)),
        Device::Auto => {
            let (place, why) = choose();
            Ok((place, Some(why)))
        }
        Device::Cuda(index) => cuda(index).map(|place| (place, None)),
    }
}

#[cfg(feature = "cuda")]
fn cuda(index: u32) -> Result<Place, Failure> {
    Ok(Place::Cuda(index))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_: u32) -> Result<Place, Failure> {
    Err(Error::NotBuilt { what: "support for GPUs", feature: "cuda" }.into())
}

#[cfg(feature = "cuda")]
fn choose() -> (Place, String) {
    let devices = match hopper_gemm::cuda::Device::list() {
        Ok(devices) => devices,
        Err(error) => return (Place::Cpu, format!("no GPU: {error}")),
    };
    match devices.iter().find(|device| device.compute_capability == (9, 0)) {
        Some(device) => (Place::Cuda(device.index), "the first GPU of compute capability 9.0".to_owned()),
        None if devices.is_empty() => (Place::Cpu, "the driver shows no GPU".to_owned()),
        None => {
            let seen: Vec<String> = devices
                .iter()
                .map(|device| {
                    let (major, minor) = device.compute_capability;
                    format!("{} is {major}.{minor}", device.name)
                })
                .collect();
            (Place::Cpu, format!("no GPU of compute capability 9.0: {}", seen.join(", ")))
        }
    }
}

#[cfg(not(feature = "cuda"))]
fn choose() -> (Place, String) {
    (Place::Cpu, "this program was built without the cargo feature `cuda`".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_parsed() {
        for device in [Device::Auto, Device::Cpu, Device::Sim, Device::Cuda(0), Device::Cuda(7)] {
            assert_eq!(device.to_string().parse::<Device>().unwrap(), device);
        }
        assert_eq!("cuda".parse::<Device>().unwrap(), Device::Cuda(0));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cuda:x", "CPU", "cuda:4294967296"] {
            let error = wrong.parse::<Device>().unwrap_err().to_string();
            assert!(error.contains("auto, cpu, sim, or cuda:N"), "{error}");
        }
    }
}
