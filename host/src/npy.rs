//! Matrices in .npy files, NumPy's format for one array.
//!
//! The header says type, shape and order of the elements. f16, f32 and f64 are read in either byte order,
//! C-order (rows one after the other) and Fortran-order (columns one after the other). .npy has no bf16;
//! its bits may be kept in 16-bit words, as unsigned integers or as the raw type that NumPy falls back to.

use std::fmt;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use half::{bf16, f16};
use kernels::catalogue;
use ndarray_npy::npy::header::{Header, Layout, ParseHeaderError, ReadHeaderError, WriteHeaderError};
use rayon::prelude::*;

use crate::element::Element;
use crate::error::{Error, Result};
use crate::matrix::{MatRef, Matrix, reserve};

/// Elements that are read or written at a time.
const CHUNK: usize = 1 << 16;
/// Side of the squares in which a matrix is transposed, so that reads and writes both stay in the cache.
const SQUARE: usize = 64;

/// Type of the elements in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// IEEE 754 binary16, `f2`.
    F16,
    /// IEEE 754 binary32, `f4`.
    F32,
    /// IEEE 754 binary64, `f8`.
    F64,
    /// The bits of bfloat16, in `u2` or `V2`.
    Bf16Bits,
}

impl Stored {
    fn bytes(self) -> usize {
        match self {
            Stored::F16 | Stored::Bf16Bits => 2,
            Stored::F32 => 4,
            Stored::F64 => 8,
        }
    }

    /// Whether every value of it is one of `element` too.
    pub fn is_exact_in(self, element: catalogue::Element) -> bool {
        matches!((self, element), (Stored::F16, catalogue::Element::F16) | (Stored::Bf16Bits, catalogue::Element::Bf16))
    }
}

impl fmt::Display for Stored {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stored::F16 => "f16",
            Stored::F32 => "f32",
            Stored::F64 => "f64",
            Stored::Bf16Bits => "bf16 bits",
        })
    }
}

/// How to read or write a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// 16-bit words are the bits of bf16 elements.
    pub bf16_as_u16: bool,
    /// The file holds the transpose of the matrix.
    pub transposed: bool,
}

/// A matrix that was read, and how it was stored.
#[derive(Clone, Debug)]
pub struct Loaded<T> {
    /// The matrix.
    pub matrix: Matrix<T>,
    /// Type of its elements in the file.
    pub stored: Stored,
    /// Finite elements that became infinite because the element type cannot hold them.
    pub overflowed: usize,
}

/// What is wrong with a .npy file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NpyFault {
    /// It does not begin as a .npy file does.
    #[error("is not a .npy file: it does not begin with \\x93NUMPY")]
    NotNpy,
    /// It ends before the header does.
    #[error("is truncated: it ends within its header")]
    HeaderTruncated,
    /// Its header cannot be understood.
    #[error("has a .npy header that cannot be understood: {0}")]
    Header(String),
    /// Its elements have a type that is not read.
    #[error("holds elements of type {0}; f16, f32 and f64 can be read, and bf16 as 16-bit words")]
    Type(String),
    /// Its elements are 16-bit words, and nothing says that they are bf16.
    #[error("holds 16-bit words ({0}), which are read only as the bits of bf16")]
    Words(String),
    /// It is not a matrix.
    #[error("holds an array of {} dimensions{}; a matrix has 2", .0.len(), extents(.0))]
    Rank(Vec<usize>),
    /// It has fewer elements than its shape says.
    #[error("is truncated: {}×{} elements take {wanted} bytes, and {found} follow the header", shape.0, shape.1)]
    Truncated {
        /// Rows and columns, as the header says.
        shape: (usize, usize),
        /// Bytes that they take.
        wanted: u128,
        /// Bytes that are there.
        found: u128,
    },
}

impl NpyFault {
    /// What can be done about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            NpyFault::NotNpy => Some("numpy.save writes .npy files".to_owned()),
            NpyFault::Type(_) => Some("convert it: numpy.save(path, array.astype(numpy.float16))".to_owned()),
            NpyFault::Words(_) => Some("--bf16-as-u16 says that they are bf16".to_owned()),
            NpyFault::Rank(shape) if shape.len() == 1 => {
                Some("array.reshape(1, -1) makes it one row, array.reshape(-1, 1) one column".to_owned())
            }
            _ => None,
        }
    }
}

