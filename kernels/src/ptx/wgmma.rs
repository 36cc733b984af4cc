//! Asynchronous warpgroup matrix multiply and accumulate (PTX ISA, "Asynchronous Warpgroup Level Matrix
//! Multiply-Accumulate Instructions").
//!
//! All of these are `.sync.aligned`: the 128 threads of a warpgroup execute them together. From an
//! [`Mma::mma`] until the [`wait_group`] that covers it, its accumulators and its shared-memory tiles are
//! in use: touching them is a fault.

use core::arch::asm;

use crate::catalogue::Swizzle;

/// `wgmma.fence.sync.aligned;` — orders earlier accesses to accumulator registers before the MMAs that
/// follow. Needed before the first MMA, and again whenever registers were touched in between.
#[inline(always)]
pub fn fence() {
    // SAFETY: a fence has no operand; the kernels call it with converged warpgroups only.
    unsafe { asm!("wgmma.fence.sync.aligned;", options(nostack)) }
}

/// `wgmma.commit_group.sync.aligned;` — closes the group of all MMAs issued since the last commit.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: as `fence`.
    unsafe { asm!("wgmma.commit_group.sync.aligned;", options(nostack)) }
}

/// `wgmma.wait_group.sync.aligned N;` — waits until at most the `N` youngest groups are still running.
#[inline(always)]
pub fn wait_group<const N: u32>() {
    // SAFETY: as `fence`.
    unsafe { asm!("wgmma.wait_group.sync.aligned {0};", const N, options(nostack)) }
}

// ANCHOR: descriptor
/// The matrix descriptor of a K-major tile at shared address `address`, whose rows are exactly one span
/// of `swizzle` long (PTX ISA, "Matrix Descriptor Format").
///
/// | bits | field | here |
/// |---|---|---|
/// | 0–13 | start address ÷ 16 | |
/// | 16–29 | leading byte offset ÷ 16 | ignored for a swizzled K-major tile; 1 |
/// | 32–45 | stride byte offset ÷ 16 | eight rows further: 8 · span |
/// | 49–51 | base offset | 0, since tiles start at a multiple of 1024 bytes |
/// | 62–63 | swizzle | |
///
/// The step to the next 32 bytes of K adds 2 to the descriptor (32 ÷ 16); the step to row 64 adds
/// 64 · span ÷ 16. Shared addresses are below 2¹⁸, so neither carries out of the address field.
#[inline(always)]
pub const fn descriptor(address: u32, swizzle: Swizzle) -> u64 {
    descriptor_start(address) as u64 | (descriptor_upper(swizzle) as u64) << 32
}

/// The lower half of [`descriptor`], which is all that depends on the address. Steps are added to it in 32 bits, which
/// take one instruction of the uniform datapath; in 64 bits they take four or five.
#[inline(always)]
pub const fn descriptor_start(address: u32) -> u32 {
    address >> 4 | 1 << 16
}

/// The upper half of [`descriptor`].
#[inline(always)]
pub const fn descriptor_upper(swizzle: Swizzle) -> u32 {
    (8 * swizzle.span() as u32) >> 4 | (swizzle.descriptor_code() as u32) << 30
}

/// The descriptor of these halves, by `mov.b64`. Shifts and an `or` give the same number; but ptxas 13.0.88 moves the
/// halves of such a number into place for every MMA, and leaves one that was moved together where it is.
#[inline(always)]
pub fn descriptor_of(start: u32, upper: u32) -> u64 {
    let descriptor: u64;
    // SAFETY: moves registers.
    unsafe {
        asm!("mov.b64 {0}, {{{1}, {2}}};", out(reg64) descriptor, in(reg32) start, in(reg32) upper,
            options(pure, nomem, nostack));
    }
    descriptor
}
// ANCHOR_END: descriptor

/// An element type of A and B that wgmma multiplies.
pub trait MmaElement: Copy {
    /// Bytes of an element.
    const BYTES: usize;
    /// Extent in K of one MMA.
    const MMA_K: usize = 32 / Self::BYTES;
    /// Rounds two accumulators to this type, to nearest even, and packs them: `low` in bits 0–15, `high`
    /// in bits 16–31 (PTX ISA, "cvt").
    fn pack(low: f32, high: f32) -> u32;
}

/// The MMA of one warpgroup with `N` columns: D (64×N, f32) += A (64×MMA_K) · B (N×MMA_K)ᵀ, both from
/// shared memory, both K-major.
pub trait Mma<const N: usize>: MmaElement {
    /// The accumulators of one thread: N / 2 registers. Register `i` of lane `l` in warp `w` holds row
    /// 16·w + l/4 + 8·((i mod 4)/2), column 8·(i/4) + 2·(l mod 4) + (i mod 2) (PTX ISA, "Register
    /// Fragments for wgmma.mma_async", figure of matrix D).
    type Accumulators: Copy + AsRef<[f32]> + AsMut<[f32]>;

