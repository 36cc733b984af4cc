//! Assembling a finished module with ptxas, and the gate that the machine code must pass.
//!
//! What the gate refuses is wrong or slow, and often both: accumulators that are spilled or copied while a
//! wgmma writes them give a wrong product, and ptxas says so only in passing.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The architecture that the kernels are assembled for: compute capability 9.0 with its own
/// instructions.
pub const ARCHITECTURE: &str = "sm_90a";

/// Where to look for the CUDA tools.
#[derive(Clone, Debug, Default)]
pub struct SearchPath {
    folders: Vec<PathBuf>,
}

impl SearchPath {
    /// The folders where CUDA's tools may be, first the most specific: `.tools/` of the project `root`
    /// (where `./x setup` puts the pip wheels), `CUDA_HOME`, `CUDA_PATH`, `PATH`, `/usr/local/cuda`, and the
    /// pip wheels of the active virtual environment.
    pub fn standard(root: &Path) -> SearchPath {
        let mut folders = vec![root.join(".tools/cuda/bin"), root.join(".tools/nvidia/cu13/bin")];
        for variable in ["CUDA_HOME", "CUDA_PATH"] {
            if let Some(home) = std::env::var_os(variable) {
                folders.push(Path::new(&home).join("bin"));
            }
        }
        folders.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
        folders.push(PathBuf::from("/usr/local/cuda/bin"));
        if let Some(environment) = std::env::var_os("VIRTUAL_ENV") {
            // lib/python3.X/site-packages/nvidia/…/bin
            for python in subfolders(&Path::new(&environment).join("lib")) {
                for package in subfolders(&python.join("site-packages/nvidia")) {
                    folders.push(package.join("bin"));
                }
            }
        }
        SearchPath { folders }
    }

    /// The first folder that has a file `tool`.
    pub fn find(&self, tool: &str) -> Option<PathBuf> {
        self.folders.iter().map(|folder| folder.join(tool)).find(|path| path.is_file())
    }
}

fn subfolders(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found
}

/// What ptxas said about an entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Registers of a thread.
    pub registers: usize,
    /// Bytes of stack frame.
    pub stack: usize,
    /// Bytes of spill stores and spill loads.
    pub spills: usize,
    /// Messages about wgmma or setmaxnreg, which ptxas numbers C75xx.
    pub warnings: Vec<String>,
}

/// Why the gate refuses an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GateError {
    /// A tool could not be run.
    Tool {
        /// The tool.
        path: PathBuf,
        /// What went wrong.
        why: String,
    },
    /// ptxas refused the module.
    Rejected {
        /// The entry.
        entry: String,
        /// What it said.
        log: String,
    },
    /// The machine code is not what the catalogue promises.
    Unfit {
        /// The entry.
        entry: String,
        /// Each fault.
        faults: Vec<String>,
    },
}

impl fmt::Display for GateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tool { path, why } => write!(
                f,
                "{} does not work: {why}. Install CUDA 12 or later, or `pip install nvidia-cuda-nvcc==13.0.88 \
                 nvidia-cuda-nvdisasm`, or take it off the search path to build without cubins",
                path.display()
            ),
            Self::Rejected { entry, log } => write!(f, "ptxas refuses {entry}: {}", log.trim()),
            Self::Unfit { entry, faults } => write!(f, "{entry}: {}", faults.join("; ")),
        }
    }
}

impl std::error::Error for GateError {}

/// Assembles `ptx` (a file with one entry, `entry`) to `cubin` and returns what ptxas reports.
///
/// # Errors
/// If ptxas cannot be run or refuses the module.
pub fn assemble(ptxas: &Path, entry: &str, ptx: &Path, cubin: &Path) -> Result<Report, GateError> {
    let arguments: [OsString; 8] = [
        "-v".into(),
        "-O3".into(),
        "-lineinfo".into(),
        "-arch".into(),
        ARCHITECTURE.into(),
        "-o".into(),
        cubin.into(),
        ptx.into(),
    ];
    let output = run(ptxas, &arguments)?;
    let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(GateError::Rejected { entry: entry.to_owned(), log });
    }
    Ok(read_report(&log))
}

/// The version line of a tool, `release 13.0, V13.0.88`.
///
/// # Errors
/// If it cannot be run.
pub fn version(tool: &Path) -> Result<String, GateError> {
    let output = run(tool, &["--version".into()])?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.contains("release")).map(|line| line.trim().to_owned());
    line.ok_or_else(|| GateError::Tool { path: tool.to_owned(), why: "it does not tell its version".to_owned() })
}

fn run(tool: &Path, arguments: &[OsString]) -> Result<std::process::Output, GateError> {
    Command::new(tool)
        .args(arguments)
        .output()
        .map_err(|error| GateError::Tool { path: tool.to_owned(), why: error.to_string() })
}