/// `, 2×3×4` or nothing.
fn extents(shape: &[usize]) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    if extents.is_empty() { String::new() } else { format!(", {}", extents.join("×")) }
}

/// Reads the matrix in the file at `path`, converting its elements to `T` (rounding to nearest, ties to
/// even).
///
/// # Errors
/// When the file cannot be read, is not a .npy file, is truncated, or holds no matrix of numbers.
pub fn read<T: Element>(path: &Path, options: Options) -> Result<Loaded<T>> {
    let failed = |source| Error::File { action: "read", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(failed(io::ErrorKind::IsADirectory.into()));
    }
    let length = metadata.is_file().then_some(metadata.len());
    read_from(file, length, options).map_err(|fault| match fault {
        Fault::Io(source) => failed(source),
        Fault::Npy(fault) => Error::Npy { path: path.to_owned(), fault },
        Fault::Memory(error) => error,
    })
}

enum Fault {
    Io(io::Error),
    Npy(NpyFault),
    Memory(Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Fault::Io(error)
    }
}

impl From<NpyFault> for Fault {
    fn from(fault: NpyFault) -> Self {
        Fault::Npy(fault)
    }
}

/// Reads a matrix from `reader`, which holds `length` bytes where that is known.
fn read_from<T: Element>(reader: impl Read, length: Option<u64>, options: Options) -> Result<Loaded<T>, Fault> {
    let mut reader = Counted { inner: reader, count: 0 };
    let header = Header::from_reader(&mut reader).map_err(|error| match error {
        ReadHeaderError::Io(error) if error.kind() != io::ErrorKind::UnexpectedEof => Fault::Io(error),
        // Fewer bytes than the magic string has.
        ReadHeaderError::Io(_) if reader.count < 6 => NpyFault::NotNpy.into(),
        ReadHeaderError::Io(_) => NpyFault::HeaderTruncated.into(),
        ReadHeaderError::Parse(ParseHeaderError::MagicString) => NpyFault::NotNpy.into(),
        ReadHeaderError::Parse(error) => NpyFault::Header(error.to_string()).into(),
    })?;
    let (stored, big_endian) = element_type(&header, options)?;
    let [rows, cols] = header.shape[..] else { return Err(NpyFault::Rank(header.shape).into()) };

    let wanted = (rows as u128 * cols as u128).saturating_mul(stored.bytes() as u128);
    let truncated = |found| NpyFault::Truncated { shape: (rows, cols), wanted, found };
    if let Some(length) = length {
        // Before memory is asked for: a damaged header may claim anything.
        let found = u128::from(length.saturating_sub(reader.count));
        if found < wanted {
            return Err(truncated(found).into());
        }
    }
    let mut elements: Vec<T> = reserve(rows, cols).map_err(Fault::Memory)?;
    let mut overflowed = 0;
    let count = rows * cols;
    let mut bytes = vec![0; CHUNK.min(count) * stored.bytes()];
    while elements.len() < count {
        let wanted = CHUNK.min(count - elements.len()) * stored.bytes();
        let found = fill(&mut reader, &mut bytes[..wanted])?;
        if found < wanted {
            let found = elements.len() * stored.bytes() + found;
            return Err(truncated(found as u128).into());
        }
        let words = &mut bytes[..wanted];
        if big_endian {
            words.chunks_exact_mut(stored.bytes()).for_each(<[u8]>::reverse);
        }
        overflowed += decode(words, stored, &mut elements);
    }
    // Fortran order is the transpose in C order, and the transpose of a transpose is the matrix.
    let column_by_column = (header.layout == Layout::Fortran) != options.transposed;
    let (rows, cols) = if options.transposed { (cols, rows) } else { (rows, cols) };
    let matrix = if column_by_column {
        let transposed = Matrix::from_vec(elements, cols, rows).map_err(Fault::Memory)?;
        transpose(&transposed).map_err(Fault::Memory)?
    } else {
        Matrix::from_vec(elements, rows, cols).map_err(Fault::Memory)?
    };
    Ok(Loaded { matrix, stored, overflowed })
}

