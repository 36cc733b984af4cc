//! Driver calls that `cust` lacks, or whose result it types as an enum of CUDA 11.4's codes.
//!
//! A newer driver returns codes that such an enum has no variant for, so these declarations return a
//! plain integer; [`check`] turns it into an [`Error`]. Calls newer than `cust`'s bindings are looked up
//! at run time by [`lookup`].

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use crate::error::{Error, Result};

/// `CUresult`: 0 is success.
pub type Code = c_uint;
/// `CUstream`.
pub type StreamHandle = *mut c_void;
/// `CUevent`.
pub type EventHandle = *mut c_void;
/// `CUfunction`.
pub type FunctionHandle = *mut c_void;
/// `CUcontext`.
pub type ContextHandle = *mut c_void;
/// `CUmodule`.
pub type ModuleHandle = *mut c_void;

/// `CUDA_ERROR_NO_DEVICE`.
pub const NO_DEVICE: Code = 100;
/// `CUDA_ERROR_NOT_READY`.
pub const NOT_READY: Code = 600;

/// `CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES`.
pub const FUNCTION_LOCAL_BYTES: c_int = 3;
/// `CU_FUNC_ATTRIBUTE_NUM_REGS`.
pub const FUNCTION_REGISTERS: c_int = 4;
/// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES`.
pub const FUNCTION_MAX_DYNAMIC_SHARED_BYTES: c_int = 8;

/// `CU_JIT_ERROR_LOG_BUFFER`.
pub const JIT_ERROR_LOG_BUFFER: c_int = 5;
/// `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
pub const JIT_ERROR_LOG_BUFFER_BYTES: c_int = 6;

/// `CU_MEMORYTYPE_HOST`.
pub const MEMORY_HOST: c_uint = 1;
/// `CU_MEMORYTYPE_DEVICE`.
pub const MEMORY_DEVICE: c_uint = 2;

/// `CUDA_MEMCPY2D`: a copy of `height` rows of `width_bytes` bytes.
#[repr(C)]
pub struct Copy2d {
    pub src_x_bytes: usize,
    pub src_y: usize,
    pub src_memory: c_uint,
    pub src_host: *const c_void,
    pub src_device: u64,
    pub src_array: *mut c_void,
    pub src_pitch: usize,
    pub dst_x_bytes: usize,
    pub dst_y: usize,
    pub dst_memory: c_uint,
    pub dst_host: *mut c_void,
    pub dst_device: u64,
    pub dst_array: *mut c_void,
    pub dst_pitch: usize,
    pub width_bytes: usize,
    pub height: usize,
}

/// `CUlaunchConfig`.
#[repr(C)]
pub struct LaunchConfig {
    pub grid: [c_uint; 3],
    pub block: [c_uint; 3],
    pub dynamic_shared_bytes: c_uint,
    pub stream: StreamHandle,
    pub attributes: *const LaunchAttribute,
    pub attribute_count: c_uint,
}

/// `CUlaunchAttribute`, whose value is a union of 64 bytes; those that are set here are one integer.
#[repr(C, align(8))]
pub struct LaunchAttribute {
    pub id: c_int,
    pub padding: c_int,
    pub value: c_int,
    pub rest: [c_int; 15],
}

/// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`.
pub const LAUNCH_PROGRAMMATIC_STREAM_SERIALIZATION: c_int = 6;

