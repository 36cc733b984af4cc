//! A device and its primary context, streams and events.

use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cust::context::Context;
use cust::device::DeviceAttribute;
use cust::error::CudaError;
use cust::stream::StreamFlags;

use super::sys;
use crate::error::{Error, Result};

/// A CUDA version as the driver states it, `1000 * major + 10 * minor`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct CudaVersion(pub i32);

impl fmt::Display for CudaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0 / 1000, self.0 % 1000 / 10)
    }
}

/// Turns an error of a `cust` call into ours.
pub(crate) fn cust_error(call: &'static str) -> impl Fn(CudaError) -> Error {
    move |error| match error {
        // Codes that cust made up for itself: the driver cannot describe them.
        CudaError::InvalidMemoryAllocation | CudaError::OptixError => {
            Error::Driver { call, code: error as u32, name: format!("{error:?}"), text: error.to_string() }
        }
        _ => sys::error(error as u32, call),
    }
}

/// A CUDA device whose primary context this value keeps alive. Cheap to clone.
///
/// Every public call of this library that talks to the driver first makes the context current on the
/// calling thread, so a device and whatever was made from it may be used from any thread. A context
/// that was current before is current again afterwards.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    index: u32,
    // Dropped by `drop`, unless a kernel hangs in it.
    context: ManuallyDrop<Context>,
    info: DeviceInfo,
    hung: AtomicBool,
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !*self.hung.get_mut() {
            // SAFETY: dropped nowhere else, and not used afterwards.
            unsafe { ManuallyDrop::drop(&mut self.context) };
        }
    }
}

/// What is known about a device without running anything on it.
#[derive(Clone, Debug)]
pub struct DeviceInfo {
    /// Its number among the devices that the driver shows (`CUDA_VISIBLE_DEVICES` applies).
    pub index: u32,
    /// The driver's name for it, `NVIDIA H200`.
    pub name: String,
    /// Compute capability, `(9, 0)` for Hopper.
    pub compute_capability: (i32, i32),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of L2 cache.
    pub l2_bytes: usize,
    /// Bytes of device memory.
    pub memory_bytes: usize,
    /// Address on the PCI bus, `0000:4e:00.0`, by which NVML knows the same device.
    pub pci_bus_id: String,
    /// The CUDA version of the driver.
    pub driver: CudaVersion,
}

impl Device {
    /// How many devices the driver shows: 0 where it shows none. Wraps `cuInit` and `cuDeviceGetCount`.
    pub fn count() -> Result<u32> {
        // SAFETY: cuInit may be called any number of times from any thread.
        match unsafe { sys::cuInit(0) } {
            sys::NO_DEVICE => Ok(0),
            code => {
                sys::check(code, "cuInit")?;
                cust::device::Device::num_devices().map_err(cust_error("cuDeviceGetCount"))
            }
        }
    }

    /// Describes every device, opening none.
    pub fn list() -> Result<Vec<DeviceInfo>> {
        (0..Device::count()?).map(|index| DeviceInfo::read(index, raw_device(index)?)).collect()
    }

    /// Opens device `index` and retains its primary context, the one that the CUDA runtime and its
    /// libraries use too. Wraps `cuDevicePrimaryCtxRetain`.
    pub fn open(index: u32) -> Result<Device> {
        let count = Device::count()?;
        if index >= count {
            return Err(Error::NoSuchDevice { index, count });
        }
        let raw = raw_device(index)?;
        let info = DeviceInfo::read(index, raw)?;
        // cust makes the context current; put back what was there.
        let _restore = Restore::current()?;
        let context = Context::new(raw).map_err(cust_error("cuDevicePrimaryCtxRetain"))?;
        Ok(Device(Arc::new(Inner { index, context: ManuallyDrop::new(context), info, hung: AtomicBool::new(false) })))
    }

    /// The device's number among those that the driver shows.
    pub fn index(&self) -> u32 {
        self.0.index
    }

    /// What is known about the device.
    pub fn info(&self) -> &DeviceInfo {
        &self.0.info
    }

    /// Makes the context current on this thread until the guard is dropped. Wraps `cuCtxSetCurrent`.
    ///
    /// Needed only by those who call the driver themselves.
    pub fn bind(&self) -> Result<Bound> {
        let wanted = self.0.context.as_raw().cast::<c_void>();
        let restore = Restore::current()?;
        if restore.previous != wanted {
            // SAFETY: the context is alive as long as `self`, which retains it.
            sys::check(unsafe { sys::cuCtxSetCurrent(wanted) }, "cuCtxSetCurrent")?;
        }
        Ok(Bound { _restore: if restore.previous == wanted { None } else { Some(restore) } })
    }

