//! The one error type of this crate.

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

    /// Not enough memory on the host.
    #[error("{what} takes {bytes} bytes of host memory, which could not be allocated")]
    HostMemory {
        /// What was to be stored.
        what: String,
        /// Bytes that were asked for.
        bytes: u128,
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
            _ => None,
        }
    }
}

/// `rows×columns`.
fn shape(&(rows, cols): &(usize, usize)) -> String {
    format!("{rows}×{cols}")
}
