//! Matrices in device memory: owned, and views of memory that somebody else owns.
//!
//! All are row-major: element (i, j) lies `i * ld + j` elements after the first.

use std::ffi::c_void;
use std::marker::PhantomData;
use std::ops::Range;

use super::driver::{Device, Stream};
use super::memory::Memory;
use super::sys;
use crate::element::Element;
use crate::error::{Error, Result};
use crate::matrix::{MatMut, MatRef};
use crate::problem::padded_leading_dimension;

/// A matrix that owns its device memory.
///
/// Dropping it waits for all work on the device, so that no kernel is left reading or writing freed
/// memory.
pub struct DeviceMatrix<T> {
    memory: Memory,
    rows: usize,
    cols: usize,
    ld: usize,
    _elements: PhantomData<T>,
}

impl<T: Element> DeviceMatrix<T> {
    /// A `rows`×`cols` matrix whose elements are whatever the memory held. Its leading dimension is the
    /// smallest with which TMA can read it. Wraps `cuMemAlloc`.
    ///
    /// # Errors
    /// When the device has not enough memory: the error says how much was wanted and how much is free.
    pub fn new(device: &Device, rows: usize, cols: usize) -> Result<Self> {
        Self::with_ld(device, rows, cols, padded_leading_dimension(T::KIND, cols))
    }

    /// As [`DeviceMatrix::new`], with a leading dimension of `ld` elements, at least `cols`.
    pub fn with_ld(device: &Device, rows: usize, cols: usize, ld: usize) -> Result<Self> {
        if ld < cols {
            return Err(Error::LeadingDimensionTooSmall { matrix: "a matrix", value: ld, row: cols });
        }
        // A size that does not fit is more than any device has.
        let bytes = rows.checked_mul(ld).and_then(|n| n.checked_mul(size_of::<T>())).unwrap_or(usize::MAX);
        Ok(Self { memory: Memory::new(device, bytes)?, rows, cols, ld, _elements: PhantomData })
    }

    /// A copy of `host`, complete when this returns. Its leading dimension is the smallest with which TMA
    /// can read it.
    pub fn from_host(stream: &Stream, host: &MatRef<'_, T>) -> Result<Self> {
        let mut matrix = Self::new(stream.device(), host.rows(), host.cols())?;
        matrix.upload(stream, host)?;
        Ok(matrix)
    }

    /// Copies all of `host` into it. See [`DeviceMatrixMut::upload`].
    pub fn upload(&mut self, stream: &Stream, host: &MatRef<'_, T>) -> Result<()> {
        self.view_mut().upload(stream, host)
    }

    /// Copies all of it to `host`. See [`DeviceMatrixRef::download`].
    pub fn download(&self, stream: &Stream, host: &mut MatMut<'_, T>) -> Result<()> {
        self.view().download(stream, host)
    }

    /// Sets every element to `value`. See [`DeviceMatrixMut::fill`].
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()> {
        self.view_mut().fill(stream, value)
    }
}

impl<T> DeviceMatrix<T> {
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

    /// Device address of the first element; 0 when there are no elements.
    pub fn address(&self) -> u64 {
        self.memory.address()
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.memory.device()
    }

    /// All of it, to be read.
    pub fn view(&self) -> DeviceMatrixRef<'_, T> {
        DeviceMatrixRef(View::of(self))
    }

    /// All of it, to be written.
    pub fn view_mut(&mut self) -> DeviceMatrixMut<'_, T> {
        DeviceMatrixMut(View::of(self))
    }
}

/// What a view knows: where, how large, on which device.
pub(crate) struct View<'a, T> {
    pub address: u64,
    pub rows: usize,
    pub cols: usize,
    pub ld: usize,
    pub device: u32,
    _memory: PhantomData<&'a T>,
}

impl<T> Clone for View<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<'_, T> {}

impl<T> View<'_, T> {
    fn of(matrix: &DeviceMatrix<T>) -> Self {
        View {
            address: matrix.address(),
            rows: matrix.rows,
            cols: matrix.cols,
            ld: matrix.ld,
            device: matrix.device().index(),
            _memory: PhantomData,
        }
    }

    fn is_empty(&self) -> bool {
        self.rows == 0 || self.cols == 0
    }

    fn row_range(self, range: Range<usize>) -> Result<Self> {
        if range.start > range.end || range.end > self.rows {
            return Err(Error::RowRange { start: range.start, end: range.end, rows: self.rows });
        }
        let offset = if self.is_empty() { 0 } else { range.start * self.ld * size_of::<T>() };
        Ok(View { address: self.address + offset as u64, rows: range.len(), ..self })
    }

    fn check_device(&self, stream: &Stream) -> Result<()> {
        let expected = stream.device().index();
        if self.device != expected {
            return Err(Error::WrongDevice { what: "the matrix", device: self.device, expected });
        }
        Ok(())
    }

    fn check_copy(&self, stream: &Stream, rows: usize, cols: usize) -> Result<()> {
        if (rows, cols) != (self.rows, self.cols) {
            return Err(Error::CopyShape { host: (rows, cols), device: (self.rows, self.cols) });
        }
        self.check_device(stream)
    }

    fn extent(&self, host_ld: usize) -> Extent {
        let bytes = size_of::<T>();
        Extent {
            rows: self.rows,
            row_bytes: self.cols * bytes,
            host_pitch: host_ld * bytes,
            device_pitch: self.ld * bytes,
        }
    }
}

