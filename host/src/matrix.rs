//! Matrices in host memory: owned, and views of a buffer.
//!
//! All are row-major: element (i, j) lies at `i * ld + j`, where the leading dimension `ld` is the number
//! of elements from one row to the next.

use crate::element::Element;
use crate::error::{Error, Result};

/// Elements that a `rows`×`cols` matrix with leading dimension `ld` takes: the last row is not padded.
/// Nothing when there are no elements, and `None` when the number does not fit in a `usize`.
pub const fn span(rows: usize, cols: usize, ld: usize) -> Option<usize> {
    if rows == 0 || cols == 0 {
        return Some(0);
    }
    match (rows - 1).checked_mul(ld) {
        Some(before_last) => before_last.checked_add(cols),
        None => None,
    }
}

/// Checks that a buffer of `len` elements holds the matrix, and that its rows do not overlap.
fn check(len: usize, rows: usize, cols: usize, ld: usize) -> Result<()> {
    if ld < cols {
        return Err(Error::LeadingDimensionTooSmall { matrix: "a matrix", value: ld, row: cols });
    }
    match span(rows, cols, ld) {
        Some(wanted) if wanted <= len => Ok(()),
        wanted => Err(Error::BufferTooSmall { rows, cols, ld, wanted: wanted.unwrap_or(usize::MAX), actual: len }),
    }
}

/// A read-only view of a row-major matrix in host memory.
#[derive(Clone, Copy, Debug)]
pub struct MatRef<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    ld: usize,
}

impl<'a, T> MatRef<'a, T> {
    /// A view of `data` as `rows`×`cols` with leading dimension `ld`.
    ///
    /// # Errors
    /// When `ld` is below `cols`, or `data` is shorter than the matrix.
    pub fn new(data: &'a [T], rows: usize, cols: usize, ld: usize) -> Result<Self> {
        check(data.len(), rows, cols, ld)?;
        Ok(Self { data, rows, cols, ld })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from one row to the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// The buffer, from the first element on; it may be longer than the matrix.
    pub fn data(&self) -> &'a [T] {
        self.data
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&self, i: usize) -> &'a [T] {
        assert!(i < self.rows, "row {i} of a matrix with {} rows", self.rows);
        if self.cols == 0 { &[] } else { &self.data[i * self.ld..][..self.cols] }
    }

    /// Rows `first..first + count`, as a view of the same columns.
    ///
    /// # Panics
    /// When there are no such rows.
    pub fn row_range(&self, first: usize, count: usize) -> Self {
        assert!(first <= self.rows && count <= self.rows - first, "rows {first}+{count} of {}", self.rows);
        let data = if count == 0 || self.cols == 0 { &[] } else { &self.data[first * self.ld..] };
        Self { data, rows: count, ..*self }
    }
}

/// A view of a row-major matrix in host memory that may be written.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    rows: usize,
    cols: usize,
    ld: usize,
}

impl<'a, T> MatMut<'a, T> {
    /// A view of `data` as `rows`×`cols` with leading dimension `ld`.
    ///
    /// # Errors
    /// When `ld` is below `cols`, or `data` is shorter than the matrix.
    pub fn new(data: &'a mut [T], rows: usize, cols: usize, ld: usize) -> Result<Self> {
        check(data.len(), rows, cols, ld)?;
        Ok(Self { data, rows, cols, ld })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// Elements from one row to the next.
    pub fn ld(&self) -> usize {
        self.ld
    }

    /// The buffer, from the first element on; it may be longer than the matrix.
    pub fn data(&mut self) -> &mut [T] {
        self.data
    }

    /// Row `i`.
    ///
    /// # Panics
    /// When there is no such row.
    pub fn row(&mut self, i: usize) -> &mut [T] {
        assert!(i < self.rows, "row {i} of a matrix with {} rows", self.rows);
        if self.cols == 0 { &mut [] } else { &mut self.data[i * self.ld..][..self.cols] }
    }

    /// The same view, read-only.
    pub fn as_ref(&self) -> MatRef<'_, T> {
        MatRef { data: self.data, rows: self.rows, cols: self.cols, ld: self.ld }
    }
}

/// A matrix that owns its elements, rows one after the other without padding.
#[derive(Clone, Debug, PartialEq)]
pub struct Matrix<T> {
    data: Vec<T>,
    rows: usize,
    cols: usize,
}

impl<T: Copy> Matrix<T> {
    /// A matrix of `rows`×`cols` copies of `value`.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn filled(rows: usize, cols: usize, value: T) -> Result<Self> {
        let mut data = reserve(rows, cols)?;
        data.resize(rows * cols, value);
        Ok(Self { data, rows, cols })
    }
}

impl<T: Element> Matrix<T> {
    /// A matrix of zeros.
    ///
    /// # Errors
    /// When the memory cannot be had.
    pub fn zeros(rows: usize, cols: usize) -> Result<Self> {
        Self::filled(rows, cols, T::default())
    }
}