/// The type that the header names, and whether it is big-endian.
fn element_type(header: &Header, options: Options) -> Result<(Stored, bool), NpyFault> {
    let name = header.type_descriptor.to_string();
    let Some(descriptor) = header.type_descriptor.as_string() else { return Err(NpyFault::Type(name)) };
    let (order, code) = match descriptor.split_at_checked(1) {
        Some((order @ ("<" | ">" | "=" | "|"), code)) => (order, code),
        _ => ("=", descriptor.as_str()),
    };
    let stored = match code {
        "f2" => Stored::F16,
        "f4" => Stored::F32,
        "f8" => Stored::F64,
        "u2" | "V2" if options.bf16_as_u16 => Stored::Bf16Bits,
        "u2" | "V2" => return Err(NpyFault::Words(name)),
        _ => return Err(NpyFault::Type(name)),
    };
    let big_endian = order == ">" || (order == "=" && cfg!(target_endian = "big"));
    Ok((stored, big_endian))
}

/// Appends the elements in `bytes`, little-endian, and returns how many became infinite.
fn decode<T: Element>(bytes: &[u8], stored: Stored, elements: &mut Vec<T>) -> usize {
    let mut overflowed = 0;
    let mut push = |finite: bool, element: T| {
        overflowed += usize::from(finite && element.to_f32().is_infinite());
        elements.push(element);
    };
    match stored {
        Stored::F16 | Stored::Bf16Bits => {
            let (words, _) = bytes.as_chunks::<2>();
            for word in words.iter().map(|&word| u16::from_le_bytes(word)) {
                let value =
                    if stored == Stored::F16 { f16::from_bits(word).to_f32() } else { bf16::from_bits(word).to_f32() };
                push(value.is_finite(), T::from_f32(value));
            }
        }
        Stored::F32 => {
            let (words, _) = bytes.as_chunks::<4>();
            for value in words.iter().map(|&word| f32::from_le_bytes(word)) {
                push(value.is_finite(), T::from_f32(value));
            }
        }
        Stored::F64 => {
            let (words, _) = bytes.as_chunks::<8>();
            for value in words.iter().map(|&word| f64::from_le_bytes(word)) {
                push(value.is_finite(), T::from_f64(value));
            }
        }
    }
    overflowed
}

/// The transpose of `matrix`.
///
/// # Errors
/// When the memory cannot be had.
pub fn transpose<T: Element>(matrix: &Matrix<T>) -> Result<Matrix<T>> {
    let (rows, cols) = (matrix.rows(), matrix.cols());
    let mut transposed = Matrix::zeros(cols, rows)?;
    if rows > 0 && cols > 0 {
        transposed.data_mut().par_chunks_mut(SQUARE * rows).enumerate().for_each(|(band, to)| {
            for first in (0..rows).step_by(SQUARE) {
                for (j, to) in to.chunks_exact_mut(rows).enumerate() {
                    let from = matrix.data()[first * cols + band * SQUARE + j..].iter().step_by(cols);
                    to[first..].iter_mut().zip(from).take(SQUARE).for_each(|(to, from)| *to = *from);
                }
            }
        });
    }
    Ok(transposed)
}

/// Writes `matrix` to the file at `path`, and returns how its elements are stored there: f16 as they are,
/// bf16 as their bits with [`Options::bf16_as_u16`] and otherwise as f32.
///
/// # Errors
/// When the file cannot be written. What was there before is then lost.
pub fn write<T: Element>(path: &Path, matrix: MatRef<'_, T>, options: Options) -> Result<Stored> {
    let stored = match (T::KIND, options.bf16_as_u16) {
        (catalogue::Element::F16, _) => Stored::F16,
        (catalogue::Element::Bf16, true) => Stored::Bf16Bits,
        (catalogue::Element::Bf16, false) => Stored::F32,
    };
    let failed = |action| move |source| Error::File { action, path: path.to_owned(), source };
    let file = File::create(path).map_err(failed("create"))?;
    let mut writer = BufWriter::with_capacity(CHUNK * stored.bytes(), file);
    write_to(&mut writer, matrix, stored).and_then(|()| writer.flush()).map_err(failed("write"))?;
    Ok(stored)
}

