//! Kernels on a device: loading their modules, what the driver says about them, and checked launches.

use std::collections::HashMap;
use std::ffi::{CString, c_int, c_void};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cust::error::CudaError;
use smallvec::SmallVec;

use super::driver::{CudaVersion, Device, DeviceInfo, Stream, cust_error};
use super::sys;
use super::tensor_map::Encoded;
use crate::error::{Error, Result};
use crate::modules::{self, Module};

/// What a kernel's machine code was made by.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// ptxas, when the program was built.
    Cubin,
    /// The driver, from the PTX, when the kernel was loaded.
    Jit,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Origin::Cubin => "cubin",
            Origin::Jit => "jit",
        })
    }
}

/// Where machine code is to come from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Prefer {
    /// The embedded cubin where there is one that the driver accepts, otherwise its JIT.
    #[default]
    Cubin,
    /// The driver's JIT, always.
    Jit,
}

impl Prefer {
    /// [`Prefer::Jit`] where the environment says `HOPPER_GEMM_JIT=1`.
    pub fn from_environment() -> Prefer {
        if std::env::var_os("HOPPER_GEMM_JIT").is_some_and(|value| value == "1") { Prefer::Jit } else { Prefer::Cubin }
    }
}

/// The kernels of one device, each loaded when it is first asked for. May be shared by threads.
pub struct Kernels {
    device: Device,
    prefer: Prefer,
    loaded: Mutex<HashMap<&'static str, Slot>>,
}

/// Where a kernel is kept once it is loaded. Each has a lock of its own, so that compiling one kernel does
/// not hold up another.
type Slot = Arc<Mutex<Option<Arc<Kernel>>>>;

impl Kernels {
    /// For `device`, loading nothing yet.
    ///
    /// # Errors
    /// When the device is not of compute capability 9.0, the only one that executes these kernels.
    pub fn new(device: &Device, prefer: Prefer) -> Result<Kernels> {
        check_compute_capability(device.info())?;
        Ok(Kernels { device: device.clone(), prefer, loaded: Mutex::new(HashMap::new()) })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel whose PTX entry is `entry`, loaded now if it was not before.
    pub fn get(&self, entry: &str) -> Result<Arc<Kernel>> {
        let module = modules::by_entry(entry).ok_or_else(|| Error::UnknownEntry { entry: entry.to_string() })?;
        // A panic while a lock was held leaves a slot empty or full, both of which are sound.
        let slot = {
            let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
            loaded.entry(module.entry).or_default().clone()
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(kernel) = &*slot {
            return Ok(kernel.clone());
        }
        let kernel = Arc::new(Kernel::load(&self.device, module, self.prefer)?);
        *slot = Some(kernel.clone());
        Ok(kernel)
    }
}

/// A kernel loaded on a device.
pub struct Kernel {
    // Taken out only by `drop`, which needs the context to be current.
    image: Option<cust::module::Module>,
    function: sys::FunctionHandle,
    module: &'static Module,
    origin: Origin,
    usage: Usage,
    /// Whether it waits, by itself, for the kernels before it in the stream.
    overlaps: bool,
    device: Device,
}

// SAFETY: module and function handles may be used from any thread; launches do not change them.
unsafe impl Send for Kernel {}
// SAFETY: as above.
unsafe impl Sync for Kernel {}

/// What a kernel takes of a multiprocessor, as the driver reports it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Usage {
    /// Registers of a thread.
    pub registers: u32,
    /// Local memory of a thread, in bytes: 0 when nothing is spilled.
    pub local_bytes: u32,
    /// Blocks that fit on a multiprocessor together.
    pub blocks_per_multiprocessor: u32,
}

impl Kernel {
    /// Loads `module` on `device`, with machine code from where `prefer` says. [`Kernels::get`] does this
    /// for the embedded modules, once each.
    pub fn load(device: &Device, module: &'static Module, prefer: Prefer) -> Result<Kernel> {
        let _bound = device.bind()?;
        let (image, origin) = load_image(device, module, prefer)?;
        let function =
            image.get_function(module.entry).map_err(cust_error("cuModuleGetFunction"))?.to_raw().cast::<c_void>();
        // From here on `Drop` unloads the module if anything fails.
        let mut kernel = Kernel {
            image: Some(image),
            function,
            module,
            origin,
            usage: Usage { registers: 0, local_bytes: 0, blocks_per_multiprocessor: 0 },
            overlaps: module.ptx.contains("griddepcontrol.wait"),
            device: device.clone(),
        };
        // SAFETY: the function is loaded. Above 48 KiB a launch needs this permission; it is given once,
        // here, so that no launch changes it.
        let code = unsafe {
            sys::cuFuncSetAttribute(
                function,
                sys::FUNCTION_MAX_DYNAMIC_SHARED_BYTES,
                c_int::try_from(module.shared_bytes).unwrap_or(c_int::MAX),
            )
        };
        sys::check(code, "cuFuncSetAttribute")?;
        kernel.usage = kernel.read_usage()?;
        Ok(kernel)
    }