    /// Free and total device memory, in bytes. Wraps `cuMemGetInfo`.
    pub fn memory(&self) -> Result<(usize, usize)> {
        let _bound = self.bind()?;
        cust::memory::mem_get_info().map_err(cust_error("cuMemGetInfo"))
    }

    /// Waits for all work on the device's primary context. Wraps `cuCtxSynchronize`.
    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.bind()?;
        // SAFETY: a context is current.
        sys::check(unsafe { sys::cuCtxSynchronize() }, "cuCtxSynchronize")
    }

    /// Whether a kernel was found to hang on the device. Then nothing waits for it again: what would have
    /// to wait before it frees memory leaves the memory to the end of the process.
    pub fn is_hung(&self) -> bool {
        self.0.hung.load(Ordering::Relaxed)
    }

    /// Makes a stream. Wraps `cuStreamCreateWithPriority`.
    pub fn stream(&self) -> Result<Stream> {
        let _bound = self.bind()?;
        let stream =
            cust::stream::Stream::new(StreamFlags::DEFAULT, None).map_err(cust_error("cuStreamCreateWithPriority"))?;
        let handle = stream.as_inner().cast();
        Ok(Stream { _owned: Some(stream), handle, device: self.clone() })
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Device").field(&self.0.info).finish()
    }
}

impl PartialEq for Device {
    fn eq(&self, other: &Device) -> bool {
        self.0.index == other.0.index
    }
}

fn raw_device(index: u32) -> Result<cust::device::Device> {
    cust::device::Device::get_device(index).map_err(cust_error("cuDeviceGet"))
}

impl DeviceInfo {
    fn read(index: u32, device: cust::device::Device) -> Result<DeviceInfo> {
        let get = |attribute| device.get_attribute(attribute).map_err(cust_error("cuDeviceGetAttribute"));
        let driver = cust::CudaApiVersion::get().map_err(cust_error("cuDriverGetVersion"))?;
        Ok(DeviceInfo {
            index,
            name: device.name().map_err(cust_error("cuDeviceGetName"))?,
            compute_capability: (
                get(DeviceAttribute::ComputeCapabilityMajor)?,
                get(DeviceAttribute::ComputeCapabilityMinor)?,
            ),
            multiprocessors: get(DeviceAttribute::MultiprocessorCount)? as u32,
            l2_bytes: get(DeviceAttribute::L2CacheSize)? as usize,
            memory_bytes: device.total_memory().map_err(cust_error("cuDeviceTotalMem"))?,
            pci_bus_id: format!(
                "{:04x}:{:02x}:{:02x}.0",
                get(DeviceAttribute::PciDomainId)?,
                get(DeviceAttribute::PciBusId)?,
                get(DeviceAttribute::PciDeviceId)?
            ),
            driver: CudaVersion(driver.major() * 1000 + driver.minor() * 10),
        })
    }
}

/// While this lives, a device's context is current on the thread that made it.
#[must_use = "the context is current only while the guard lives"]
pub struct Bound {
    _restore: Option<Restore>,
}

/// Puts the thread's context back when dropped.
struct Restore {
    previous: sys::ContextHandle,
    // What is current is a property of the thread.
    _not_send: PhantomData<*const ()>,
}

impl Restore {
    fn current() -> Result<Restore> {
        let mut previous = std::ptr::null_mut();
        // SAFETY: stores the thread's current context, null where there is none.
        sys::check(unsafe { sys::cuCtxGetCurrent(&mut previous) }, "cuCtxGetCurrent")?;
        Ok(Restore { previous, _not_send: PhantomData })
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        // A thread that had no context keeps ours: setting it again on every call would cost time and
        // protect nobody.
        if !self.previous.is_null() {
            // SAFETY: it was current when this guard was made. A failure leaves our context current,
            // which the thread's next call to its own library corrects.
            unsafe { sys::cuCtxSetCurrent(self.previous) };
        }
    }
}

/// A queue of work on a device: what is put into it runs in order.
///
/// Dropping a stream that has work in flight is safe: the driver lets the work finish.
pub struct Stream {
    // Before the device: fields drop in this order, and the device keeps the stream's context alive.
    _owned: Option<cust::stream::Stream>,
    handle: sys::StreamHandle,
    device: Device,
}