/// A matrix in device memory that is only read.
pub struct DeviceMatrixRef<'a, T>(pub(crate) View<'a, T>);

impl<T> Clone for DeviceMatrixRef<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for DeviceMatrixRef<'_, T> {}

impl<T: Element> DeviceMatrixRef<'_, T> {
    /// A view of memory that somebody else owns: a `rows`×`cols` matrix at device address `address`,
    /// its rows `ld` elements apart.
    ///
    /// # Safety
    /// The memory is that of `device` and lives as long as the view and as whatever was launched on it;
    /// nothing writes it meanwhile.
    pub unsafe fn from_raw(device: &Device, address: u64, rows: usize, cols: usize, ld: usize) -> Self {
        DeviceMatrixRef(View { address, rows, cols, ld, device: device.index(), _memory: PhantomData })
    }

    /// Some of its rows.
    ///
    /// # Errors
    /// When it does not have them.
    pub fn row_range(self, range: Range<usize>) -> Result<Self> {
        Ok(DeviceMatrixRef(self.0.row_range(range)?))
    }

    /// Copies all of it to `host`, after what is in `stream`, and waits for the copy. Wraps
    /// `cuMemcpy2DAsync`.
    ///
    /// # Errors
    /// When the shapes differ, or when anything put into `stream` before has failed.
    pub fn download(&self, stream: &Stream, host: &mut MatMut<'_, T>) -> Result<()> {
        self.0.check_copy(stream, host.rows(), host.cols())?;
        if self.0.is_empty() {
            return stream.synchronize();
        }
        let extent = self.0.extent(host.ld());
        let direction = Direction::ToHost { to: host.data().as_mut_ptr().cast(), from: self.0.address };
        // SAFETY: both matrices have that extent.
        unsafe { copy(stream, direction, extent) }
    }
}

/// A matrix in device memory that is written.
pub struct DeviceMatrixMut<'a, T>(pub(crate) View<'a, T>);

impl<T: Element> DeviceMatrixMut<'_, T> {
    /// A view of memory that somebody else owns: a `rows`×`cols` matrix at device address `address`,
    /// its rows `ld` elements apart.
    ///
    /// # Safety
    /// The memory is that of `device` and lives as long as the view and as whatever was launched on it;
    /// nothing else reads or writes it meanwhile.
    pub unsafe fn from_raw(device: &Device, address: u64, rows: usize, cols: usize, ld: usize) -> Self {
        DeviceMatrixMut(View { address, rows, cols, ld, device: device.index(), _memory: PhantomData })
    }

    /// Some of its rows.
    ///
    /// # Errors
    /// When it does not have them.
    pub fn row_range(self, range: Range<usize>) -> Result<Self> {
        Ok(DeviceMatrixMut(self.0.row_range(range)?))
    }

    /// Copies all of `host` into it, after what is in `stream`, and waits for the copy. Wraps
    /// `cuMemcpy2DAsync`.
    ///
    /// # Errors
    /// When the shapes differ.
    pub fn upload(&mut self, stream: &Stream, host: &MatRef<'_, T>) -> Result<()> {
        self.0.check_copy(stream, host.rows(), host.cols())?;
        if self.0.is_empty() {
            return Ok(());
        }
        let direction = Direction::ToDevice { to: self.0.address, from: host.data().as_ptr().cast() };
        // SAFETY: both matrices have that extent.
        unsafe { copy(stream, direction, self.0.extent(host.ld())) }
    }

    /// Sets every element to `value`, in `stream`, leaving what lies between the rows. Wraps
    /// `cuMemsetD2D16Async`.
    pub fn fill(&mut self, stream: &Stream, value: T) -> Result<()> {
        self.0.check_device(stream)?;
        // SAFETY: the view has that shape.
        unsafe { fill(stream, self.0.address, value.to_bits(), self.0.rows, self.0.cols, self.0.ld) }
    }
}

impl<'a, T> From<&'a DeviceMatrix<T>> for DeviceMatrixRef<'a, T> {
    fn from(matrix: &'a DeviceMatrix<T>) -> Self {
        matrix.view()
    }
}

