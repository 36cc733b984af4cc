//! What can go wrong in a command, how it is said, and with which exit code.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use hopper_gemm::Error;
use hopper_gemm::npy::NpyFault;
use serde::Serialize;

use super::output;

/// The exit codes, as `--help` shows them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0  success
  1  a result failed its check, or the simulator found a fault
  2  wrong usage: an option, a value, a kernel or a configuration that does not exist
  3  a file is absent, damaged, not writable, or holds a type or a shape that does not fit
  4  no device that can be used: none there, not compute capability 9.0, driver too old or missing
  5  not enough memory, of the host or of the device
  6  a failure while running on the device";

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The result is wrong. What is wrong has been printed.
    Check,
    /// The library's error, and what to do about it.
    Library { error: Error, hint: Option<String> },
    /// The simulator's error.
    Simulator(sim::gemm::Error),
    /// A file, or what it says, that does not fit.
    File(String),
    /// Standard output cannot be written.
    Output(io::Error),
}

impl From<sim::gemm::Error> for Failure {
    fn from(error: sim::gemm::Error) -> Self {
        Failure::Simulator(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let hint = hint(&error);
        Failure::Library { error, hint }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// Makes the failure of an error that is about what `files` hold and does not name them.
pub fn in_files(files: &[PathBuf]) -> impl Fn(Error) -> Failure {
    move |error| {
        let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
        Failure::File(format!("{}: {error}", files.join(", ")))
    }
}

#[derive(Serialize)]
struct Report<'a> {
    error: &'a str,
    hint: Option<&'a str>,
    exit_code: u8,
}

impl Failure {
    /// Says what is wrong: one line on standard error, a second with a hint where there is one, and with
    /// `json` an object on standard output.
    pub fn report(&self, json: bool) -> ExitCode {
        let again = match self {
            Failure::Simulator(sim::gemm::Error::Finding(finding)) => {
                Some(format!("the same command with `--schedule {}` shows it again", finding.schedule))
            }
            _ => None,
        };
        let (message, hint) = match self {
            Failure::Check => return ExitCode::from(self.code()),
            // Nobody listens any more, as in `hopper-gemm kernels | head`.
            Failure::Output(error) if error.kind() == io::ErrorKind::BrokenPipe => return ExitCode::SUCCESS,
            Failure::Output(error) => (format!("cannot write to standard output: {error}"), &None),
            Failure::Simulator(error) => (error.to_string(), &again),
            Failure::File(message) => (message.clone(), &None),
            Failure::Library { error, hint } => (error.to_string(), hint),
        };
        output::complain("error", &message);
        if let Some(hint) = hint {
            output::complain("hint", hint);
        }
        if json {
            let report = Report { error: &message, hint: hint.as_deref(), exit_code: self.code() };
            // When this fails too, the exit code still tells.
            let _ = output::json(&report);
        }
        ExitCode::from(self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Failure::Check | Failure::Simulator(sim::gemm::Error::Finding(_)) => 1,
            Failure::Simulator(sim::gemm::Error::Argument(_)) => 2,
            Failure::Output(_) | Failure::File(_) | Failure::Simulator(sim::gemm::Error::Load(_)) => 3,
            Failure::Library { error, .. } => match error {
                Error::DimensionTooLarge { .. }
                | Error::Syntax { .. }
                | Error::UnknownKernel { .. }
                | Error::UnknownElement { .. }
                | Error::UnknownConfig { .. }
                | Error::RefusedConfig { .. }
                | Error::NoProduct { .. }
                | Error::Parts { .. }
                | Error::UnknownEntry { .. }
                | Error::UnknownGroup { .. }
                | Error::EmptyProduct { .. } => 2,
                Error::InnerDimensions { .. }
                | Error::OutputShape { .. }
                | Error::File { .. }
                | Error::Npy { .. }
                | Error::ResultsFile { .. }
                | Error::TuneCache { .. }
                | Error::NoCacheFolder => 3,
                Error::NotBuilt { .. }
                | Error::Library { .. }
                | Error::NoSuchDevice { .. }
                | Error::ComputeCapability { .. }
                | Error::DriverTooOld { .. }
                | Error::DriverCallMissing { .. } => 4,
                Error::HostMemory { .. } | Error::DeviceMemory { .. } => 5,
                _ => 6,
            },
        }
    }
}

/// The library's hint, in terms of the command line.
fn hint(error: &Error) -> Option<String> {
    match error {
        Error::Npy { fault: NpyFault::Words(_), .. } => Some("--bf16-as-u16 says that they are".to_owned()),
        Error::NotBuilt { feature, .. } => Some(format!(
            "`cargo build --release --features {feature}` builds it, on a machine that has the NVIDIA driver; \
             `matmul --device cpu` works everywhere"
        )),
        _ => error.hint(),
    }
}
