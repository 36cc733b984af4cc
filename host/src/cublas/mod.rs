//! cuBLAS, as the thing to compare with.
//!
//! cuBLAS and cuBLASLt are loaded at run time: nothing needs them when the program is built or when it does
//! not compare. They work in the device's primary context, as [`crate::cuda`] does, and on its streams.

mod algorithm;
mod library;

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};

use cudarc::cublas::sys as blas;
use cudarc::cublaslt::{result as lt, sys};
use half::f16;

pub use self::algorithm::Algorithm;
use crate::cuda::{Device, DeviceMatrix, Stream};
use crate::error::{Error, Result};
use crate::problem::Problem;

/// Bytes of workspace: what NVIDIA recommends for Hopper (cuBLAS, `cublasSetWorkspace`).
const WORKSPACE_BYTES: usize = 32 << 20;

/// The libraries, with a handle and a workspace on one device.
pub struct Cublas {
    device: Device,
    lt: sys::cublasLtHandle_t,
    blas: blas::cublasHandle_t,
    // A matrix because that is how this crate owns device memory; its elements mean nothing.
    workspace: DeviceMatrix<f16>,
    // The stream that the handle of cuBLAS was last given.
    stream: Cell<*mut c_void>,
}

/// Device addresses of the first elements of A, B and C.
#[derive(Clone, Copy, Debug)]
pub struct Operands {
    /// Address of A.
    pub a: u64,
    /// Address of B.
    pub b: u64,
    /// Address of C.
    pub c: u64,
}

impl Cublas {
    /// Loads the libraries, if that was not done before, and makes their handles on `device`. Wraps
    /// `cublasLtCreate` and `cublasCreate`.
    ///
    /// # Errors
    /// When a library is not found: the error says where it was looked for and how to say where it is.
    pub fn new(device: &Device) -> Result<Cublas> {
        library::load()?;
        let workspace = DeviceMatrix::new(device, 1, WORKSPACE_BYTES / size_of::<f16>())?;
        let _bound = device.bind()?;
        let lt = lt::create_handle().map_err(|error| failed("cublasLtCreate", error.0))?;
        let blas = match cudarc::cublas::result::create_handle() {
            Ok(blas) => blas,
            Err(error) => {
                // SAFETY: made above and used by nobody.
                let _ = unsafe { lt::destroy_handle(lt) };
                return Err(failed("cublasCreate", error.0));
            }
        };
        Ok(Cublas { device: device.clone(), lt, blas, workspace, stream: Cell::new(std::ptr::null_mut()) })
    }

    /// Names and versions of the libraries that were loaded. Wraps `cublasLtGetVersion` and
    /// `cublasGetVersion`.
    pub fn versions(&self) -> Result<BTreeMap<String, String>> {
        // SAFETY: takes nothing.
        let lt = unsafe { sys::cublasLtGetVersion() };
        let mut version: c_int = 0;
        // SAFETY: the handle is alive, `version` outlives the call.
        let status = unsafe { blas::cublasGetVersion_v2(self.blas, &mut version) };
        status.result().map_err(|error| failed("cublasGetVersion", error.0))?;
        Ok(BTreeMap::from([
            (String::from("cuBLASLt"), version_name(lt)),
            (String::from("cuBLAS"), version_name(version as usize)),
        ]))
    }

    /// Describes `problem` to cuBLASLt.
    ///
    /// cuBLAS reads matrices column-major. A row-major A of M×K is a column-major Aᵀ of K×M, so that
    /// C = A·Bᵀ becomes Cᵀ = B·Aᵀ with the first operand transposed: its M is our N and its N our M.
    pub fn product(&self, problem: &Problem) -> Result<Product<'_>> {
        let _bound = self.device.bind()?;
        let data_type = data_type(problem);
        let mut product = Product {
            cublas: self,
            problem: *problem,
            operation: std::ptr::null_mut(),
            layouts: [std::ptr::null_mut(); 3],
        };
        product.operation =
            lt::create_matmul_desc(sys::cublasComputeType_t::CUBLAS_COMPUTE_32F, sys::cudaDataType_t::CUDA_R_32F)
                .map_err(|error| failed("cublasLtMatmulDescCreate", error.0))?;
        let (m, n, k) = (problem.m() as u64, problem.n() as u64, problem.k() as u64);
        let shapes = [(k, n, problem.ldb()), (k, m, problem.lda()), (n, m, problem.ldc())];
        for (layout, (rows, columns, ld)) in product.layouts.iter_mut().zip(shapes) {
            *layout = lt::create_matrix_layout(data_type, rows, columns, ld as i64)
                .map_err(|error| failed("cublasLtMatrixLayoutCreate", error.0))?;
        }
        for (attribute, operation) in [
            (sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSA, blas::cublasOperation_t::CUBLAS_OP_T),
            (sys::cublasLtMatmulDescAttributes_t::CUBLASLT_MATMUL_DESC_TRANSB, blas::cublasOperation_t::CUBLAS_OP_N),
        ] {
            let value = operation as i32;
            // SAFETY: the descriptor is alive, and the attribute is a 32-bit integer.
            unsafe {
                lt::set_matmul_desc_attribute(
                    product.operation,
                    attribute,
                    std::ptr::from_ref(&value).cast(),
                    size_of_val(&value),
                )
            }
            .map_err(|error| failed("cublasLtMatmulDescSetAttribute", error.0))?;
        }
        Ok(product)
    }
}