    /// `wgmma.mma_async.sync.aligned.m64n{N}k{K}.f32.{type}.{type} {d…}, a, b, 1, 1, 1, 0, 0;`
    ///
    /// The immediates: scale-d 1 (accumulate), scale-a and scale-b 1 (no negation), neither operand
    /// transposed.
    ///
    /// # Safety
    /// All 128 threads of a warpgroup execute it together, with the same descriptors, of tiles that have
    /// landed in this block's shared memory and stay until the MMA is waited for. `d` is not touched until
    /// then, and a [`fence`] lies between its last ordinary use and this.
    unsafe fn mma(d: &mut Self::Accumulators, a: u64, b: u64);

    /// As [`Mma::mma`] with scale-d a predicate: with `accumulate` false D is overwritten, so that the
    /// first MMA of a tile needs no accumulators set to zero.
    ///
    /// # Safety
    /// As [`Mma::mma`].
    unsafe fn mma_scaled(d: &mut Self::Accumulators, a: u64, b: u64, accumulate: bool);
}

/// IEEE 754 binary16.
#[derive(Clone, Copy)]
pub struct F16;
/// bfloat16.
#[derive(Clone, Copy)]
pub struct Bf16;

macro_rules! element {
    ($type:ident, $cvt:literal) => {
        impl MmaElement for $type {
            const BYTES: usize = 2;
            #[inline(always)]
            fn pack(low: f32, high: f32) -> u32 {
                let packed: u32;
                // SAFETY: converts registers; no memory. PTX names the high half first.
                unsafe {
                    asm!(concat!("cvt.rn.", $cvt, ".f32 {0}, {1}, {2};"),
                        out(reg32) packed, in(reg32) high, in(reg32) low, options(pure, nomem, nostack));
                }
                packed
            }
        }
    };
}
element!(F16, "f16x2");
element!(Bf16, "bf16x2");

/// Implements [`Mma`] for one element type and one N. The list of register indices has N / 2 entries.
macro_rules! mma {
    ($type:ident, $name:literal, $n:literal, [$first:literal $($i:literal)*]) => {
        impl Mma<$n> for $type {
            type Accumulators = [f32; $n / 2];
            #[inline(always)]
            unsafe fn mma(d: &mut Self::Accumulators, a: u64, b: u64) {
                // SAFETY: as promised by the caller. `d` is tied to registers.
                unsafe {
                    asm!(
                        concat!(
                            "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $name, ".", $name, " {{",
                            "{", $first, "}" $(, ", {", $i, "}")*,
                            "}}, {a}, {b}, 1, 1, 1, 0, 0;"
                        ),
                        inout(reg32) d[$first], $(inout(reg32) d[$i],)*
                        a = in(reg64) a, b = in(reg64) b, options(nostack)
                    );
                }
            }
            #[inline(always)]
            unsafe fn mma_scaled(d: &mut Self::Accumulators, a: u64, b: u64, accumulate: bool) {
                // SAFETY: as promised by the caller. `d` is tied to registers.
                unsafe {
                    asm!(
                        "{{",
                        ".reg .pred accumulate;",
                        "setp.ne.b32 accumulate, {accumulate}, 0;",
                        concat!(
                            "wgmma.mma_async.sync.aligned.m64n", $n, "k16.f32.", $name, ".", $name, " {{",
                            "{", $first, "}" $(, ", {", $i, "}")*,
                            "}}, {a}, {b}, accumulate, 1, 1, 0, 0;"
                        ),
                        "}}",
                        inout(reg32) d[$first], $(inout(reg32) d[$i],)*
                        a = in(reg64) a, b = in(reg64) b, accumulate = in(reg32) accumulate as u32, options(nostack)
                    );
                }
            }
        }
    };
}

macro_rules! mma_both {
    ($n:literal, $indices:tt) => {
        mma!(F16, "f16", $n, $indices);
        mma!(Bf16, "bf16", $n, $indices);
    };
}

mma_both!(16, [0 1 2 3 4 5 6 7]);
mma_both!(32, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15]);
mma_both!(48, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23]);
mma_both!(64, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31]);
mma_both!(96, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47]);
mma_both!(112, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55]);
mma_both!(128, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63]);
mma_both!(144, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
    32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
    61 62 63 64 65 66 67 68 69 70 71]);
mma_both!(160, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79]);
mma_both!(176, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
    31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87]);
mma_both!(192, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
    93 94 95]);
mma_both!(200, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
    34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    96 97 98 99]);
mma_both!(208, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33
    34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62 63 64
    65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92 93 94 95
    96 97 98 99 100 101 102 103]);
mma_both!(224, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
    93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111]);
mma_both!(256, [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32
    33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60 61 62
    63 64 65 66 67 68 69 70 71 72 73 74 75 76 77 78 79 80 81 82 83 84 85 86 87 88 89 90 91 92
    93 94 95 96 97 98 99 100 101 102 103 104 105 106 107 108 109 110 111 112 113 114 115 116
    117 118 119 120 121 122 123 124 125 126 127]);
