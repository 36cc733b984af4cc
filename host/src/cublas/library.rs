//! Finding and loading the libraries.
//!
//! cudarc looks each function up in a library that it opens by name, and panics where there is none. So
//! the libraries are opened here first, from wherever they are, after which the name alone finds them.

use std::path::PathBuf;
use std::sync::OnceLock;

use libloading::Library;

use crate::error::{Error, Result};
use crate::search::{VARIABLE, VERSIONS, candidates, folders};

/// A library, and the functions of it that are called.
struct Wanted {
    name: &'static str,
    functions: &'static [&'static str],
}

/// cuBLASLt first: cuBLAS needs it, and finds it once it is loaded.
const WANTED: [Wanted; 2] = [
    Wanted {
        name: "libcublasLt.so",
        functions: &[
            "cublasLtCreate",
            "cublasLtDestroy",
            "cublasLtGetVersion",
            "cublasLtMatmul",
            "cublasLtMatmulAlgoConfigGetAttribute",
            "cublasLtMatmulAlgoGetHeuristic",
            "cublasLtMatmulDescCreate",
            "cublasLtMatmulDescDestroy",
            "cublasLtMatmulDescSetAttribute",
            "cublasLtMatmulPreferenceCreate",
            "cublasLtMatmulPreferenceDestroy",
            "cublasLtMatmulPreferenceSetAttribute",
            "cublasLtMatrixLayoutCreate",
            "cublasLtMatrixLayoutDestroy",
        ],
    },
    Wanted {
        name: "libcublas.so",
        functions: &[
            "cublasCreate_v2",
            "cublasDestroy_v2",
            "cublasGemmEx_64",
            "cublasGetVersion_v2",
            "cublasSetStream_v2",
            "cublasSetWorkspace_v2",
        ],
    },
];

/// Loads both libraries and keeps them loaded. Once that has worked it does nothing more.
pub fn load() -> Result<()> {
    static LOADED: OnceLock<()> = OnceLock::new();
    if LOADED.get().is_none() {
        let folders = folders();
        for wanted in &WANTED {
            open(wanted, &folders)?;
        }
        // SAFETY: both only look for a library by name.
        let found = unsafe { cudarc::cublaslt::sys::is_culib_present() && cudarc::cublas::sys::is_culib_present() };
        if !found {
            let reason = String::from("it was loaded, but its name alone does not find it");
            return Err(Error::Library { library: "cuBLAS", reason });
        }
        LOADED.get_or_init(|| ());
    }
    Ok(())
}

/// Opens `wanted` from the first place that has it, and checks its functions.
fn open(wanted: &Wanted, folders: &[Option<PathBuf>]) -> Result<()> {
    let mut tried = Vec::new();
    for path in candidates(wanted.name, folders) {
        // SAFETY: what cuBLAS does when it is loaded is safe on any thread; nothing else has this name.
        match unsafe { Library::new(&path) } {
            Ok(library) => return keep(library, wanted),
            Err(error) => tried.push(format!("{}: {error}", path.display())),
        }
    }
    let named = |folder: &Option<PathBuf>| folder.as_ref().map(|folder| folder.display().to_string());
    let looked: Vec<String> = folders.iter().filter_map(named).collect();
    Err(Error::Library {
        library: "cuBLAS",
        reason: format!(
            "there is no {} of version {} where the system looks (LD_LIBRARY_PATH), nor in {}. Install a CUDA \
             toolkit or the Python package nvidia-cublas, or set {VARIABLE} to the folder that has it. {}",
            wanted.name,
            VERSIONS.join(" or "),
            if looked.is_empty() { String::from("any known folder") } else { looked.join(", ") },
            tried.join("; ")
        ),
    })
}

/// Checks that `library` has every function, and leaves it loaded until the process ends.
fn keep(library: Library, wanted: &Wanted) -> Result<()> {
    for function in wanted.functions {
        // SAFETY: the address is only looked up.
        if unsafe { library.get::<*const ()>(function.as_bytes()) }.is_err() {
            let reason = format!("{} has no function {function}: it is too old", wanted.name);
            return Err(Error::Library { library: "cuBLAS", reason });
        }
    }
    std::mem::forget(library);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_nowhere_is_an_error_with_advice() {
        let absent = Wanted { name: "libcublas-that-is-not.so", functions: &[] };
        let folder = std::env::temp_dir();
        let message = open(&absent, &[None, Some(folder.clone())]).unwrap_err().to_string();
        for part in ["libcublas-that-is-not.so", VARIABLE, &folder.display().to_string()] {
            assert!(message.contains(part), "{part} is missing in: {message}");
        }
    }

    #[test]
    fn a_library_without_a_function_is_refused() {
        // SAFETY: the C library is loaded anyway.
        let library = unsafe { Library::new("libc.so.6") }.unwrap();
        let wanted = Wanted { name: "libc.so", functions: &["malloc", "cublasLtMatmul"] };
        let message = keep(library, &wanted).unwrap_err().to_string();
        assert!(message.contains("cublasLtMatmul"), "{message}");
    }
}