impl Drop for Cublas {
    fn drop(&mut self) {
        // Both calls wait for the device.
        if self.device.is_hung() {
            return;
        }
        if let Ok(_bound) = self.device.bind() {
            // SAFETY: nobody else has the handles. There is nobody to tell of a failure.
            unsafe {
                let _ = lt::destroy_handle(self.lt);
                let _ = cudarc::cublas::result::destroy_handle(self.blas);
            }
        }
    }
}

/// A product as cuBLAS describes it.
pub struct Product<'a> {
    cublas: &'a Cublas,
    problem: Problem,
    operation: sys::cublasLtMatmulDesc_t,
    /// Of B, A and C, in the order in which cuBLAS takes them.
    layouts: [sys::cublasLtMatrixLayout_t; 3],
}

impl Product<'_> {
    /// At most `count` algorithms that cuBLASLt's heuristics propose, the most promising first. Wraps
    /// `cublasLtMatmulAlgoGetHeuristic`.
    pub fn proposals(&self, count: usize) -> Result<Vec<Algorithm>> {
        let _bound = self.cublas.device.bind()?;
        let preference = lt::create_matmul_pref().map_err(|error| failed("cublasLtMatmulPreferenceCreate", error.0))?;
        let found = self.propose(preference, count);
        // SAFETY: made above and used by nobody else.
        let _ = unsafe { lt::destroy_matmul_pref(preference) };
        found
    }

    fn propose(&self, preference: sys::cublasLtMatmulPreference_t, count: usize) -> Result<Vec<Algorithm>> {
        let workspace = WORKSPACE_BYTES;
        // SAFETY: the preference is alive, and the attribute is a size.
        unsafe {
            lt::set_matmul_pref_attribute(
                preference,
                sys::cublasLtMatmulPreferenceAttributes_t::CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                std::ptr::from_ref(&workspace).cast(),
                size_of_val(&workspace),
            )
        }
        .map_err(|error| failed("cublasLtMatmulPreferenceSetAttribute", error.0))?;
        let mut found: Vec<std::mem::MaybeUninit<sys::cublasLtMatmulHeuristicResult_t>> =
            vec![std::mem::MaybeUninit::zeroed(); count];
        let mut returned: c_int = 0;
        let [b, a, c] = self.layouts;
        // SAFETY: all descriptors are alive, and there is room for `count` results.
        let status = unsafe {
            sys::cublasLtMatmulAlgoGetHeuristic(
                self.cublas.lt,
                self.operation,
                b,
                a,
                c,
                c,
                preference,
                count as c_int,
                found.as_mut_ptr().cast(),
                &mut returned,
            )
        };
        status.result().map_err(|error| failed("cublasLtMatmulAlgoGetHeuristic", error.0))?;
        Ok(found
            .into_iter()
            .take(returned.max(0) as usize)
            // SAFETY: the call wrote as many.
            .map(|result| unsafe { result.assume_init() })
            .filter(|result| result.state == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS)
            .map(|result| Algorithm::new(result.algo, result.workspaceSize, result.wavesCount))
            .collect())
    }

    /// Puts the product into `stream` with `algorithm`, one of the [`Product::proposals`]. Wraps
    /// `cublasLtMatmul`.
    ///
    /// # Errors
    /// When cuBLASLt refuses.
    pub fn run(&self, algorithm: &Algorithm, stream: &Stream, operands: &Operands) -> Result<()> {
        let _bound = self.cublas.device.bind()?;
        let (alpha, beta) = (1f32, 0f32);
        let [b, a, c] = self.layouts;
        // SAFETY: descriptors and workspace are alive; the operands are device memory of the shapes that
        // the layouts describe, which `Operands` is made from by this crate only.
        unsafe {
            lt::matmul(
                self.cublas.lt,
                self.operation,
                std::ptr::from_ref(&alpha).cast(),
                std::ptr::from_ref(&beta).cast(),
                operands.b as *const c_void,
                b,
                operands.a as *const c_void,
                a,
                operands.c as *const c_void,
                c,
                operands.c as *mut c_void,
                c,
                algorithm.raw(),
                self.cublas.workspace.address() as *mut c_void,
                WORKSPACE_BYTES,
                stream.as_raw().cast(),
            )
        }
        .map_err(|error| failed("cublasLtMatmul", error.0))
    }

    /// Puts the product into `stream` with what cuBLAS chooses. Wraps `cublasGemmEx`.
    ///
    /// # Errors
    /// When cuBLAS refuses.
    pub fn run_gemm_ex(&self, stream: &Stream, operands: &Operands) -> Result<()> {
        let cublas = self.cublas;
        let _bound = cublas.device.bind()?;
        if cublas.stream.get() != stream.as_raw() {
            // SAFETY: handle, stream and workspace are alive. A new stream takes the workspace away, so it
            // is given again after it.
            unsafe {
                blas::cublasSetStream_v2(cublas.blas, stream.as_raw().cast())
                    .result()
                    .map_err(|error| failed("cublasSetStream", error.0))?;
                blas::cublasSetWorkspace_v2(cublas.blas, cublas.workspace.address() as *mut c_void, WORKSPACE_BYTES)
                    .result()
                    .map_err(|error| failed("cublasSetWorkspace", error.0))?;
            }
            cublas.stream.set(stream.as_raw());
        }
        let (alpha, beta) = (1f32, 0f32);
        let problem = &self.problem;
        let data_type = match problem.element() {
            kernels::catalogue::Element::F16 => blas::cudaDataType_t::CUDA_R_16F,
            kernels::catalogue::Element::Bf16 => blas::cudaDataType_t::CUDA_R_16BF,
        };
        // SAFETY: as in `run`.
        let status = unsafe {
            blas::cublasGemmEx_64(
                cublas.blas,
                blas::cublasOperation_t::CUBLAS_OP_T,
                blas::cublasOperation_t::CUBLAS_OP_N,
                problem.n() as i64,
                problem.m() as i64,
                problem.k() as i64,
                std::ptr::from_ref(&alpha).cast(),
                operands.b as *const c_void,
                data_type,
                problem.ldb() as i64,
                operands.a as *const c_void,
                data_type,
                problem.lda() as i64,
                std::ptr::from_ref(&beta).cast(),
                operands.c as *mut c_void,
                data_type,
                problem.ldc() as i64,
                blas::cublasComputeType_t::CUBLAS_COMPUTE_32F,
                blas::cublasGemmAlgo_t::CUBLAS_GEMM_DEFAULT,
            )
        };
        status.result().map_err(|error| failed("cublasGemmEx", error.0))
    }
}

impl Drop for Product<'_> {
    fn drop(&mut self) {
        // SAFETY: nobody else has the descriptors, and work in flight does not read them. There is nobody to
        // tell of a failure.
        unsafe {
            if !self.operation.is_null() {
                let _ = lt::destroy_matmul_desc(self.operation);
            }
            for layout in self.layouts.into_iter().filter(|layout| !layout.is_null()) {
                let _ = lt::destroy_matrix_layout(layout);
            }
        }
    }
}

fn data_type(problem: &Problem) -> sys::cudaDataType_t {
    match problem.element() {
        kernels::catalogue::Element::F16 => sys::cudaDataType_t::CUDA_R_16F,
        kernels::catalogue::Element::Bf16 => sys::cudaDataType_t::CUDA_R_16BF,
    }
}

fn failed(call: &'static str, status: impl std::fmt::Debug) -> Error {
    Error::LibraryCall { call, status: format!("{status:?}") }
}

/// `13.2.0` of 130200.
fn version_name(version: usize) -> String {
    format!("{}.{}.{}", version / 10000, version / 100 % 100, version % 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_read_as_people_write_them() {
        assert_eq!(version_name(130200), "13.2.0");
        assert_eq!(version_name(120904), "12.9.4");
    }
}