impl<T> Matrix<T> {
    /// A matrix of the elements of `data`, row by row.
    ///
    /// # Errors
    /// When `data` is not exactly `rows * cols` long.
    pub fn from_vec(data: Vec<T>, rows: usize, cols: usize) -> Result<Self> {
        let wanted = rows.checked_mul(cols);
        if wanted != Some(data.len()) {
            return Err(Error::BufferTooSmall {
                rows,
                cols,
                ld: cols,
                wanted: wanted.unwrap_or(usize::MAX),
                actual: data.len(),
            });
        }
        Ok(Self { data, rows, cols })
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns, which is the leading dimension too.
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// The elements, row by row.
    pub fn data(&self) -> &[T] {
        &self.data
    }

    /// The elements, row by row.
    pub fn data_mut(&mut self) -> &mut [T] {
        &mut self.data
    }

    /// A view of the whole.
    pub fn view(&self) -> MatRef<'_, T> {
        MatRef { data: &self.data, rows: self.rows, cols: self.cols, ld: self.cols }
    }

    /// A view of the whole that may be written.
    pub fn view_mut(&mut self) -> MatMut<'_, T> {
        MatMut { data: &mut self.data, rows: self.rows, cols: self.cols, ld: self.cols }
    }
}

/// An empty vector with room for exactly `rows * cols` elements.
pub(crate) fn reserve<T>(rows: usize, cols: usize) -> Result<Vec<T>> {
    let bytes = (rows as u128 * cols as u128).saturating_mul(size_of::<T>() as u128);
    let what = format!("a {rows}×{cols} matrix");
    check_memory(&what, bytes)?;
    let mut data = Vec::new();
    match rows.checked_mul(cols).map(|len| data.try_reserve_exact(len)) {
        Some(Ok(())) => Ok(data),
        _ => Err(Error::HostMemory { what, bytes }),
    }
}

/// Checks that there is memory for `bytes` bytes, where the system tells. An allocation alone is no check:
/// the system promises more than it has, and ends the process when it is taken at its word.
///
/// # Errors
/// When there is not; the error says what was to be stored.
pub fn check_memory(what: &str, bytes: u128) -> Result<()> {
    /// What is smaller than this, in bytes, is not worth asking for.
    const LARGE: u128 = 64 << 20;
    if bytes < LARGE || available_memory().is_none_or(|available| bytes <= available) {
        Ok(())
    } else {
        Err(Error::HostMemory { what: what.to_owned(), bytes })
    }
}

/// Bytes of memory that may be used without swapping, where the system tells.
fn available_memory() -> Option<u128> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u128 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_leading_dimension() {
        let data: Vec<u16> = (0..11).collect();
        let view = MatRef::new(&data, 3, 3, 4).unwrap();
        assert_eq!(view.row(0), [0, 1, 2]);
        assert_eq!(view.row(2), [8, 9, 10]);
        let lower = view.row_range(1, 2);
        assert_eq!((lower.rows(), lower.cols(), lower.row(1)), (2, 3, &[8, 9, 10][..]));
        assert_eq!(view.row_range(3, 0).rows(), 0);
    }

    #[test]
    fn the_last_row_needs_no_padding() {
        assert!(MatRef::new(&[0u16; 11], 3, 3, 4).is_ok());
        let error = MatRef::new(&[0u16; 10], 3, 3, 4).unwrap_err();
        assert!(matches!(error, Error::BufferTooSmall { wanted: 11, actual: 10, .. }), "{error}");
        let error = MatMut::new(&mut [0u16; 10], 3, 3, 4).unwrap_err();
        assert!(matches!(error, Error::BufferTooSmall { wanted: 11, actual: 10, .. }), "{error}");
    }

    #[test]
    fn rows_may_not_overlap() {
        let error = MatRef::new(&[0u16; 100], 3, 5, 4).unwrap_err();
        assert!(matches!(error, Error::LeadingDimensionTooSmall { value: 4, row: 5, .. }), "{error}");
    }

    #[test]
    fn an_empty_matrix_takes_no_memory() {
        let view = MatRef::<u16>::new(&[], 3, 0, 0).unwrap();
        assert!(view.row(2).is_empty());
        assert!(MatRef::<u16>::new(&[], 0, 5, 8).is_ok());
    }

    #[test]
    fn sizes_that_overflow_are_errors() {
        let error = MatRef::new(&[0u16; 4], usize::MAX, 2, 2).unwrap_err();
        assert!(matches!(error, Error::BufferTooSmall { wanted: usize::MAX, .. }), "{error}");
        assert!(matches!(Matrix::filled(usize::MAX, 2, 0u16), Err(Error::HostMemory { .. })));
        assert!(matches!(Matrix::filled(1 << 50, 1, 0u16), Err(Error::HostMemory { .. })));
        // More than there is, and less than the system would promise.
        if let Some(available) = available_memory() {
            let error = Matrix::filled(available as usize + (1 << 30), 1, 0u8).unwrap_err();
            assert!(matches!(error, Error::HostMemory { .. }), "{error}");
        }
    }

    #[test]
    fn a_vector_must_fit_exactly() {
        assert!(Matrix::from_vec(vec![1u16; 6], 2, 3).is_ok());
        assert!(Matrix::from_vec(vec![1u16; 7], 2, 3).is_err());
        assert!(Matrix::from_vec(vec![1u16; 5], 2, 3).is_err());
    }
}