/// Reads the report of `ptxas -v`.
pub fn read_report(log: &str) -> Report {
    let mut report = Report::default();
    for line in log.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let before = |mark: &[&str]| {
            let at = words.windows(mark.len()).position(|window| window == mark)?;
            words.get(at.checked_sub(1)?)?.parse::<usize>().ok()
        };
        if let Some(registers) = before(&["registers,"]).or_else(|| before(&["registers"])) {
            report.registers = registers;
        }
        if let Some(stack) = before(&["bytes", "stack", "frame,"]) {
            report.stack = stack;
        }
        report.spills += before(&["bytes", "spill", "stores,"]).unwrap_or(0);
        report.spills += before(&["bytes", "spill", "loads"]).unwrap_or(0);
        if line.contains("(C75") {
            report.warnings.push(line.trim().to_owned());
        }
    }
    report
}

/// The instructions of `cubin`, as nvdisasm prints them.
///
/// # Errors
/// If nvdisasm cannot be run or refuses the file.
pub fn disassemble(nvdisasm: &Path, cubin: &Path) -> Result<String, GateError> {
    let output = run(nvdisasm, &["-c".into(), cubin.into()])?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(GateError::Tool { path: nvdisasm.to_owned(), why });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Counts the tensor-core instructions of `cubin` by disassembling it.
///
/// # Errors
/// As [`disassemble`].
pub fn count_mma(nvdisasm: &Path, cubin: &Path) -> Result<usize, GateError> {
    let is_mma = |line: &&str| line.contains(" HGMMA.") || line.contains(" HMMA.");
    Ok(disassemble(nvdisasm, cubin)?.lines().filter(is_mma).count())
}

/// Refuses an entry whose machine code spills, has a stack frame, drew a C75xx message, or has a count of
/// HGMMA and HMMA instructions other than `wanted_mma`. `mma` is absent where nothing could count them.
///
/// # Errors
/// All faults of the entry at once.
pub fn gate(entry: &str, report: &Report, mma: Option<usize>, wanted_mma: usize) -> Result<(), GateError> {
    let mut faults = Vec::new();
    if report.registers == 0 {
        faults.push("ptxas did not report its registers".to_owned());
    }
    if report.spills > 0 {
        faults.push(format!("spills {} bytes", report.spills));
    }
    if report.stack > 0 {
        faults.push(format!("has a stack frame of {} bytes", report.stack));
    }
    faults.extend(report.warnings.iter().cloned());
    if let Some(count) = mma.filter(|&count| count != wanted_mma) {
        faults.push(format!("has {count} HGMMA and HMMA instructions where {wanted_mma} are expected"));
    }
    if faults.is_empty() { Ok(()) } else { Err(GateError::Unfit { entry: entry.to_owned(), faults }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'v3_f16_128x128x64_s3' for 'sm_90a'
ptxas info    : Function properties for v3_f16_128x128x64_s3
    232 bytes stack frame, 396 bytes spill stores, 428 bytes spill loads
ptxas info    : Used 168 registers, used 1 barriers, 232 bytes cumulative stack size
ptxas info    : Compile time = 235.352 ms
";

    #[test]
    fn reads_registers_stack_and_spills() {
        let report = read_report(LOG);
        assert_eq!(report, Report { registers: 168, stack: 232, spills: 396 + 428, warnings: vec![] });
        assert_eq!(read_report("ptxas info    : Used 24 registers\n").registers, 24);
    }

    #[test]
    fn reads_messages_about_wgmma() {
        let line = "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to ...";
        assert_eq!(read_report(line).warnings, [line]);
    }

    #[test]
    fn the_gate_names_every_fault() {
        let clean = Report { registers: 154, ..Report::default() };
        assert_eq!(gate("v3", &clean, Some(24), 24), Ok(()));
        assert_eq!(gate("v3", &clean, None, 24), Ok(()));
        let GateError::Unfit { faults, .. } = gate("v3", &read_report(LOG), Some(23), 24).unwrap_err() else {
            panic!("not unfit")
        };
        assert_eq!(
            faults,
            [
                "spills 824 bytes",
                "has a stack frame of 232 bytes",
                "has 23 HGMMA and HMMA instructions where 24 are expected"
            ]
        );
        assert!(gate("v3", &Report::default(), None, 0).is_err(), "an empty report must not pass");
    }

    #[test]
    fn a_tool_that_is_not_there_is_an_error_that_says_what_to_install() {
        let error = version(Path::new("/nonexistent/ptxas")).unwrap_err();
        assert!(error.to_string().contains("pip install"), "{error}");
    }
}
