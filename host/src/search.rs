//! Where cuBLAS may be on this machine.

use std::path::{Path, PathBuf};

/// Names a folder that has the libraries.
pub const VARIABLE: &str = "HOPPER_GEMM_CUBLAS";
/// The major versions that are known to work, the one to prefer first.
pub const VERSIONS: [&str; 2] = ["13", "12"];

/// What to open, in order, to load the library `name` (such as `libcublasLt.so`) from `folders`: a path where
/// there is a file, and the bare name for where the system looks by itself.
pub fn candidates(name: &str, folders: &[Option<PathBuf>]) -> Vec<PathBuf> {
    let mut candidates = Vec::new();
    for folder in folders {
        for version in VERSIONS {
            let file = PathBuf::from(format!("{name}.{version}"));
            match folder {
                None => candidates.push(file),
                Some(folder) => candidates.extend(Some(folder.join(file)).filter(|path| path.is_file())),
            }
        }
    }
    candidates
}

/// Where to look, in order; `None` is where the system looks by itself. If [`VARIABLE`] is set, only there.
pub fn folders() -> Vec<Option<PathBuf>> {
    if let Some(folder) = std::env::var_os(VARIABLE) {
        return vec![Some(PathBuf::from(folder))];
    }
    let mut folders = vec![None];
    for variable in ["CUDA_HOME", "CUDA_PATH"] {
        if let Some(home) = std::env::var_os(variable) {
            folders.push(Some(Path::new(&home).join("lib64")));
        }
    }
    folders.push(Some(PathBuf::from("/usr/local/cuda/lib64")));
    // Python's packages: nvidia-cublas and what PyTorch brings.
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let environments = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let prefixes = environments.chain([
        home.join(".local"),
        "/usr/local".into(),
        "/usr".into(),
        "/opt/conda".into(),
        "/opt/venv".into(),
    ]);
    for prefix in prefixes {
        for python in subfolders(&prefix.join("lib"), "python3") {
            for packages in ["site-packages", "dist-packages"] {
                for nvidia in ["cu13", "cublas"] {
                    folders.push(Some(python.join(packages).join("nvidia").join(nvidia).join("lib")));
                }
            }
        }
    }
    folders.retain(|folder| folder.as_ref().is_none_or(|folder| folder.is_dir()));
    folders
}

/// Folders in `folder` whose names begin with `prefix`.
fn subfolders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_that_exist_are_candidates_in_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("libx.so.12"), "").unwrap();
        let found = candidates("libx.so", &[None, Some(folder.path().to_owned())]);
        assert_eq!(found, [PathBuf::from("libx.so.13"), "libx.so.12".into(), folder.path().join("libx.so.12")]);
    }
}
