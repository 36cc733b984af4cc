//! Device memory.

use cust::error::CudaError;
use cust::memory::DeviceBuffer;

use super::driver::{Device, cust_error};
use crate::error::{Error, Result};

/// Bytes of device memory.
///
/// Dropping it waits for all work on the device, so that no kernel is left reading or writing freed
/// memory.
pub struct Memory {
    // `None` when there are no bytes; taken out only by `drop`.
    buffer: Option<DeviceBuffer<u8>>,
    device: Device,
}

impl Memory {
    /// `bytes` bytes, which hold whatever the memory held. Wraps `cuMemAlloc`.
    ///
    /// # Errors
    /// When the device has not enough memory: the error says how much was wanted and how much is free.
    pub fn new(device: &Device, bytes: usize) -> Result<Memory> {
        let buffer = if bytes == 0 { None } else { Some(allocate(device, bytes)?) };
        Ok(Memory { buffer, device: device.clone() })
    }

    /// Device address of the first byte; 0 when there are none.
    pub fn address(&self) -> u64 {
        self.buffer.as_ref().map_or(0, |buffer| buffer.as_device_ptr().as_raw())
    }

    /// Number of bytes.
    pub fn bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        match self.device.bind() {
            Ok(_bound) if !self.device.is_hung() => {
                // If this fails the context is beyond use, and so is what was running in it.
                let _ = self.device.synchronize();
                drop(buffer);
            }
            _ => std::mem::forget(buffer),
        }
    }
}

/// Allocates device memory, or says how much there is.
fn allocate(device: &Device, bytes: usize) -> Result<DeviceBuffer<u8>> {
    let _bound = device.bind()?;
    let error = if bytes > device.info().memory_bytes {
        // What the driver says to a size that is absurd depends on how absurd it is.
        CudaError::OutOfMemory
    } else {
        // SAFETY: bytes have no invalid values; the device reads and writes them as the kernels do.
        match unsafe { DeviceBuffer::uninitialized(bytes) } {
            Ok(buffer) => return Ok(buffer),
            Err(error) => error,
        }
    };
    Err(match (error, device.memory()) {
        (CudaError::OutOfMemory, Ok((free, total))) => {
            Error::DeviceMemory { wanted: bytes, free, total, device: device.index() }
        }
        _ => cust_error("cuMemAlloc")(error),
    })
}
