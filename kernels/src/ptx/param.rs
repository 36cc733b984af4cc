//! Kernel parameters (PTX ISA, "Parameter State Space").

/// A TMA tensor map: the 128 opaque bytes that `cuTensorMapEncodeTiled` wrote, passed by value.
///
/// rustc 1.96 refuses a kernel parameter aligned to more than 16 bytes; the finishing pass raises this
/// one to the 64 bytes that the tensor copies require (PTX ISA, "Tensor-map").
#[repr(C, align(16))]
pub struct TensorMap([u64; 16]);

/// The generic address of kernel parameter `$index` of the entry named `$entry` (a literal):
/// `mov.b64 r, <entry>_param_<index>; cvta.param.u64 r, r;` (PTX ISA, "cvta", PTX 7.7).
///
/// Taking `&parameter` in Rust would copy it to local memory, where TMA must not read it.
// ANCHOR: param_address
macro_rules! param_address {
    ($entry:expr, $index:literal) => {{
        let address: u64;
        // SAFETY: names a parameter of the entry being compiled; ptxas refuses a name that is not one.
        unsafe {
            core::arch::asm!(
                concat!("mov.b64 {0}, ", $entry, "_param_", $index, ";"),
                "cvta.param.u64 {0}, {0};",
                out(reg64) address, options(pure, nomem, nostack)
            );
        }
        address
    }};
}
// ANCHOR_END: param_address
pub(crate) use param_address;
