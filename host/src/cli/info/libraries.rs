//! What runs the kernels: the driver and its devices, NVML, and cuBLAS to compare with. All are loaded here
//! at run time, so that the doctor works without them and without the feature `cuda`.

use std::error::Error;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::path::PathBuf;

use hopper_gemm::modules::{self, MODULES};
use hopper_gemm::search;
use hopper_gemm::units;
use libloading::Library;

use super::Finding;

const DRIVER_ADVICE: &str = "install NVIDIA's driver for Linux, of CUDA 12.0 or newer; in a container, give it the GPU \
                             (`--gpus all`)";

/// The findings, and whether there is a device for the kernels and a driver that can load them.
pub fn findings() -> (Vec<Finding>, bool) {
    let mut findings = Vec::new();
    let mut usable = false;
    match Driver::load() {
        Ok(driver) => {
            let (finding, fit) = driver.finding();
            findings.push(finding);
            match driver.devices() {
                Ok(devices) if devices.is_empty() => findings.push(no_device("the driver shows none")),
                Ok(devices) => {
                    usable = fit && devices.iter().any(Device::is_fit);
                    findings.extend(devices.iter().map(Device::finding));
                }
                Err(why) => findings.push(no_device(&why)),
            }
        }
        Err(why) => {
            findings.push(Finding::missing("driver", why, "without NVIDIA's driver no GPU can be used", DRIVER_ADVICE));
        }
    }
    findings.push(nvml());
    findings.push(cublas());
    (findings, usable)
}

fn no_device(why: &str) -> Finding {
    Finding::missing(
        "device",
        why,
        "no GPU to run the kernels on",
        "they run on an H100, H200 or GH200; CUDA_VISIBLE_DEVICES may hide one",
    )
}

/// Loads the first of these libraries that there is.
fn load(names: &[impl AsRef<OsStr>]) -> Result<Library, String> {
    let mut why = String::new();
    for name in names {
        // SAFETY: these are NVIDIA's libraries, whose initialisation has no preconditions.
        match unsafe { Library::new(name.as_ref()) } {
            Ok(library) => return Ok(library),
            Err(error) => why = reason(&error),
        }
    }
    Err(why)
}

/// What went wrong; libloading keeps the system's own words one level down.
fn reason(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |source| source.to_string())
}

/// The driver's library.
struct Driver {
    library: Library,
}

/// A result of the driver API; 0 is success.
type CuResult = c_int;

impl Driver {
    fn load() -> Result<Self, String> {
        Ok(Driver { library: load(&["libcuda.so.1", "libcuda.so"])? })
    }

    /// A function of the library.
    ///
    /// # Safety
    /// `T` is the type of the function `name`.
    unsafe fn symbol<T>(&self, name: &str) -> Result<libloading::Symbol<'_, T>, String> {
        // SAFETY: as above.
        unsafe { self.library.get(name) }.map_err(|error| reason(&error))
    }

    fn check(&self, code: CuResult, call: &str) -> Result<(), String> {
        if code == 0 {
            return Ok(());
        }
        let mut text: *const c_char = std::ptr::null();
        // SAFETY: the type is that of cuGetErrorString, which stores a static string or null.
        let text = unsafe {
            type GetErrorString = unsafe extern "C" fn(CuResult, *mut *const c_char) -> CuResult;
            self.symbol::<GetErrorString>("cuGetErrorString")?(code, &mut text);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(format!("{call} fails: {text} ({code})"))
    }

    /// The CUDA version that the driver supports, `1000 * major + 10 * minor`.
    fn version(&self) -> Result<c_int, String> {
        let mut version = 0;
        // SAFETY: the type is that of cuDriverGetVersion, which stores a number.
        let code =
            unsafe { self.symbol::<unsafe extern "C" fn(*mut c_int) -> CuResult>("cuDriverGetVersion")?(&mut version) };
        self.check(code, "cuDriverGetVersion")?;
        Ok(version)
    }

    /// What the driver is, and whether it can load the kernels.
    fn finding(&self) -> (Finding, bool) {
        let version = match self.version() {
            Ok(version) => version,
            Err(why) => return (Finding::missing("driver", why, "the driver does not work", DRIVER_ADVICE), false),
        };
        let found = format!("supports CUDA {}.{}", version / 1000, version % 1000 / 10);
        let needed =
            MODULES.iter().filter_map(|module| modules::driver_for_ptx(module.ptx)).map(|(_, cuda)| cuda).max();
        match needed {
            Some(needed) if version < needed => {
                let meaning = format!("the kernels need a driver for CUDA {}.{}", needed / 1000, needed % 1000 / 10);
                (Finding::missing("driver", found, meaning, DRIVER_ADVICE), false)
            }
            _ => (Finding::ok("driver", found, "new enough for the kernels"), true),
        }
    }

    fn devices(&self) -> Result<Vec<Device>, String> {
        /// CUDA_ERROR_NO_DEVICE.
        const NO_DEVICE: CuResult = 100;
        // SAFETY: the type is that of cuInit, whose flags must be 0.
        match unsafe { self.symbol::<unsafe extern "C" fn(u32) -> CuResult>("cuInit")?(0) } {
            NO_DEVICE => return Ok(Vec::new()),
            code => self.check(code, "cuInit")?,
        }
        let mut count = 0;
        // SAFETY: the type is that of cuDeviceGetCount, which stores a number.
        let code =
            unsafe { self.symbol::<unsafe extern "C" fn(*mut c_int) -> CuResult>("cuDeviceGetCount")?(&mut count) };
        self.check(code, "cuDeviceGetCount")?;
        (0..count).map(|index| self.device(index)).collect()
    }

    fn device(&self, index: c_int) -> Result<Device, String> {
        // CUdevice_attribute in the CUDA driver API.
        const MULTIPROCESSORS: c_int = 16;
        const CAPABILITY_MAJOR: c_int = 75;
        const CAPABILITY_MINOR: c_int = 76;
        let mut name = [0u8; 256];
        let mut memory = 0usize;
        // SAFETY: the types are those of cuDeviceGetName, which writes at most the length given and ends
        // with a zero, and cuDeviceTotalMem. Device handles are the numbers below the count.
        unsafe {
            type GetName = unsafe extern "C" fn(*mut u8, c_int, c_int) -> CuResult;
            type TotalMemory = unsafe extern "C" fn(*mut usize, c_int) -> CuResult;
            let code = self.symbol::<GetName>("cuDeviceGetName")?(name.as_mut_ptr(), name.len() as c_int, index);
            self.check(code, "cuDeviceGetName")?;
            let code = self.symbol::<TotalMemory>("cuDeviceTotalMem_v2")?(&mut memory, index);
            self.check(code, "cuDeviceTotalMem")?;
        }
        let attribute = |attribute: c_int| -> Result<c_int, String> {
            let mut value = 0;
            type GetAttribute = unsafe extern "C" fn(*mut c_int, c_int, c_int) -> CuResult;
            // SAFETY: the type is that of cuDeviceGetAttribute, which stores a number.
            let code = unsafe { self.symbol::<GetAttribute>("cuDeviceGetAttribute")?(&mut value, attribute, index) };
            self.check(code, "cuDeviceGetAttribute")?;
            Ok(value)
        };
        Ok(Device {
            index,
            name: CStr::from_bytes_until_nul(&name).map_or("?".to_owned(), |name| name.to_string_lossy().into_owned()),
            capability: (attribute(CAPABILITY_MAJOR)?, attribute(CAPABILITY_MINOR)?),
            multiprocessors: attribute(MULTIPROCESSORS)?,
            memory: memory as u64,
        })
    }
}

