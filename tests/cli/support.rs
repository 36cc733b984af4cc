//! Running the program, and files for it.

use std::path::PathBuf;
use std::process::{Command, Output};

use half::f16;
use hopper_gemm::npy::{self, Options};
use hopper_gemm::{Element, Matrix};
use tempfile::TempDir;

/// What the program did.
pub struct Run {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Run {
    /// Its standard output as JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error} in {}", self.stdout))
    }

    /// Asserts that it succeeded and said nothing on standard error.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{}", self.stdout);
        self
    }

    /// Asserts that it failed with this exit code and said each of these on standard error, in one `error:`
    /// line and perhaps a hint, and not as a panic does.
    #[track_caller]
    pub fn failed(self, code: i32, said: &[&str]) -> Self {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert_eq!(self.stderr.matches("error: ").count(), 1, "{}", self.stderr);
        assert!(!self.stderr.contains("panicked"), "{}", self.stderr);
        for part in said {
            assert!(self.stderr.contains(part), "`{part}` is missing in: {}", self.stderr);
        }
        self
    }
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Run {
            code: output.status.code().expect("not ended by a signal"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The program.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hopper-gemm"));
    // Two threads make these small products quick on any machine.
    command.env("RAYON_NUM_THREADS", "2");
    // What the user tuned is none of the tests' business.
    command.env("XDG_CACHE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/cache"));
    command
}

/// Runs the program with arguments separated by spaces.
pub fn run(arguments: &str) -> Run {
    program().args(arguments.split_whitespace()).output().unwrap().into()
}

/// A folder for the files of one test.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Folder(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs the program in the folder.
    pub fn run(&self, arguments: &str) -> Run {
        program().current_dir(self.0.path()).args(arguments.split_whitespace()).output().unwrap().into()
    }

    /// Writes a f16 matrix whose element (i, j) is `value(i, j)`.
    pub fn matrix(&self, name: &str, rows: usize, cols: usize, value: impl Fn(usize, usize) -> f32) {
        let elements = (0..rows * cols).map(|at| f16::from_f32(value(at / cols, at % cols))).collect();
        let matrix = Matrix::from_vec(elements, rows, cols).unwrap();
        npy::write(&self.path(name), matrix.view(), Options::default()).unwrap();
    }

    /// Writes a file with this type, order, shape and data.
    pub fn npy(&self, name: &str, descriptor: &str, fortran: bool, shape: &str, data: &[u8]) {
        let order = if fortran { "True" } else { "False" };
        let header = format!("{{'descr': '{descriptor}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(header.len()).unwrap().to_le_bytes());
        bytes.extend(header.bytes());
        bytes.extend(data);
        std::fs::write(self.path(name), bytes).unwrap();
    }

    /// Reads a matrix that the program wrote.
    pub fn read<T: Element>(&self, name: &str, options: Options) -> Matrix<T> {
        npy::read(&self.path(name), options).unwrap().matrix
    }
}
