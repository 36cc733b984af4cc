//! The one error type of this crate.

use std::path::PathBuf;

use kernels::catalogue::{COMPILED, Kernel, Refusal};
use kernels::workspace::MOST_PARTS;

use crate::npy::NpyFault;
use crate::select::PROPOSALS;
use crate::units;

/// Result of everything that can fail here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Every message names the argument, its value and the rule it breaks; [`Error::hint`]
/// adds what to do where that is not already said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A and B differ in their extent in K.
    #[error("A is {} and B is {}: C = A·Bᵀ needs A of M×K and B of N×K with the same K", shape(.a), shape(.b))]
    InnerDimensions {
        /// Rows and columns of A.
        a: (usize, usize),
        /// Rows and columns of B.
        b: (usize, usize),
    },

    /// C does not have the rows of A and the rows of B.
    #[error("C is {}, but A·Bᵀ is {}", shape(.c), shape(.product))]
    OutputShape {
        /// Rows and columns of C.
        c: (usize, usize),
        /// Rows and columns of the product.
        product: (usize, usize),
    },

    /// M, N or K is larger than a kernel can index.
    #[error("{dimension} is {value}; it may be at most {limit}, the range of a TMA coordinate")]
    DimensionTooLarge {
        /// `M`, `N` or `K`.
        dimension: &'static str,
        /// Its value.
        value: usize,
        /// The largest that is allowed.
        limit: usize,
    },

    /// A leading dimension is smaller than a row, so that rows would overlap.
    #[error("the leading dimension of {matrix} is {value}; it must be at least the length of a row, {row}")]
    LeadingDimensionTooSmall {
        /// `A`, `B` or `C`.
        matrix: &'static str,
        /// The leading dimension, in elements.
        value: usize,
        /// Elements of a row.
        row: usize,
    },

    /// A leading dimension that TMA cannot express.
    #[error(
        "the leading dimension of {matrix} is {value} elements; TMA reads rows that are a multiple of {multiple} elements apart"
    )]
    LeadingDimensionUnaligned {
        /// `A` or `B`.
        matrix: &'static str,
        /// The leading dimension, in elements.
        value: usize,
        /// What it must be a multiple of, in elements.
        multiple: usize,
    },

    /// A leading dimension whose bytes do not fit in a tensor map.
    #[error("the leading dimension of {matrix} is {value} elements; it must be below {limit}")]
    LeadingDimensionTooLarge {
        /// `A`, `B` or `C`.
        matrix: &'static str,
        /// The leading dimension, in elements.
        value: usize,
        /// The first value that is too large.
        limit: usize,
    },

    /// The first element of a matrix lies at an address that the kernel cannot use.
    #[error("{matrix} begins at address {address:#x}, which must be a multiple of {alignment} bytes")]
    Misaligned {
        /// `A`, `B` or `C`.
        matrix: &'static str,
        /// Address of its first element.
        address: u64,
        /// The alignment it must have, in bytes.
        alignment: u64,
    },

    /// A buffer does not hold the matrix that it is said to hold.
    #[error(
        "a buffer of {actual} elements does not hold a {} matrix with leading dimension {ld}, which takes {wanted}",
        shape(&(*.rows, *.cols))
    )]
    BufferTooSmall {
        /// Rows of the matrix.
        rows: usize,
        /// Columns of the matrix.
        cols: usize,
        /// Elements from one row to the next.
        ld: usize,
        /// Elements that the matrix takes, `usize::MAX` when they cannot be counted.
        wanted: usize,
        /// Elements of the buffer.
        actual: usize,
    },

    /// A value that cannot be read.
    #[error("`{value}` cannot be read: {rule}")]
    Syntax {
        /// What was given.
        value: String,
        /// What is expected.
        rule: &'static str,
    },

    /// No kernel has this name.
    #[error("there is no kernel {name}: the catalogue has {}", known.join(", "))]
    UnknownKernel {
        /// What was asked for.
        name: String,
        /// The kernels that exist.
        known: Vec<&'static str>,
    },

    /// No kernel multiplies this type.
    #[error("there is no element type {name}: the kernels have {}", known.join(", "))]
    UnknownElement {
        /// What was asked for.
        name: String,
        /// The types that exist.
        known: Vec<&'static str>,
    },

    /// No compiled configuration is what was asked for.
    #[error("the catalogue has no {wanted}")]
    UnknownConfig {
        /// What was asked for.
        wanted: String,
        /// The options of the nearest configurations that exist.
        nearest: Vec<String>,
    },

    /// The configuration is in the catalogue as one that cannot run.
    #[error("{entry} cannot run: it {refusal}")]
    RefusedConfig {
        /// Its name.
        entry: &'static str,
        /// Why.
        refusal: Refusal,
        /// The options of the nearest configurations that can run.
        nearest: Vec<String>,
    },

    /// The kernel exists to be measured, and does not multiply what it is given.
    #[error("kernel {kernel} computes no product: it is there to be measured")]
    NoProduct {
        /// Its name.
        kernel: &'static str,
    },

    /// Tiles are to be shared by a number of clusters that the kernel does not take.
    #[error(
        "a tile of C cannot be shared by {parts} clusters{}: 1 computes it, or up to {MOST_PARTS}, with these kernels only: {}",
        kernel.map_or(String::new(), |kernel| format!(" of kernel {kernel}")),
        Kernel::ALL.into_iter().filter(|kernel| kernel.takes_parts()).map(Kernel::name).collect::<Vec<_>>().join(", ")
    )]
    Parts {
        /// Name of the kernel, where one was named.
        kernel: Option<&'static str>,
        /// The number of clusters.
        parts: u32,
    },

    /// Not enough memory on the host.
    #[error("{what} takes {} of host memory, and there is not so much", units::bytes(*.bytes))]
    HostMemory {
        /// What was to be stored.
        what: String,
        /// Bytes that were asked for.
        bytes: u128,
    },

    /// A file could not be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// `read`, `write` or `create`.
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },

    /// A file does not hold a matrix that can be read.
    #[error("{} {fault}", path.display())]
    Npy {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: NpyFault,
    },

    /// A matrix is copied between host and device, and the two differ in shape.
    #[error("the matrix in host memory is {} and the one in device memory {}", shape(.host), shape(.device))]
    CopyShape {
        /// Rows and columns in host memory.
        host: (usize, usize),
        /// Rows and columns in device memory.
        device: (usize, usize),
    },

    /// Rows that a matrix does not have.
    #[error("rows {start} to {end} were asked for of a matrix with {rows} rows")]
    RowRange {
        /// The first row.
        start: usize,
        /// The row after the last.
        end: usize,
        /// Rows of the matrix.
        rows: usize,
    },

    /// A product without work, where there must be some.
    #[error("a product of {m}×{n}×{k} has nothing to compute; M, N and K must be at least 1")]
    EmptyProduct {
        /// Rows of C.
        m: usize,
        /// Columns of C.
        n: usize,
        /// Extent in K.
        k: usize,
    },

    /// A kernel is asked to multiply elements of another type than its own.
    #[error("kernel {entry} multiplies {kernel}; the matrices are {got}")]
    ElementType {
        /// Name of the kernel's entry.
        entry: &'static str,
        /// The type it multiplies.
        kernel: &'static str,
        /// The type of the matrices.
        got: &'static str,
    },

    /// There is no kernel of this name.
    #[error("there is no kernel entry `{entry}`")]
    UnknownEntry {
        /// The name.
        entry: String,
    },

    /// A suite has no such group.
    #[error("no group of the suite matches `{pattern}`: it has {}", known.join(", "))]
    UnknownGroup {
        /// What was asked for.
        pattern: String,
        /// The groups that it has.
        known: Vec<String>,
    },

    /// There is no device of this number.
    #[error("there is no CUDA device {index}: the driver shows {count}")]
    NoSuchDevice {
        /// The number.
        index: u32,
        /// How many devices there are.
        count: u32,
    },

    /// The device cannot execute the kernels.
    #[error("{device} is of compute capability {major}.{minor}; the kernels need 9.0 exactly (H100, H200, GH200)")]
    ComputeCapability {
        /// The device's name.
        device: String,
        /// Its compute capability, before the point.
        major: i32,
        /// Its compute capability, after the point.
        minor: i32,
    },

    /// Something belongs to another device than the one that is to work with it.
    #[error("{what} is of device {device}; the kernels are loaded on device {expected}")]
    WrongDevice {
        /// What it is.
        what: &'static str,
        /// The device it belongs to.
        device: u32,
        /// The device it should belong to.
        expected: u32,
    },

    /// The driver cannot read the kernels' PTX.
    #[error("the driver supports CUDA {driver}; the kernels are PTX ISA {isa}, which needs a driver for CUDA {needed}")]
    DriverTooOld {
        /// The CUDA version that the driver supports.
        driver: String,
        /// The PTX ISA version of the kernels.
        isa: String,
        /// The CUDA version that this needs.
        needed: String,
    },

    /// The driver lacks a call.
    #[error("the driver has no {symbol}, which came with CUDA {}.{}", since / 1000, since % 1000 / 10)]
    DriverCallMissing {
        /// Name of the call.
        symbol: String,
        /// The CUDA version that brought it, `1000 * major + 10 * minor`.
        since: i32,
    },

    /// A call of the CUDA driver failed.
    #[error("{call} failed: {name} ({code}): {text}")]
    Driver {
        /// Name of the call.
        call: &'static str,
        /// The driver's code.
        code: u32,
        /// The driver's name for the code.
        name: String,
        /// The driver's description of the code.
        text: String,
    },

    /// A kernel runs for so long that it will not end.
    #[error("a kernel has not finished after {seconds} s: it hangs")]
    Hang {
        /// How long it was waited for.
        seconds: f64,
    },

    /// A shared library cannot be loaded.
    #[error("cannot load {library}: {reason}")]
    Library {
        /// The library.
        library: &'static str,
        /// Where it was looked for, or what is wrong with it.
        reason: String,
    },

    /// A call of a library failed.
    #[error("{call} failed: {status}")]
    LibraryCall {
        /// Name of the call.
        call: &'static str,
        /// The library's name for the error.
        status: String,
    },

    /// Something that this program was built without.
    #[error("{what} is not in this program: it was built without the feature `{feature}`")]
    NotBuilt {
        /// What is missing.
        what: &'static str,
        /// The feature of the package that adds it.
        feature: &'static str,
    },

    /// A file of results, a suite, or one that a table goes into.
    #[error("{}: {reason}", path.display())]
    ResultsFile {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// The file of tuned answers.
    #[error("the cache of tuned answers, {}: {reason}", path.display())]
    TuneCache {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },

    /// Nothing says where the user's cache folder is.
    #[error("neither XDG_CACHE_HOME nor HOME says where the user's cache folder is")]
    NoCacheFolder,

    /// Something that results do not have.
    #[error("there is no {what} in the results{}", among(.known))]
    NotInResults {
        /// What was asked for.
        what: String,
        /// What there is instead.
        known: Vec<String>,
    },

    /// A figure cannot be drawn.
    #[error("the figure cannot be drawn: {reason}")]
    Drawing {
        /// What the drawing library says.
        reason: String,
    },

    /// The driver did not compile a kernel.
    #[error("the driver did not compile {entry}: {code}\n{log}")]
    Jit {
        /// Name of the kernel's entry.
        entry: &'static str,
        /// The driver's name for the error.
        code: String,
        /// What the compiler wrote.
        log: String,
    },

    /// A launch that does not fit the kernel.
    #[error("cannot launch {entry}: {reason}")]
    Launch {
        /// Name of the kernel's entry.
        entry: &'static str,
        /// What does not fit.
        reason: String,
    },

    /// Not enough memory on a device.
    #[error("device {device} has {free} of {total} bytes free; {wanted} were wanted")]
    DeviceMemory {
        /// Bytes that were asked for.
        wanted: usize,
        /// Bytes that are free.
        free: usize,
        /// Bytes that the device has.
        total: usize,
        /// Number of the device.
        device: u32,
    },
}