// SAFETY: stream handles may be used from any thread (CUDA driver API, "stream synchronization
// behavior" names no thread restriction), and cust's Stream is Send and Sync too.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    /// A stream that somebody else owns: a handle (`CUstream`, `cudaStream_t`) from `cust`, the CUDA
    /// runtime or a framework. Null is the default stream.
    ///
    /// # Safety
    /// `handle` is null or a live stream of `device`'s primary context, and stays so while the result
    /// is used.
    pub unsafe fn from_raw(device: &Device, handle: *mut c_void) -> Stream {
        Stream { _owned: None, handle, device: device.clone() }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The handle (`CUstream`, `cudaStream_t`), valid as long as `self`.
    pub fn as_raw(&self) -> *mut c_void {
        self.handle
    }

    /// Waits for all that was put into the stream, and returns what went wrong in it. Wraps
    /// `cuStreamSynchronize`.
    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.device.bind()?;
        // SAFETY: the stream is alive.
        sys::check(unsafe { sys::cuStreamSynchronize(self.handle) }, "cuStreamSynchronize")
    }

    /// As [`Stream::synchronize`], for at most `limit`.
    ///
    /// # Errors
    /// [`Error::Hang`] when the work is not done by then. Nothing can stop it: the device is of no more use
    /// to this process, and only the end of the process frees it. See [`Device::is_hung`].
    pub fn synchronize_within(&self, limit: Duration) -> Result<()> {
        /// Kernels that take less than this are waited for without sleeping.
        const SPIN: Duration = Duration::from_millis(5);
        let event = Event::new(&self.device)?;
        event.record(self)?;
        let start = Instant::now();
        while !event.is_complete()? {
            if start.elapsed() > limit {
                self.device.0.hung.store(true, Ordering::Relaxed);
                return Err(Error::Hang { seconds: limit.as_secs_f64() });
            }
            if start.elapsed() > SPIN {
                std::thread::sleep(Duration::from_micros(200));
            }
        }
        Ok(())
    }
}

/// A point in a stream, with the time at which the device reached it.
pub struct Event {
    device: Device,
    handle: sys::EventHandle,
}

// SAFETY: event handles may be used from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// Makes an event that keeps the time. Wraps `cuEventCreate`.
    pub fn new(device: &Device) -> Result<Event> {
        let _bound = device.bind()?;
        let mut handle = std::ptr::null_mut();
        // SAFETY: stores a handle; flags 0 is the default, with timing.
        sys::check(unsafe { sys::cuEventCreate(&mut handle, 0) }, "cuEventCreate")?;
        Ok(Event { device: device.clone(), handle })
    }

    /// Puts the event into `stream`. Wraps `cuEventRecord`.
    pub fn record(&self, stream: &Stream) -> Result<()> {
        let _bound = self.device.bind()?;
        // SAFETY: both are alive; the driver refuses a stream of another context.
        sys::check(unsafe { sys::cuEventRecord(self.handle, stream.handle) }, "cuEventRecord")
    }

    /// Whether the device has reached the event. Wraps `cuEventQuery`.
    pub fn is_complete(&self) -> Result<bool> {
        let _bound = self.device.bind()?;
        // SAFETY: the event is alive.
        match unsafe { sys::cuEventQuery(self.handle) } {
            sys::NOT_READY => Ok(false),
            code => sys::check(code, "cuEventQuery").map(|()| true),
        }
    }

    /// Waits until the device has reached the event. Wraps `cuEventSynchronize`.
    pub fn synchronize(&self) -> Result<()> {
        let _bound = self.device.bind()?;
        // SAFETY: the event is alive.
        sys::check(unsafe { sys::cuEventSynchronize(self.handle) }, "cuEventSynchronize")
    }

    /// Seconds between `start` and this event, both recorded and reached; about half a microsecond of
    /// resolution. Wraps `cuEventElapsedTime`.
    pub fn seconds_since(&self, start: &Event) -> Result<f64> {
        let _bound = self.device.bind()?;
        let mut milliseconds = 0f32;
        // SAFETY: both events are alive; the driver refuses events that were not recorded or reached.
        let code = unsafe { sys::cuEventElapsedTime(&mut milliseconds, start.handle, self.handle) };
        sys::check(code, "cuEventElapsedTime")?;
        Ok(f64::from(milliseconds) * 1e-3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_bound) = self.device.bind() {
            // SAFETY: nobody else has the handle. The driver lets pending work finish first. There is
            // nobody to tell of a failure.
            unsafe { sys::cuEventDestroy_v2(self.handle) };
        }
    }
}