impl<'a, T> From<&'a mut DeviceMatrix<T>> for DeviceMatrixMut<'a, T> {
    fn from(matrix: &'a mut DeviceMatrix<T>) -> Self {
        matrix.view_mut()
    }
}

/// Sets `rows` rows of `width` 16-bit elements, `ld` elements apart, to `bits`, in `stream`. Wraps
/// `cuMemsetD2D16Async`.
///
/// # Safety
/// The memory at `address` is that large.
pub(crate) unsafe fn fill(
    stream: &Stream,
    address: u64,
    bits: u16,
    rows: usize,
    width: usize,
    ld: usize,
) -> Result<()> {
    if rows == 0 || width == 0 {
        return Ok(());
    }
    let _bound = stream.device().bind()?;
    // SAFETY: promised by the caller.
    let code = unsafe { sys::cuMemsetD2D16Async(address, ld * 2, bits, width, rows, stream.as_raw()) };
    sys::check(code, "cuMemsetD2D16Async")
}

#[derive(Clone, Copy)]
enum Direction {
    ToDevice { to: u64, from: *const c_void },
    ToHost { to: *mut c_void, from: u64 },
}

/// Rows of bytes, and their distance on either side.
#[derive(Clone, Copy)]
struct Extent {
    rows: usize,
    row_bytes: usize,
    host_pitch: usize,
    device_pitch: usize,
}

impl Extent {
    fn is_contiguous(&self) -> bool {
        self.rows == 1 || (self.host_pitch == self.row_bytes && self.device_pitch == self.row_bytes)
    }
}

/// Largest pitch of `cuMemcpy2D` (`CU_DEVICE_ATTRIBUTE_MAX_PITCH`).
const MAX_PITCH: usize = i32::MAX as usize;

/// Copies rows after what is in `stream`, and waits for the stream.
///
/// # Safety
/// Both sides are as large as `extent` says.
unsafe fn copy(stream: &Stream, direction: Direction, extent: Extent) -> Result<()> {
    let Extent { rows, row_bytes, host_pitch, device_pitch } = extent;
    let bound = stream.device().bind()?;
    if extent.is_contiguous() {
        // SAFETY: promised by the caller.
        unsafe { copy_bytes(stream, direction, 0, 0, rows * row_bytes)? };
    } else if host_pitch > MAX_PITCH || device_pitch > MAX_PITCH {
        // Rows of more than 2 GiB: few, and each well worth a call.
        for row in 0..rows {
            // SAFETY: promised by the caller.
            unsafe { copy_bytes(stream, direction, row * host_pitch, row * device_pitch, row_bytes)? };
        }
    } else {
        // SAFETY: all-zero bits are a valid Copy2d: null pointers, which the driver does not look at for
        // the kind of memory that is not named.
        let mut copy: sys::Copy2d = unsafe { std::mem::zeroed() };
        (copy.width_bytes, copy.height) = (row_bytes, rows);
        match direction {
            Direction::ToDevice { to, from } => {
                (copy.src_memory, copy.src_host, copy.src_pitch) = (sys::MEMORY_HOST, from, host_pitch);
                (copy.dst_memory, copy.dst_device, copy.dst_pitch) = (sys::MEMORY_DEVICE, to, device_pitch);
            }
            Direction::ToHost { to, from } => {
                (copy.src_memory, copy.src_device, copy.src_pitch) = (sys::MEMORY_DEVICE, from, device_pitch);
                (copy.dst_memory, copy.dst_host, copy.dst_pitch) = (sys::MEMORY_HOST, to, host_pitch);
            }
        }
        // SAFETY: promised by the caller.
        sys::check(unsafe { sys::cuMemcpy2DAsync_v2(&copy, stream.as_raw()) }, "cuMemcpy2DAsync")?;
    }
    drop(bound);
    // The host side is borrowed only until this function returns.
    stream.synchronize()
}

/// Copies `bytes` bytes at these offsets.
///
/// # Safety
/// Both sides are that large.
unsafe fn copy_bytes(
    stream: &Stream,
    direction: Direction,
    host_offset: usize,
    device_offset: usize,
    bytes: usize,
) -> Result<()> {
    match direction {
        Direction::ToDevice { to, from } => {
            // SAFETY: promised by the caller.
            let code = unsafe {
                sys::cuMemcpyHtoDAsync_v2(to + device_offset as u64, from.byte_add(host_offset), bytes, stream.as_raw())
            };
            sys::check(code, "cuMemcpyHtoDAsync")
        }
        Direction::ToHost { to, from } => {
            // SAFETY: promised by the caller.
            let code = unsafe {
                sys::cuMemcpyDtoHAsync_v2(to.byte_add(host_offset), from + device_offset as u64, bytes, stream.as_raw())
            };
            sys::check(code, "cuMemcpyDtoHAsync")
        }
    }
}