fn write_to<T: Element>(mut writer: impl Write, matrix: MatRef<'_, T>, stored: Stored) -> io::Result<()> {
    let descriptor = match stored {
        Stored::F16 => "<f2",
        Stored::F32 => "<f4",
        Stored::F64 => "<f8",
        Stored::Bf16Bits => "<u2",
    };
    let header = Header {
        type_descriptor: py_literal::Value::String(descriptor.to_owned()),
        layout: Layout::Standard,
        shape: vec![matrix.rows(), matrix.cols()],
    };
    header.write(&mut writer).map_err(|error| match error {
        WriteHeaderError::Io(error) => error,
        WriteHeaderError::Format(error) => io::Error::other(error),
    })?;
    for i in 0..matrix.rows() {
        for element in matrix.row(i) {
            match stored {
                Stored::F16 | Stored::Bf16Bits => writer.write_all(&element.to_bits().to_le_bytes())?,
                Stored::F32 => writer.write_all(&element.to_f32().to_le_bytes())?,
                Stored::F64 => writer.write_all(&f64::from(element.to_f32()).to_le_bytes())?,
            }
        }
    }
    Ok(())
}

/// Reads until `buffer` is full or nothing is left, and returns how much was read.
fn fill(reader: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match reader.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The bytes of a .npy file.
    fn file(descriptor: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
        let order = if fortran { "True" } else { "False" };
        let dictionary = format!("{{'descr': {descriptor}, 'fortran_order': {order}, 'shape': {shape}, }}\n");
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        bytes.extend(u16::try_from(dictionary.len()).unwrap().to_le_bytes());
        bytes.extend(dictionary.bytes());
        bytes.extend(data);
        bytes
    }

    fn parse<T: Element>(bytes: &[u8], options: Options) -> Result<Loaded<T>, Fault> {
        read_from(bytes, Some(bytes.len() as u64), options)
    }

    fn fault(bytes: &[u8]) -> NpyFault {
        match parse::<f16>(bytes, Options::default()) {
            Err(Fault::Npy(fault)) => fault,
            Err(Fault::Io(error)) => panic!("{error}"),
            Err(Fault::Memory(error)) => panic!("{error}"),
            Ok(_) => panic!("was read"),
        }
    }

    fn values<T: Element>(bytes: &[u8], options: Options) -> (usize, usize, Vec<f32>) {
        let Ok(loaded) = parse::<T>(bytes, options) else { panic!("not read") };
        let values = loaded.matrix.data().iter().map(|value| value.to_f32()).collect();
        (loaded.matrix.rows(), loaded.matrix.cols(), values)
    }

    const SIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

    fn six<const N: usize>(bytes: impl Fn(f32) -> [u8; N]) -> Vec<u8> {
        SIX.iter().flat_map(|&value| bytes(value)).collect()
    }

    #[test]
    fn reads_every_type_in_both_byte_orders() {
        for (descriptor, data) in [
            ("'<f2'", six(|v| f16::from_f32(v).to_le_bytes())),
            ("'>f2'", six(|v| f16::from_f32(v).to_be_bytes())),
            ("'<f4'", six(f32::to_le_bytes)),
            ("'>f4'", six(f32::to_be_bytes)),
            ("'<f8'", six(|v| f64::from(v).to_le_bytes())),
            ("'>f8'", six(|v| f64::from(v).to_be_bytes())),
        ] {
            let bytes = file(descriptor, false, "(2, 3)", &data);
            assert_eq!(values::<f16>(&bytes, Options::default()), (2, 3, SIX.to_vec()), "{descriptor}");
            assert_eq!(values::<bf16>(&bytes, Options::default()), (2, 3, SIX.to_vec()), "{descriptor}");
        }
        let bits = Options { bf16_as_u16: true, ..Options::default() };
        for (descriptor, data) in [
            ("'<u2'", six(|v| bf16::from_f32(v).to_le_bytes())),
            ("'>u2'", six(|v| bf16::from_f32(v).to_be_bytes())),
            ("'|V2'", six(|v| bf16::from_f32(v).to_le_bytes())),
            ("'<V2'", six(|v| bf16::from_f32(v).to_le_bytes())),
        ] {
            let bytes = file(descriptor, false, "(2, 3)", &data);
            assert_eq!(values::<bf16>(&bytes, bits), (2, 3, SIX.to_vec()), "{descriptor}");
        }
    }

    #[test]
    fn reads_both_orders_and_their_transposes() {
        let data = six(f32::to_le_bytes);
        let transposed = Options { transposed: true, ..Options::default() };
        let rows = vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0];
        let columns = vec![0.0, 2.0, 4.0, 1.0, 3.0, 5.0];
        let c = file("'<f4'", false, "(2, 3)", &data);
        let fortran = file("'<f4'", true, "(2, 3)", &data);
        assert_eq!(values::<f16>(&c, Options::default()), (2, 3, rows.clone()));
        assert_eq!(values::<f16>(&fortran, Options::default()), (2, 3, columns));
        assert_eq!(values::<f16>(&c, transposed), (3, 2, vec![0.0, 3.0, 1.0, 4.0, 2.0, 5.0]));
        assert_eq!(values::<f16>(&fortran, transposed), (3, 2, rows));
    }

    #[test]
    fn transposes_ragged_matrices() {
        for (rows, cols) in [(1, 1), (1, 200), (130, 70), (64, 65), (0, 3), (3, 0)] {
            let data = (0..rows * cols).map(|i| f16::from_bits(i as u16)).collect();
            let matrix = Matrix::from_vec(data, rows, cols).unwrap();
            let transposed = transpose(&matrix).unwrap();
            assert_eq!((transposed.rows(), transposed.cols()), (cols, rows));
            for i in 0..rows {
                for j in 0..cols {
                    assert_eq!(transposed.data()[j * rows + i].to_bits(), matrix.data()[i * cols + j].to_bits());
                }
            }
        }
    }

    #[test]
    fn counts_what_overflows() {
        let data: Vec<u8> =
            [65504.0, 65520.0, -1e9, f32::INFINITY].iter().flat_map(|v: &f32| v.to_le_bytes()).collect();
        let bytes = file("'<f4'", false, "(1, 4)", &data);
        let Ok(loaded) = parse::<f16>(&bytes, Options::default()) else { panic!("not read") };
        assert_eq!(loaded.overflowed, 2);
        let Ok(loaded) = parse::<bf16>(&bytes, Options::default()) else { panic!("not read") };
        assert_eq!(loaded.overflowed, 0);
    }

    #[test]
    fn empty_matrices_are_read() {
        assert_eq!(values::<f16>(&file("'<f2'", false, "(0, 5)", &[]), Options::default()), (0, 5, vec![]));
        assert_eq!(values::<f16>(&file("'<f2'", true, "(5, 0)", &[]), Options::default()), (5, 0, vec![]));
        let (rows, cols, _) = values::<f16>(&file("'<f2'", true, "(0, 9223372036854775807)", &[]), Options::default());
        assert_eq!((rows, cols), (0, 9223372036854775807));
    }

    #[test]
    fn what_is_not_npy_is_said() {
        for bytes in [&b""[..], b"\x93NUM", b"PK\x03\x04 a zip file", b"1.0,2.0\n3.0,4.0\n"] {
            assert!(matches!(fault(bytes), NpyFault::NotNpy), "{bytes:?}");
        }
        let whole = file("'<f2'", false, "(2, 3)", &[]);
        for length in 6..whole.len() {
            assert!(matches!(fault(&whole[..length]), NpyFault::HeaderTruncated), "{length}");
        }
    }

    #[test]
    fn truncated_data_is_said() {
        let bytes = file("'<f4'", false, "(2, 3)", &[0; 23]);
        assert_eq!(fault(&bytes).to_string(), "is truncated: 2×3 elements take 24 bytes, and 23 follow the header");
        // The same where the length is not known beforehand, as from a pipe.
        match read_from::<f16>(&bytes[..], None, Options::default()) {
            Err(Fault::Npy(NpyFault::Truncated { wanted: 24, found: 23, .. })) => {}
            _ => panic!("not said"),
        }
        // More than the shape says is another array's business.
        assert_eq!(values::<f16>(&file("'<f4'", false, "(1, 1)", &[0; 23]), Options::default()), (1, 1, vec![0.0]));
    }

    #[test]
    fn other_types_are_refused() {
        for descriptor in ["'<i8'", "'|b1'", "'<c8'", "'|O'", "'<U3'", "'f'", "''", "[('a', '<f4')]", "'é'"] {
            let fault = fault(&file_v3(descriptor));
            assert!(matches!(fault, NpyFault::Type(_)), "{descriptor}: {fault}");
            assert!(fault.hint().is_some());
        }
        let fault = fault(&file("'<u2'", false, "(2, 3)", &[0; 12]));
        assert_eq!(fault.to_string(), "holds 16-bit words ('<u2'), which are read only as the bits of bf16");
        assert!(fault.hint().unwrap().contains("--bf16-as-u16"));
    }

    /// Version 3.0, whose header is UTF-8.
    fn file_v3(descriptor: &str) -> Vec<u8> {
        let dictionary = format!("{{'descr': {descriptor}, 'fortran_order': False, 'shape': (1, 1), }}\n");
        let mut bytes = b"\x93NUMPY\x03\x00".to_vec();
        bytes.extend(u32::try_from(dictionary.len()).unwrap().to_le_bytes());
        bytes.extend(dictionary.bytes());
        bytes.extend([0; 16]);
        bytes
    }

    #[test]
    fn other_ranks_are_refused() {
        let said = |shape| fault(&file("'<f2'", false, shape, &[0; 100])).to_string();
        assert_eq!(said("()"), "holds an array of 0 dimensions; a matrix has 2");
        assert_eq!(said("(5,)"), "holds an array of 1 dimensions, 5; a matrix has 2");
        assert_eq!(said("(2, 3, 4)"), "holds an array of 3 dimensions, 2×3×4; a matrix has 2");
        assert!(fault(&file("'<f2'", false, "(5,)", &[0; 10])).hint().unwrap().contains("reshape"));
    }

    #[test]
    fn impossible_sizes_are_refused_before_memory_is_asked_for() {
        for shape in
            ["(9223372036854775807, 9223372036854775807)", "(4294967296, 4294967296)", "(1000000000, 1000000000)"]
        {
            assert!(matches!(fault(&file("'<f8'", true, shape, &[0; 8])), NpyFault::Truncated { .. }), "{shape}");
            match read_from::<f16>(&file("'<f8'", true, shape, &[0; 8])[..], None, Options::default()) {
                Err(Fault::Memory(Error::HostMemory { .. })) => {}
                _ => panic!("{shape}"),
            }
        }
        assert!(matches!(fault(&file("'<f2'", false, "(-1, 5)", &[])), NpyFault::Header(_)));
        assert!(matches!(fault(&file("'<f2'", false, "(18446744073709551616, 5)", &[])), NpyFault::Header(_)));
    }

    #[test]
    fn round_trips() {
        fn check<T: Element>(options: Options, wanted: Stored) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("matrix.npy");
            let data: Vec<T> = (0..35).map(|i| T::from_f32(i as f32 / 7.0 - 2.0)).collect();
            let padded = MatRef::new(&data, 5, 6, 7).unwrap();
            assert_eq!(write(&path, padded, options).unwrap(), wanted);
            let loaded = read::<T>(&path, options).unwrap();
            assert_eq!((loaded.stored, loaded.overflowed), (wanted, 0));
            for i in 0..5 {
                assert_eq!(loaded.matrix.view().row(i), padded.row(i));
            }
        }
        let bits = Options { bf16_as_u16: true, ..Options::default() };
        check::<f16>(Options::default(), Stored::F16);
        check::<bf16>(Options::default(), Stored::F32);
        check::<bf16>(bits, Stored::Bf16Bits);
    }

    #[test]
    fn absent_files_and_folders_are_said() {
        let folder = tempfile::tempdir().unwrap();
        let absent = folder.path().join("absent.npy");
        let error = read::<f16>(&absent, Options::default()).unwrap_err();
        assert!(matches!(error, Error::File { action: "read", .. }), "{error}");
        assert!(read::<f16>(folder.path(), Options::default()).unwrap_err().to_string().contains("directory"));
        let matrix = Matrix::<f16>::zeros(1, 1).unwrap();
        let error = write(&folder.path().join("absent/c.npy"), matrix.view(), Options::default()).unwrap_err();
        assert!(matches!(error, Error::File { action: "create", .. }), "{error}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse::<f16>(&bytes, Options::default());
        }

        #[test]
        fn no_header_makes_it_panic(
            descriptor in "'[<>|=]?[fuiV][0-9]{0,3}'|[\\[\\](){}', 0-9a-z]{0,20}",
            fortran in any::<bool>(),
            shape in "\\([0-9]{0,22}(, ?[0-9]{0,22}){0,3}\\)|[\\[\\](){}', 0-9a-z]{0,20}",
            data in prop::collection::vec(any::<u8>(), 0..64),
            bf16_as_u16 in any::<bool>(),
            transposed in any::<bool>(),
        ) {
            let bytes = file(&descriptor, fortran, &shape, &data);
            let _ = parse::<bf16>(&bytes, Options { bf16_as_u16, transposed });
        }
    }
}