    fn read_usage(&self) -> Result<Usage> {
        let attribute = |attribute| -> Result<u32> {
            let mut value = 0;
            // SAFETY: the function is loaded and `value` outlives the call.
            let code = unsafe { sys::cuFuncGetAttribute(&mut value, attribute, self.function) };
            sys::check(code, "cuFuncGetAttribute")?;
            Ok(value as u32)
        };
        let mut blocks = 0;
        // SAFETY: as above.
        let code = unsafe {
            sys::cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &mut blocks,
                self.function,
                self.module.threads as c_int,
                self.module.shared_bytes,
            )
        };
        sys::check(code, "cuOccupancyMaxActiveBlocksPerMultiprocessor")?;
        Ok(Usage {
            registers: attribute(sys::FUNCTION_REGISTERS)?,
            local_bytes: attribute(sys::FUNCTION_LOCAL_BYTES)?,
            blocks_per_multiprocessor: blocks as u32,
        })
    }

    /// What was embedded for this kernel by the build.
    pub fn module(&self) -> &'static Module {
        self.module
    }

    /// What made the machine code.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// What it takes of a multiprocessor.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// The device on which it is loaded.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Puts a launch of `blocks` blocks into `stream`. Threads, shared memory and cluster are those that
    /// the kernel was compiled for. Wraps `cuLaunchKernelEx`.
    ///
    /// A kernel that has `griddepcontrol.wait` is launched to overlap its set-up with the end of the kernel before
    /// it in the stream (attribute "programmatic stream serialization").
    ///
    /// # Errors
    /// When the parameters are not as many or as large as the kernel's, when the number of blocks is 0,
    /// above 2³¹−1 or not a multiple of the cluster, or when the stream is of another device.
    ///
    /// # Safety
    /// The parameters mean what the kernel takes them for: pointers and tensor maps describe live device
    /// memory of the sizes passed with them, which stays alive until the launch has finished and which
    /// nothing else writes meanwhile.
    pub unsafe fn launch(&self, stream: &Stream, blocks: u64, parameters: &[Parameter<'_>]) -> Result<()> {
        self.check_launch(stream, blocks, parameters)?;
        let mut pointers: SmallVec<[*mut c_void; INLINE_PARAMETERS]> =
            parameters.iter().map(|parameter| parameter.bytes.as_ptr().cast_mut().cast()).collect();
        let _bound = self.device.bind()?;
        let overlap = sys::LaunchAttribute {
            id: sys::LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION,
            padding: 0,
            value: 1,
            rest: [0; 15],
        };
        let config = sys::LaunchConfig {
            grid: [blocks as u32, 1, 1],
            block: [self.module.threads as u32, 1, 1],
            dynamic_shared_bytes: self.module.shared_bytes as u32,
            stream: stream.as_raw(),
            attributes: &overlap,
            attribute_count: self.overlaps.into(),
        };
        static LAUNCH: OnceLock<sys::LaunchKernelEx> = OnceLock::new();
        // SAFETY: the call has this signature since CUDA 11.8.
        let launch = unsafe { sys::function(&LAUNCH, c"cuLaunchKernelEx", 11080) }?;
        // SAFETY: the driver copies each parameter's bytes, as many as the kernel's parameter has, and the
        // attribute before it returns; their meaning is promised by the caller. A kernel that may start before
        // the one before has ended waits for that end before it touches memory.
        let code = unsafe { launch(&config, self.function, pointers.as_mut_ptr(), std::ptr::null_mut()) };
        sys::check(code, "cuLaunchKernelEx")
    }

    fn check_launch(&self, stream: &Stream, blocks: u64, parameters: &[Parameter<'_>]) -> Result<()> {
        let refuse = |reason: String| Err(Error::Launch { entry: self.module.entry, reason });
        let expected = self.module.params;
        if parameters.len() != expected.len() {
            return refuse(format!("it takes {} parameters and got {}", expected.len(), parameters.len()));
        }
        for (i, (parameter, &bytes)) in parameters.iter().zip(expected).enumerate() {
            if parameter.bytes.len() != bytes {
                return refuse(format!("its parameter {i} has {bytes} bytes and got {}", parameter.bytes.len()));
            }
        }
        if blocks == 0 || blocks > i32::MAX as u64 {
            return refuse(format!("a grid may have 1 to 2^31-1 blocks, not {blocks}"));
        }
        if !blocks.is_multiple_of(self.module.cluster.max(1) as u64) {
            return refuse(format!("{blocks} blocks are not a multiple of its cluster of {}", self.module.cluster));
        }
        self.check_stream(stream)
    }

    /// Refuses a stream of another device.
    pub(super) fn check_stream(&self, stream: &Stream) -> Result<()> {
        if *stream.device() == self.device {
            return Ok(());
        }
        Err(Error::WrongDevice { what: "the stream", device: stream.device().index(), expected: self.device.index() })
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernel")
            .field("entry", &self.module.entry)
            .field("origin", &self.origin)
            .field("usage", &self.usage)
            .finish_non_exhaustive()
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // Code must not go away under a launch that is still running. There is nobody to tell of a
        // failure, and then unloading would be unsound: the module is left to the context.
        match self.device.bind() {
            Ok(_bound) if !self.device.is_hung() && self.device.synchronize().is_ok() => drop(self.image.take()),
            _ => std::mem::forget(self.image.take()),
        }
    }
}

/// Parameters that a list of them holds without the heap: more than any kernel takes.
pub(super) const INLINE_PARAMETERS: usize = 16;

/// One kernel parameter: its bytes.
#[derive(Clone, Copy)]
pub struct Parameter<'a> {
    bytes: &'a [u8],
}