/// `cuLaunchKernelEx`, of CUDA 11.8 and later.
pub type LaunchKernelEx = unsafe extern "C" fn(
    config: *const LaunchConfig,
    function: FunctionHandle,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Code;

// `cust` links libcuda; these names are as the driver exports them.
unsafe extern "C" {
    pub fn cuInit(flags: c_uint) -> Code;
    pub fn cuGetErrorName(code: Code, name: *mut *const c_char) -> Code;
    pub fn cuGetErrorString(code: Code, text: *mut *const c_char) -> Code;
    pub fn cuCtxGetCurrent(context: *mut ContextHandle) -> Code;
    pub fn cuCtxSetCurrent(context: ContextHandle) -> Code;
    pub fn cuCtxSynchronize() -> Code;
    pub fn cuModuleLoadDataEx(
        module: *mut ModuleHandle,
        image: *const c_void,
        option_count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void,
    ) -> Code;
    pub fn cuModuleUnload(module: ModuleHandle) -> Code;
    pub fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: FunctionHandle) -> Code;
    pub fn cuFuncSetAttribute(function: FunctionHandle, attribute: c_int, value: c_int) -> Code;
    pub fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: FunctionHandle,
        threads: c_int,
        dynamic_shared_bytes: usize,
    ) -> Code;
    pub fn cuStreamSynchronize(stream: StreamHandle) -> Code;
    pub fn cuEventCreate(event: *mut EventHandle, flags: c_uint) -> Code;
    pub fn cuEventRecord(event: EventHandle, stream: StreamHandle) -> Code;
    pub fn cuEventQuery(event: EventHandle) -> Code;
    pub fn cuEventSynchronize(event: EventHandle) -> Code;
    pub fn cuEventElapsedTime(milliseconds: *mut f32, start: EventHandle, end: EventHandle) -> Code;
    pub fn cuEventDestroy_v2(event: EventHandle) -> Code;
    pub fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: StreamHandle) -> Code;
    pub fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: StreamHandle) -> Code;
    pub fn cuMemcpy2DAsync_v2(copy: *const Copy2d, stream: StreamHandle) -> Code;
    pub fn cuMemsetD2D16Async(
        pointer: u64,
        pitch_bytes: usize,
        value: u16,
        width: usize,
        height: usize,
        stream: StreamHandle,
    ) -> Code;
    pub fn cuGetProcAddress(symbol: *const c_char, function: *mut *mut c_void, cuda_version: c_int, flags: u64)
    -> Code;
}

/// `Ok` for success; otherwise the driver's own name and text for the code that `call` returned.
pub fn check(code: Code, call: &'static str) -> Result<()> {
    if code == 0 { Ok(()) } else { Err(error(code, call)) }
}

/// The error for `code`, not 0, that `call` returned.
pub fn error(code: Code, call: &'static str) -> Error {
    Error::Driver { call, code, name: describe(code, cuGetErrorName), text: describe(code, cuGetErrorString) }
}

/// What one of the driver's two describing calls says about `code`; `unknown` for a code it does not
/// know.
fn describe(code: Code, call: unsafe extern "C" fn(Code, *mut *const c_char) -> Code) -> String {
    let mut text = std::ptr::null();
    // SAFETY: the call stores a pointer to a static string, or returns an error and stores none.
    let known = unsafe { call(code, &mut text) } == 0 && !text.is_null();
    if !known {
        return String::from("unknown");
    }
    // SAFETY: the driver's strings are NUL-terminated and live as long as the process.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The address of the driver function `symbol` as of CUDA `version` (12000 for 12.0), never null.
///
/// Wraps `cuGetProcAddress`, which needs `cuInit` first.
pub fn lookup(symbol: &'static CStr, version: i32) -> Result<*mut c_void> {
    let mut function = std::ptr::null_mut();
    // SAFETY: `symbol` is NUL-terminated and `function` outlives the call; flags 0 is the default search.
    let code = unsafe { cuGetProcAddress(symbol.as_ptr(), &mut function, version, 0) };
    check(code, "cuGetProcAddress")?;
    if function.is_null() {
        return Err(Error::DriverCallMissing { symbol: symbol.to_string_lossy().into_owned(), since: version });
    }
    Ok(function)
}

/// The driver function `symbol` as of CUDA `version`, [looked up](lookup) the first time and kept in `found`.
///
/// # Safety
/// `F` is the type of a pointer to that function.
pub unsafe fn function<F: Copy>(found: &OnceLock<F>, symbol: &'static CStr, version: i32) -> Result<F> {
    const { assert!(size_of::<F>() == size_of::<*mut c_void>()) }
    if let Some(function) = found.get() {
        return Ok(*function);
    }
    let address = lookup(symbol, version)?;
    // SAFETY: the driver returned the address of the function, and the caller promises its type.
    let function = unsafe { std::mem::transmute_copy::<*mut c_void, F>(&address) };
    Ok(*found.get_or_init(|| function))
}
