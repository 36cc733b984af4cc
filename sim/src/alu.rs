//! Arithmetic on one lane. Each instruction is resolved to a function when its program is loaded, so that
//! what is not modelled is an error before anything runs.
//!
//! Values are 64 bits wide with the upper bits zero. Approximate instructions (`rcp.approx` and its like)
//! give the correctly rounded result, which hardware may miss by a few units in the last place.

use ptx::ast::{BinaryOp, Compare, FloatMode, Rounding, TernaryOp, Type, UnaryOp};

use crate::float::{BF16, F16, F32, Format};

/// One source.
pub type Unary = fn(u64) -> u64;
/// Two sources.
pub type Binary = fn(u64, u64) -> u64;
/// Three sources.
pub type Ternary = fn(u64, u64, u64) -> u64;
/// A comparison.
pub type Comparison = fn(u64, u64) -> bool;

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn f64_of(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// f32 results: NaN comes out as the canonical one (PTX ISA, "Floating-Point Instructions").
fn from_f32(value: f32) -> u64 {
    u64::from(if value.is_nan() { 0x7fff_ffff } else { value.to_bits() })
}

fn from_f64(value: f64) -> u64 {
    value.to_bits()
}

fn half_of(format: Format, bits: u64) -> f64 {
    format.decode(bits as u32 & 0xffff)
}

fn from_half(format: Format, value: f64) -> u64 {
    u64::from(format.encode(value, Rounding::Nearest))
}

fn pair1(x: u64, f: fn(u64) -> u64) -> u64 {
    f(x & 0xffff) | f(x >> 16 & 0xffff) << 16
}

fn pair2(x: u64, y: u64, f: fn(u64, u64) -> u64) -> u64 {
    f(x & 0xffff, y & 0xffff) | f(x >> 16 & 0xffff, y >> 16 & 0xffff) << 16
}

fn pair3(x: u64, y: u64, z: u64, f: fn(u64, u64, u64) -> u64) -> u64 {
    f(x & 0xffff, y & 0xffff, z & 0xffff) | f(x >> 16 & 0xffff, y >> 16 & 0xffff, z >> 16 & 0xffff) << 16
}

fn minimum(x: f64, y: f64) -> f64 {
    if x == 0.0 && y == 0.0 { if x.is_sign_negative() { x } else { y } } else { x.min(y) }
}

fn maximum(x: f64, y: f64) -> f64 {
    if x == 0.0 && y == 0.0 { if x.is_sign_negative() { y } else { x } } else { x.max(y) }
}

/// A function for each of the float types: `$body` sees its sources as f64 (f32 for `.f32`).
macro_rules! floats {
    ($ty:expr, $pair:ident, |$($x:ident),+| $f32:expr, $f64:expr) => {
        match $ty {
            Type::F32 => Some(|$($x: u64),+| { $(let $x = f32_of($x);)+ from_f32($f32) }),
            Type::F64 => Some(|$($x: u64),+| { $(let $x = f64_of($x);)+ from_f64($f64) }),
            Type::F16 => Some(|$($x: u64),+| { $(let $x = half_of(F16, $x);)+ from_half(F16, $f64) }),
            Type::Bf16 => Some(|$($x: u64),+| { $(let $x = half_of(BF16, $x);)+ from_half(BF16, $f64) }),
            Type::F16x2 => Some(|$($x: u64),+| $pair($($x),+, |$($x: u64),+| { $(let $x = half_of(F16, $x);)+ from_half(F16, $f64) })),
            Type::Bf16x2 => Some(|$($x: u64),+| $pair($($x),+, |$($x: u64),+| { $(let $x = half_of(BF16, $x);)+ from_half(BF16, $f64) })),
            _ => None,
        }
    };
}

/// A function for each integer type; sources and result have that type.
macro_rules! integers {
    ($ty:expr, |$($x:ident),+| $body:expr) => { integers!($ty, |$($x),+| $body; signed $body) };
    ($ty:expr, |$($x:ident),+| $body:expr; signed $signed:expr) => {
        match $ty {
            Type::U16 | Type::B16 => Some(|$($x: u64),+| { $(let $x = $x as u16;)+ u64::from($body) }),
            Type::U32 | Type::B32 => Some(|$($x: u64),+| { $(let $x = $x as u32;)+ u64::from($body) }),
            Type::U64 | Type::B64 => Some(|$($x: u64),+| { $body }),
            Type::S16 => Some(|$($x: u64),+| { $(let $x = $x as i16;)+ u64::from($signed as u16) }),
            Type::S32 => Some(|$($x: u64),+| { $(let $x = $x as i32;)+ u64::from($signed as u32) }),
            Type::S64 => Some(|$($x: u64),+| { $(let $x = $x as i64;)+ ($signed) as u64 }),
            _ => None,
        }
    };
}

/// Whether only what is modelled is asked for: rounding to nearest, no flush to zero, no clamps.
fn plain(mode: FloatMode) -> bool {
    matches!(mode.rounding, None | Some(Rounding::Nearest)) && !mode.sat && !mode.relu && !mode.nan && !mode.ftz
}

/// The function of an operation with one source, if it is modelled.
pub fn unary(op: UnaryOp, ty: Type, mode: FloatMode) -> Option<Unary> {
    // Flushing matters for subnormals only, and approximations say nothing about those.
    let mode = FloatMode { ftz: false, ..mode };
    if !plain(mode) {
        return None;
    }
    match op {
        UnaryOp::Neg if ty.float() => match ty {
            Type::F32 => Some(|x| x ^ 1 << 31),
            Type::F64 => Some(|x| x ^ 1 << 63),
            Type::F16 | Type::Bf16 => Some(|x| x ^ 1 << 15),
            Type::F16x2 | Type::Bf16x2 => Some(|x| x ^ 0x8000_8000),
            _ => None,
        },
        UnaryOp::Neg => integers!(ty, |x| x.wrapping_neg()),
        UnaryOp::Abs if ty.float() => match ty {
            Type::F32 => Some(|x| x & 0x7fff_ffff),
            Type::F64 => Some(|x| x & u64::MAX >> 1),
            Type::F16 | Type::Bf16 => Some(|x| x & 0x7fff),
            Type::F16x2 | Type::Bf16x2 => Some(|x| x & 0x7fff_7fff),
            _ => None,
        },
        UnaryOp::Abs => integers!(ty, |x| x; signed x.wrapping_abs()),
        UnaryOp::Not => integers!(ty, |x| !x),
        UnaryOp::Cnot => match ty {
            Type::B16 | Type::B32 | Type::B64 => Some(|x| u64::from(x == 0)),
            _ => None,
        },
        UnaryOp::Clz => match ty {
            Type::B32 => Some(|x| u64::from((x as u32).leading_zeros())),
            Type::B64 => Some(|x| u64::from(x.leading_zeros())),
            _ => None,
        },
        UnaryOp::Popc => Some(|x| u64::from(x.count_ones())),
        UnaryOp::Brev => match ty {
            Type::B32 => Some(|x| u64::from((x as u32).reverse_bits())),
            Type::B64 => Some(|x| x.reverse_bits()),
            _ => None,
        },
        // The position of the most significant bit that differs from the sign; all ones if there is none.
        UnaryOp::FindTop => match ty {
            Type::U32 => Some(|x| u64::from(31u32.wrapping_sub((x as u32).leading_zeros()))),
            Type::S32 => Some(|x| {
                let x = x as i32;
                u64::from(31u32.wrapping_sub((x ^ x >> 31).leading_zeros()))
            }),
            Type::U64 => Some(|x| u64::from(63u32.wrapping_sub(x.leading_zeros()))),
            Type::S64 => Some(|x| {
                let x = x as i64;
                u64::from(63u32.wrapping_sub((x ^ x >> 63).leading_zeros()))
            }),
            _ => None,
        },
        UnaryOp::FindTopShift => None,
        UnaryOp::Reciprocal => floats!(ty, pair1, |x| 1.0 / x, 1.0 / x),
        UnaryOp::Sqrt => floats!(ty, pair1, |x| x.sqrt(), x.sqrt()),
        UnaryOp::ReciprocalSqrt => floats!(ty, pair1, |x| (1.0 / f64::from(x).sqrt()) as f32, 1.0 / x.sqrt()),
        UnaryOp::Ex2 => floats!(ty, pair1, |x| f64::from(x).exp2() as f32, x.exp2()),
        UnaryOp::Lg2 => floats!(ty, pair1, |x| f64::from(x).log2() as f32, x.log2()),
        UnaryOp::Sin => floats!(ty, pair1, |x| f64::from(x).sin() as f32, x.sin()),
        UnaryOp::Cos => floats!(ty, pair1, |x| f64::from(x).cos() as f32, x.cos()),
        UnaryOp::Tanh => floats!(ty, pair1, |x| f64::from(x).tanh() as f32, x.tanh()),
    }
}

/// The function of an operation with two sources, if it is modelled.
pub fn binary(op: BinaryOp, ty: Type, mode: FloatMode) -> Option<Binary> {
    if !plain(mode) {
        return None;
    }
    match op {
        BinaryOp::Add if ty.float() => floats!(ty, pair2, |x, y| x + y, x + y),
        BinaryOp::Sub if ty.float() => floats!(ty, pair2, |x, y| x - y, x - y),
        BinaryOp::Mul if ty.float() => floats!(ty, pair2, |x, y| x * y, x * y),
        BinaryOp::Div if ty.float() => floats!(ty, pair2, |x, y| x / y, x / y),
        BinaryOp::Min if ty.float() => {
            floats!(ty, pair2, |x, y| minimum(f64::from(x), f64::from(y)) as f32, minimum(x, y))
        }
        BinaryOp::Max if ty.float() => {
            floats!(ty, pair2, |x, y| maximum(f64::from(x), f64::from(y)) as f32, maximum(x, y))
        }
        BinaryOp::CopySign => match ty {
            Type::F32 => Some(|x, y| (y & 0x7fff_ffff) | (x & 1 << 31)),
            Type::F64 => Some(|x, y| (y & u64::MAX >> 1) | (x & 1 << 63)),
            _ => None,
        },
        BinaryOp::Add => integers!(ty, |x, y| x.wrapping_add(y)),
        BinaryOp::Sub => integers!(ty, |x, y| x.wrapping_sub(y)),
        BinaryOp::Mul => integers!(ty, |x, y| x.wrapping_mul(y)),
        BinaryOp::MulHigh => match ty {
            Type::U16 => Some(|x, y| ((x & 0xffff) * (y & 0xffff)) >> 16),
            Type::S16 => Some(|x, y| u64::from(((i32::from(x as i16) * i32::from(y as i16)) >> 16) as u16)),
            Type::U32 => Some(|x, y| ((x & 0xffff_ffff) * (y & 0xffff_ffff)) >> 32),
            Type::S32 => Some(|x, y| u64::from(((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32)),
            Type::U64 => Some(|x, y| ((u128::from(x) * u128::from(y)) >> 64) as u64),
            Type::S64 => Some(|x, y| ((i128::from(x as i64) * i128::from(y as i64)) >> 64) as u64),
            _ => None,
        },
        BinaryOp::MulWide => match ty {
            Type::U16 => Some(|x, y| (x & 0xffff) * (y & 0xffff)),
            Type::S16 => Some(|x, y| u64::from((i32::from(x as i16) * i32::from(y as i16)) as u32)),
            Type::U32 => Some(|x, y| (x & 0xffff_ffff) * (y & 0xffff_ffff)),
            Type::S32 => Some(|x, y| (i64::from(x as i32) * i64::from(y as i32)) as u64),
            _ => None,
        },
        // Division by zero gives an unspecified value; all ones is what hardware gives.
        BinaryOp::Div => {
            integers!(ty, |x, y| x.checked_div(y).unwrap_or(!0); signed if y == 0 { !0 } else { x.wrapping_div(y) })
        }
        BinaryOp::Rem => {
            integers!(ty, |x, y| x.checked_rem(y).unwrap_or(x); signed if y == 0 { x } else { x.wrapping_rem(y) })
        }
        BinaryOp::Min => integers!(ty, |x, y| x.min(y)),
        BinaryOp::Max => integers!(ty, |x, y| x.max(y)),
        BinaryOp::And => Some(|x, y| x & y),
        BinaryOp::Or => Some(|x, y| x | y),
        BinaryOp::Xor => Some(|x, y| x ^ y),
        // Shifts by the width or more give zero, or the sign. The amount has 32 bits.
        BinaryOp::Shl => match ty {
            Type::B16 => Some(|x, y| u64::from((x as u16).checked_shl(y as u32).unwrap_or(0))),
            Type::B32 => Some(|x, y| u64::from((x as u32).checked_shl(y as u32).unwrap_or(0))),
            Type::B64 => Some(|x, y| x.checked_shl(y as u32).unwrap_or(0)),
            _ => None,
        },
        BinaryOp::Shr => match ty {
            Type::B16 | Type::U16 => Some(|x, y| u64::from((x as u16).checked_shr(y as u32).unwrap_or(0))),
            Type::B32 | Type::U32 => Some(|x, y| u64::from((x as u32).checked_shr(y as u32).unwrap_or(0))),
            Type::B64 | Type::U64 => Some(|x, y| x.checked_shr(y as u32).unwrap_or(0)),
            Type::S16 => Some(|x, y| u64::from((x as i16 >> (y as u32).min(15)) as u16)),
            Type::S32 => Some(|x, y| u64::from((x as i32 >> (y as u32).min(31)) as u32)),
            Type::S64 => Some(|x, y| (x as i64 >> (y as u32).min(63)) as u64),
            _ => None,
        },
    }
}

/// The function of an operation with three sources, if it is modelled.
pub fn ternary(op: TernaryOp, ty: Type, mode: FloatMode) -> Option<Ternary> {
    if !plain(mode) {
        return None;
    }
    match op {
        TernaryOp::Fma => match ty {
            Type::F32 => Some(|x, y, z| from_f32(f32_of(x).mul_add(f32_of(y), f32_of(z)))),
            _ => floats!(ty, pair3, |x, y, z| x.mul_add(y, z), x.mul_add(y, z)),
        },
        TernaryOp::Mad => integers!(ty, |x, y, z| x.wrapping_mul(y).wrapping_add(z)),
        TernaryOp::MadHigh => match ty {
            Type::U32 => Some(|x, y, z| {
                u64::from((((x & 0xffff_ffff) * (y & 0xffff_ffff)) >> 32) as u32).wrapping_add(z) & 0xffff_ffff
            }),
            Type::S32 => Some(|x, y, z| {
                u64::from((((i64::from(x as i32) * i64::from(y as i32)) >> 32) as u32).wrapping_add(z as u32))
            }),
            _ => None,
        },
        TernaryOp::MadWide => match ty {
            Type::U32 => Some(|x, y, z| ((x & 0xffff_ffff) * (y & 0xffff_ffff)).wrapping_add(z)),
            Type::S32 => Some(|x, y, z| ((i64::from(x as i32) * i64::from(y as i32)) as u64).wrapping_add(z)),
            Type::U16 => Some(|x, y, z| ((x & 0xffff) * (y & 0xffff)).wrapping_add(z) & 0xffff_ffff),
            Type::S16 => {
                Some(|x, y, z| u64::from(((i32::from(x as i16) * i32::from(y as i16)) as u32).wrapping_add(z as u32)))
            }
            _ => None,
        },
        TernaryOp::FieldExtract => match ty {
            Type::U32 => Some(|x, at, length| field(x & 0xffff_ffff, 32, at, length, false)),
            Type::S32 => Some(|x, at, length| field(x & 0xffff_ffff, 32, at, length, true) & 0xffff_ffff),
            Type::U64 => Some(|x, at, length| field(x, 64, at, length, false)),
            Type::S64 => Some(|x, at, length| field(x, 64, at, length, true)),
            _ => None,
        },
        TernaryOp::AbsoluteDifference => {
            integers!(ty, |x, y, z| z.wrapping_add(x.abs_diff(y)); signed (z.wrapping_add(x.abs_diff(y) as _)))
        }
        TernaryOp::Permute => Some(|x, y, selector| {
            let bytes = x & 0xffff_ffff | y << 32;
            let mut out = 0;
            for i in 0..4 {
                let pick = selector >> (4 * i) & 0xf;
                let byte = (bytes >> (8 * (pick & 7))) as u8;
                // Bit 3 replicates the byte's sign.
                let byte = if pick & 8 != 0 { ((byte as i8) >> 7) as u8 } else { byte };
                out |= u64::from(byte) << (8 * i);
            }
            out
        }),
        TernaryOp::FunnelLeftWrap => Some(|low, high, by| funnel(low, high) << (by & 31) >> 32 & 0xffff_ffff),
        TernaryOp::FunnelLeftClamp => {
            Some(|low, high, by| (u128::from(funnel(low, high)) << (by as u32).min(32) >> 32) as u64 & 0xffff_ffff)
        }
        TernaryOp::FunnelRightWrap => Some(|low, high, by| funnel(low, high) >> (by & 31) & 0xffff_ffff),
        TernaryOp::FunnelRightClamp => Some(|low, high, by| funnel(low, high) >> (by as u32).min(32) & 0xffff_ffff),
    }
}

fn funnel(low: u64, high: u64) -> u64 {
    low & 0xffff_ffff | high << 32
}

/// `length` bits of `x` from bit `at` on, with the sign of the field's top bit if `signed` (PTX ISA, "bfe").
fn field(x: u64, width: u64, at: u64, length: u64, signed: bool) -> u64 {
    let (at, length) = (at & 0xff, length & 0xff);
    if length == 0 {
        return 0;
    }
    let top = (at + length - 1).min(width - 1);
    let sign = signed && x >> top & 1 == 1;
    let mut out = if at < width { x >> at } else { 0 };
    let kept = length.min(width.saturating_sub(at));
    if kept < 64 {
        out &= (1 << kept) - 1;
        if sign {
            out |= u64::MAX << kept;
        }
    }
    out
}

/// `length` bits of `x` put into `into` at bit `at` (PTX ISA, "bfi").
pub fn insert_field(x: u64, into: u64, width: u64, at: u64, length: u64) -> u64 {
    let (at, length) = (at & 0xff, length & 0xff);
    if at >= width || length == 0 {
        return into;
    }
    let length = length.min(width - at);
    let mask = if length >= 64 { u64::MAX } else { (1 << length) - 1 };
    into & !(mask << at) | (x & mask) << at
}

/// The function of a comparison, if it is modelled.
pub fn compare(cmp: Compare, ty: Type) -> Option<Comparison> {
    macro_rules! by {
        ($convert:expr) => {
            match cmp {
                Compare::Eq => Some(|x, y| $convert(x) == $convert(y)),
                Compare::Ne => Some(|x, y| $convert(x) != $convert(y)),
                Compare::Lt => Some(|x, y| $convert(x) < $convert(y)),
                Compare::Le => Some(|x, y| $convert(x) <= $convert(y)),
                Compare::Gt => Some(|x, y| $convert(x) > $convert(y)),
                Compare::Ge => Some(|x, y| $convert(x) >= $convert(y)),
                _ => None,
            }
        };
    }
    macro_rules! by_float {
        ($convert:expr) => {
            match cmp {
                // `ne` is ordered in PTX: false when an input is NaN.
                Compare::Ne => Some(|x, y| $convert(x) < $convert(y) || $convert(x) > $convert(y)),
                Compare::Equ => Some(|x, y| !($convert(x) < $convert(y) || $convert(x) > $convert(y))),
                Compare::Neu => Some(|x, y| $convert(x) != $convert(y)),
                Compare::Ltu => Some(|x, y| $convert(x) < $convert(y) || $convert(x).is_nan() || $convert(y).is_nan()),
                Compare::Leu => Some(|x, y| $convert(x) <= $convert(y) || $convert(x).is_nan() || $convert(y).is_nan()),
                Compare::Gtu => Some(|x, y| $convert(x) > $convert(y) || $convert(x).is_nan() || $convert(y).is_nan()),
                Compare::Geu => Some(|x, y| $convert(x) >= $convert(y) || $convert(x).is_nan() || $convert(y).is_nan()),
                Compare::Num => Some(|x, y| !$convert(x).is_nan() && !$convert(y).is_nan()),
                Compare::Nan => Some(|x, y| $convert(x).is_nan() || $convert(y).is_nan()),
                _ => by!($convert),
            }
        };
    }
    match ty {
        Type::U16 | Type::B16 => by!(|x: u64| x as u16),
        Type::U32 | Type::B32 => by!(|x: u64| x as u32),
        Type::U64 | Type::B64 => by!(|x: u64| x),
        Type::S16 => by!(|x: u64| x as i16),
        Type::S32 => by!(|x: u64| x as i32),
        Type::S64 => by!(|x: u64| x as i64),
        Type::F32 => by_float!(f32_of),
        Type::F64 => by_float!(f64_of),
        Type::F16 => by_float!(|x: u64| half_of(F16, x)),
        Type::Bf16 => by_float!(|x: u64| half_of(BF16, x)),
        _ => None,
    }
}

/// Whether `cvt` between these types with these modifiers is modelled.
pub fn converts(to: Type, from: Type, mode: FloatMode) -> bool {
    let number = |ty: Type| !matches!(ty, Type::E4m3 | Type::E5m2 | Type::Tf32);
    number(to) && number(from) && !mode.ftz && !(mode.sat && to.float() && to != Type::F32)
}

/// `cvt`
pub fn convert(to: Type, from: Type, mode: FloatMode, bits: u64) -> u64 {
    let bits = match from.bytes() {
        1 => bits & 0xff,
        2 => bits & 0xffff,
        4 => bits & 0xffff_ffff,
        _ => bits,
    };
    let width = to.bytes() * 8;
    let mask = if width == 64 { u64::MAX } else { (1 << width) - 1 };
    if !from.float() && !to.float() {
        let unused = 64 - from.bytes() * 8;
        let value = if from.signed() { i128::from((bits << unused) as i64 >> unused) } else { i128::from(bits) };
        let value = if mode.sat { clamp(to, value) } else { value };
        return value as u64 & mask;
    }
    let value = match from {
        Type::F16 => F16.decode(bits as u32),
        Type::Bf16 => BF16.decode(bits as u32),
        Type::F32 => f64::from(f32_of(bits)),
        Type::F64 => f64_of(bits),
        _ => {
            let unused = 64 - from.bytes() * 8;
            // A 64-bit integer is rounded once more below; the two agree except in the last bit of f32.
            if from.signed() { ((bits << unused) as i64 >> unused) as f64 } else { bits as f64 }
        }
    };
    if !to.float() {
        if value.is_nan() {
            return 0;
        }
        let whole = match mode.rounding {
            Some(Rounding::Nearest) => value.round_ties_even(),
            Some(Rounding::Down) => value.floor(),
            Some(Rounding::Up) => value.ceil(),
            _ => value.trunc(),
        };
        // Out-of-range values are clamped (PTX ISA, "cvt").
        return clamp(to, whole as i128) as u64 & mask;
    }
    // Among the rounding modes of a float-to-float `cvt`, `.rni` and its like on equal types give whole numbers.
    let value = if mode.sat { if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) } } else { value };
    let value = if mode.relu && value < 0.0 { 0.0 } else { value };
    let rounding = mode.rounding.unwrap_or(Rounding::Nearest);
    match to {
        Type::F16 => u64::from(F16.encode(value, rounding)),
        Type::Bf16 => u64::from(BF16.encode(value, rounding)),
        Type::F32 => u64::from(F32.encode(value, rounding)),
        _ => from_f64(value),
    }
}

fn clamp(ty: Type, value: i128) -> i128 {
    let bits = ty.bytes() * 8;
    if ty.signed() { value.clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { value.clamp(0, (1 << bits) - 1) }
}

/// `cvt` of two f32 to a packed pair; `a` becomes the upper half.
pub fn convert_pair(to: Type, mode: FloatMode, a: u64, b: u64) -> u64 {
    let half = if to == Type::F16x2 { Type::F16 } else { Type::Bf16 };
    convert(half, Type::F32, mode, a) << 16 | convert(half, Type::F32, mode, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: FloatMode = FloatMode { rounding: None, ftz: false, sat: false, relu: false, nan: false };

    #[test]
    fn integers_wrap_and_sign() {
        let f = |op, ty| binary(op, ty, PLAIN).unwrap();
        assert_eq!(f(BinaryOp::Add, Type::U32)(0xffff_ffff, 1), 0);
        assert_eq!(f(BinaryOp::Sub, Type::S64)(0, 1), u64::MAX);
        assert_eq!(f(BinaryOp::MulWide, Type::S32)(0xffff_ffff, 2), (-2i64) as u64);
        assert_eq!(f(BinaryOp::Shr, Type::S32)(0x8000_0000, 40), 0xffff_ffff);
        assert_eq!(f(BinaryOp::Shl, Type::B32)(1, 32), 0);
        assert_eq!(f(BinaryOp::Min, Type::S32)(0xffff_ffff, 1), 0xffff_ffff);
        assert_eq!(f(BinaryOp::Div, Type::S32)(0xffff_fff9, 2), 0xffff_fffd);
        assert_eq!(f(BinaryOp::MulHigh, Type::U64)(1 << 63, 4), 2);
    }

    #[test]
    fn fields_and_permutations() {
        let bfe = ternary(TernaryOp::FieldExtract, Type::U32, PLAIN).unwrap();
        assert_eq!(bfe(0xabcd_ef01, 4, 14), 0xabcd_ef01 >> 4 & 0x3fff);
        assert_eq!(bfe(0xffff_ffff, 28, 14), 0xf);
        let bfe = ternary(TernaryOp::FieldExtract, Type::S32, PLAIN).unwrap();
        assert_eq!(bfe(0x0000_00f0, 4, 4), 0xffff_ffff);
        assert_eq!(insert_field(0xff, 0, 32, 8, 4), 0xf00);
        let prmt = ternary(TernaryOp::Permute, Type::B32, PLAIN).unwrap();
        assert_eq!(prmt(0x3322_1100, 0x7766_5544, 0x5410), 0x5544_1100);
        let shf = ternary(TernaryOp::FunnelLeftWrap, Type::B32, PLAIN).unwrap();
        assert_eq!(shf(0x8000_0000, 1, 1), 3);
    }

    #[test]
    fn conversions() {
        let rn = FloatMode { rounding: Some(Rounding::Nearest), ..PLAIN };
        assert_eq!(convert_pair(Type::F16x2, rn, 2f32.to_bits().into(), 1f32.to_bits().into()), 0x4000_3c00);
        assert_eq!(convert(Type::S32, Type::F32, PLAIN, u64::from((-1e20f32).to_bits())), 0x8000_0000);
        assert_eq!(convert(Type::U64, Type::S32, PLAIN, 0xffff_ffff), u64::MAX);
        assert_eq!(convert(Type::F32, Type::Bf16, PLAIN, 0x3f80), u64::from(1f32.to_bits()));
        assert_eq!(convert(Type::U8, Type::S32, FloatMode { sat: true, ..PLAIN }, 300), 255);
    }

    #[test]
    fn comparisons_with_nan() {
        let nan = u64::from(f32::NAN.to_bits());
        let one = u64::from(1f32.to_bits());
        assert!(!compare(Compare::Ne, Type::F32).unwrap()(nan, one));
        assert!(compare(Compare::Neu, Type::F32).unwrap()(nan, one));
        assert!(compare(Compare::Ltu, Type::F32).unwrap()(nan, one));
        assert!(compare(Compare::Nan, Type::F32).unwrap()(nan, one));
        assert!(compare(Compare::Lt, Type::S32).unwrap()(0xffff_ffff, 0));
    }

    #[test]
    fn what_is_not_modelled_is_refused() {
        assert!(binary(BinaryOp::Add, Type::F32, FloatMode { rounding: Some(Rounding::Up), ..PLAIN }).is_none());
        assert!(binary(BinaryOp::Add, Type::F32, FloatMode { ftz: true, ..PLAIN }).is_none());
    }
}