/// A type that may be a kernel parameter: plain data without padding, laid out as the device expects.
///
/// # Safety
/// Every byte of a value is initialised.
pub unsafe trait ParameterType: Copy {}
// SAFETY: no padding.
unsafe impl ParameterType for u32 {}
// SAFETY: no padding. Device pointers are passed as u64 too.
unsafe impl ParameterType for u64 {}
// SAFETY: sixteen u64 fill its 128 bytes.
unsafe impl ParameterType for Encoded {}

impl<'a> Parameter<'a> {
    /// The bytes of `value`.
    pub fn of<T: ParameterType>(value: &'a T) -> Parameter<'a> {
        // SAFETY: `value` is as many initialised bytes, borrowed as long as the result.
        Parameter { bytes: unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast(), size_of::<T>()) } }
    }
}

/// Loads `module` into the current context.
fn load_image(device: &Device, module: &Module, prefer: Prefer) -> Result<(cust::module::Module, Origin)> {
    if let (Prefer::Cubin, Some(cubin)) = (prefer, module.cubin) {
        match cust::module::Module::from_cubin(cubin, &[]) {
            Ok(image) => return Ok((image, Origin::Cubin)),
            Err(CudaError::OutOfMemory) => return Err(cust_error("cuModuleLoadDataEx")(CudaError::OutOfMemory)),
            // A cubin from a newer toolkit than the driver, most likely: the PTX may still do, and if it
            // does not, its log says why.
            Err(_) => {}
        }
    }
    check_driver(device.info().driver, module.ptx)?;
    let text = CString::new(module.ptx).map_err(|_| Error::Jit {
        entry: module.entry,
        code: String::from("not compiled"),
        log: String::from("the PTX contains a NUL character"),
    })?;
    match cust::module::Module::from_ptx_cstr(&text, &[]) {
        Ok(image) => Ok((image, Origin::Jit)),
        Err(CudaError::OutOfMemory) => Err(cust_error("cuModuleLoadDataEx")(CudaError::OutOfMemory)),
        Err(error) => Err(Error::Jit { entry: module.entry, code: format!("{error:?}"), log: jit_log(&text) }),
    }
}