struct Device {
    index: c_int,
    name: String,
    capability: (c_int, c_int),
    multiprocessors: c_int,
    memory: u64,
}

impl Device {
    fn is_fit(&self) -> bool {
        self.capability == (9, 0)
    }

    fn finding(&self) -> Finding {
        let Device { index, name, capability: (major, minor), multiprocessors, memory } = self;
        let found = format!(
            "cuda:{index} is {name}, compute capability {major}.{minor}, {multiprocessors} multiprocessors, {}",
            units::bytes(u128::from(*memory))
        );
        if self.is_fit() {
            Finding::ok("device", found, "runs the kernels")
        } else {
            Finding::missing(
                "device",
                found,
                "the kernels use instructions that exist only in compute capability 9.0",
                "they run on an H100, H200 or GH200",
            )
        }
    }
}

fn nvml() -> Finding {
    match nvml_version() {
        Ok(version) => {
            Finding::ok("NVML", format!("driver {version}"), "tells clock, power and energy while a benchmark runs")
        }
        Err(why) => Finding::missing(
            "NVML",
            why,
            "benchmarks run, without clock, power and energy",
            "it comes with NVIDIA's driver; in a container, add the driver capability `utility`",
        ),
    }
}

fn nvml_version() -> Result<String, String> {
    let library = load(&["libnvidia-ml.so.1", "libnvidia-ml.so"])?;
    let failed = |error: libloading::Error| reason(&error);
    let mut version = [0u8; 80];
    // SAFETY: the types are those of NVML's API, which calls them in this order and writes at most the length
    // given, ending with a zero.
    let code = unsafe {
        type NoArguments = unsafe extern "C" fn() -> c_int;
        type GetVersion = unsafe extern "C" fn(*mut u8, u32) -> c_int;
        let init = library.get::<NoArguments>("nvmlInit_v2").map_err(failed)?;
        let get = library.get::<GetVersion>("nvmlSystemGetDriverVersion").map_err(failed)?;
        let shutdown = library.get::<NoArguments>("nvmlShutdown").map_err(failed)?;
        match init() {
            0 => {
                let code = get(version.as_mut_ptr(), version.len() as u32);
                shutdown();
                code
            }
            code => code,
        }
    };
    if code != 0 {
        return Err(format!("NVML does not start: code {code}"));
    }
    Ok(CStr::from_bytes_until_nul(&version).map_or("?".to_owned(), |version| version.to_string_lossy().into_owned()))
}

fn cublas() -> Finding {
    match cublas_version() {
        Ok((version, path)) => {
            let number = format!("{}.{}.{}", version / 10000, version % 10000 / 100, version % 100);
            Finding::ok("cuBLAS", format!("{number}, {}", path.display()), "what benchmarks compare with")
        }
        Err(why) => Finding::missing(
            "cuBLAS",
            why,
            "benchmarks run, without anything to compare with",
            &format!("it comes with CUDA, or `pip install nvidia-cublas`; {} may name its folder", search::VARIABLE),
        ),
    }
}

fn cublas_version() -> Result<(usize, PathBuf), String> {
    let name = "libcublasLt.so";
    for path in search::candidates(name, &search::folders()) {
        if let Ok(library) = load(&[&path]) {
            // SAFETY: the type is that of cublasLtGetVersion, which needs no initialisation.
            let version = unsafe {
                library.get::<unsafe extern "C" fn() -> usize>("cublasLtGetVersion").map(|version| version())
            };
            return version.map(|version| (version, path)).map_err(|error| reason(&error));
        }
    }
    let versions = search::VERSIONS.join(" or ");
    Err(format!("no {name} of version {versions} where the system looks, in CUDA_HOME, or among Python's packages"))
}