impl Error {
    /// What the caller can do about it, where the message does not already say.
    pub fn hint(&self) -> Option<String> {
        match self {
            Error::InnerDimensions { a, b } if a.1 == b.0 => Some(format!(
                "as A·B these shapes would fit: B is stored as K×N here, and must be given as N×K, {}",
                shape(&(b.1, b.0))
            )),
            Error::LeadingDimensionUnaligned { value, multiple, .. } => {
                Some(format!("pad the rows to {} elements", value.next_multiple_of(*multiple)))
            }
            Error::UnknownConfig { nearest, .. } | Error::RefusedConfig { nearest, .. } => {
                Some(format!("the nearest that exist: {}", nearest.join("; ")))
            }
            Error::UnknownEntry { entry } => {
                Some(format!("the nearest that exist: {}", nearest_entries(entry).join(", ")))
            }
            Error::Npy { fault, .. } => fault.hint(),
            _ => None,
        }
    }
}

/// The entries of the catalogue that look most like `entry`, the nearest first.
fn nearest_entries(entry: &str) -> Vec<&'static str> {
    let mut entries: Vec<&str> = COMPILED.iter().map(|config| config.entry).collect();
    entries.sort_by_key(|known| strsim::damerau_levenshtein(known, entry));
    entries.truncate(PROPOSALS);
    entries
}

/// `, which have a, b`; nothing where there is nothing.
fn among(known: &[String]) -> String {
    if known.is_empty() { String::new() } else { format!(", which have {}", known.join(", ")) }
}

/// `rows×columns`.
fn shape(&(rows, cols): &(usize, usize)) -> String {
    format!("{rows}×{cols}")
}