/// What the driver's JIT says about PTX that it does not accept. cust keeps no log, so the JIT is asked
/// again.
fn jit_log(ptx: &std::ffi::CStr) -> String {
    const LOG_BYTES: usize = 16 * 1024;
    let mut errors = vec![0u8; LOG_BYTES];
    // Options that are numbers are passed in place of the pointer (CUDA driver API, "cuModuleLoadDataEx").
    let mut options = [sys::JIT_ERROR_LOG_BUFFER, sys::JIT_ERROR_LOG_BUFFER_BYTES];
    let mut values = [errors.as_mut_ptr().cast::<c_void>(), LOG_BYTES as *mut c_void];
    let mut handle = std::ptr::null_mut();
    // SAFETY: the text is NUL-terminated, the buffer has the size given and outlives the call.
    let code = unsafe {
        sys::cuModuleLoadDataEx(
            &mut handle,
            ptx.as_ptr().cast(),
            options.len() as u32,
            options.as_mut_ptr(),
            values.as_mut_ptr(),
        )
    };
    if code == 0 {
        // SAFETY: just loaded, and nobody has the handle.
        unsafe { sys::cuModuleUnload(handle) };
        return String::from("compiled when tried again");
    }
    let end = errors.iter().position(|&byte| byte == 0).unwrap_or(LOG_BYTES);
    let log = String::from_utf8_lossy(&errors[..end]).trim().to_string();
    if log.is_empty() { sys::error(code, "cuModuleLoadDataEx").to_string() } else { log }
}

/// Refuses every device but those that have the instructions of `sm_90a`.
fn check_compute_capability(info: &DeviceInfo) -> Result<()> {
    let (major, minor) = info.compute_capability;
    if (major, minor) != (9, 0) {
        return Err(Error::ComputeCapability { device: info.name.clone(), major, minor });
    }
    Ok(())
}

/// Refuses a driver that is too old for the PTX.
fn check_driver(driver: CudaVersion, ptx: &str) -> Result<()> {
    match modules::driver_for_ptx(ptx) {
        Some((isa, needed)) if driver.0 < needed => {
            Err(Error::DriverTooOld { driver: driver.to_string(), isa, needed: CudaVersion(needed).to_string() })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_driver_is_told_both_versions() {
        let ptx = ".version 8.0\n";
        assert!(check_driver(CudaVersion(12000), ptx).is_ok());
        let message = check_driver(CudaVersion(11080), ptx).unwrap_err().to_string();
        assert!(message.contains("11.8") && message.contains("12.0") && message.contains("8.0"), "{message}");
    }

    #[test]
    fn only_hopper_will_do() {
        let info = |compute_capability| DeviceInfo {
            index: 0,
            name: String::from("NVIDIA L4"),
            compute_capability,
            multiprocessors: 58,
            l2_bytes: 48 << 20,
            memory_bytes: 24 << 30,
            pci_bus_id: String::from("0000:00:00.0"),
            driver: CudaVersion(13000),
        };
        assert!(check_compute_capability(&info((9, 0))).is_ok());
        for other in [(8, 9), (9, 1), (10, 0), (12, 0)] {
            let message = check_compute_capability(&info(other)).unwrap_err().to_string();
            assert!(message.contains(&format!("{}.{}", other.0, other.1)) && message.contains("9.0"), "{message}");
        }
    }

    #[test]
    fn parameters_have_the_bytes_of_their_type() {
        assert_eq!(Parameter::of(&1u32).bytes.len(), 4);
        assert_eq!(Parameter::of(&1u64).bytes.len(), 8);
        assert_eq!(Parameter::of(&Encoded([0; 16])).bytes.len(), 128);
    }
}
