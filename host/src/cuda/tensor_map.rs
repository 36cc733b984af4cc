//! Encodes tensor maps with the driver.

use std::ffi::c_void;
use std::sync::OnceLock;

use kernels::catalogue::{Element, Swizzle};

use super::driver::Device;
use super::sys;
use crate::error::Result;
use crate::tensor_map::TiledMatrix;

/// `cuTensorMapEncodeTiled`, whose enums are passed as the integers they are.
type EncodeTiled = unsafe extern "C" fn(
    map: *mut Encoded,
    data_type: u32,
    rank: u32,
    address: *mut c_void,
    dimensions: *const u64,
    strides_bytes: *const u64,
    box_sides: *const u32,
    element_strides: *const u32,
    interleave: u32,
    swizzle: u32,
    l2_promotion: u32,
    out_of_bounds_fill: u32,
) -> sys::Code;

/// The 128 opaque bytes of a tensor map (`CUtensorMap`), which a kernel takes by value.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct Encoded(pub(crate) [u64; 16]);

impl Encoded {
    /// In place of a map that the kernel does not look at.
    pub(crate) const UNUSED: Encoded = Encoded([0; 16]);
}

impl TiledMatrix {
    /// Encodes the map. Wraps `cuTensorMapEncodeTiled`; touches no device memory.
    pub fn encode(&self, device: &Device) -> Result<Encoded> {
        // CUtensorMapDataType.
        let data_type = match self.element {
            Element::F16 => 6,
            Element::Bf16 => 9,
        };
        // CUtensorMapSwizzle.
        let swizzle = match self.swizzle {
            Swizzle::None => 0,
            Swizzle::B32 => 1,
            Swizzle::B64 => 2,
            Swizzle::B128 => 3,
        };
        const INTERLEAVE_NONE: u32 = 0;
        // CUtensorMapL2promotion.
        let l2_promotion = match self.l2_promotion {
            256 => 3,
            _ => 2,
        };
        const FILL_ZEROS: u32 = 0;
        // Dimension 0 is the contiguous one; the strides are those of the others.
        let dimensions = [self.columns, self.rows];
        let strides_bytes = [self.stride_bytes];
        let box_sides = [self.box_columns, self.box_rows];
        let element_strides = [1, 1];
        let mut map = Encoded([0; 16]);
        static ENCODE: OnceLock<EncodeTiled> = OnceLock::new();
        // SAFETY: the call has this signature since CUDA 12.0.
        let encode_tiled = unsafe { sys::function(&ENCODE, c"cuTensorMapEncodeTiled", 12000) }?;
        let _bound = device.bind()?;
        // SAFETY: each array has the length that rank 2 asks for, and `map` the size and alignment of a
        // CUtensorMap. The address is only written into the map.
        let code = unsafe {
            encode_tiled(
                &mut map,
                data_type,
                2,
                self.address as *mut c_void,
                dimensions.as_ptr(),
                strides_bytes.as_ptr(),
                box_sides.as_ptr(),
                element_strides.as_ptr(),
                INTERLEAVE_NONE,
                swizzle,
                l2_promotion,
                FILL_ZEROS,
            )
        };
        sys::check(code, "cuTensorMapEncodeTiled")?;
        Ok(map)
    }
}
