//! The arithmetic of the tensor cores, bit for bit.
//!
//! f16 and bf16 with f32 accumulation, on compute capability 9.0: sixteen products and the accumulator
//! are added together. Each product is exact and keeps the exponent that its factors' exponents add up
//! to; all terms are cut off, toward zero, 25 bits below the largest exponent among the terms that are
//! not zero; the sum is exact; and the result is cut off, toward zero, to f32. This is how Nvidia's
//! hardware was found to behave by measurement (arXiv 2511.10909), not a documented contract.

use ptx::ast::Rounding;

use crate::float::{BF16, F16, F32, Format};

/// Depth of one fused sum.
pub const DEPTH: usize = 16;

/// Fraction bits that survive below the largest exponent.
const FRACTION: u32 = 25;

/// Exponent of a zero: lower than any other, and low enough that two of them can be added.
const ZERO_EXPONENT: i32 = -10_000;

/// A 16-bit input format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Half {
    /// IEEE 754 binary16.
    F16,
    /// bfloat16.
    Bf16,
}

impl Half {
    const fn format(self) -> Format {
        match self {
            Half::F16 => F16,
            Half::Bf16 => BF16,
        }
    }
}

/// Rows of sixteen inputs each, taken apart once so that each dot product need not.
#[derive(Default)]
pub struct Operand {
    /// Signed integer significand of each input: the value is `significand · 2^(exponent - fraction)`.
    significands: Vec<[i32; DEPTH]>,
    exponents: Vec<[i32; DEPTH]>,
    /// Whether a row holds an infinity or a NaN.
    special: Vec<bool>,
    raw: Vec<[u16; DEPTH]>,
    fraction: u32,
}

impl Operand {
    /// Takes `rows` apart, in place of what was there. `negate` flips every sign.
    pub fn fill(&mut self, half: Half, rows: &[[u16; DEPTH]], negate: bool) {
        let format = half.format();
        self.fraction = format.fraction;
        self.significands.clear();
        self.exponents.clear();
        self.special.clear();
        self.raw.clear();
        for row in rows {
            let mut significands = [0; DEPTH];
            let mut exponents = [0; DEPTH];
            let mut special = false;
            let mut raw = *row;
            for i in 0..DEPTH {
                raw[i] ^= u16::from(negate) << 15;
                let bits = u32::from(raw[i]);
                let field = bits >> format.fraction & ((1 << format.exponent) - 1);
                let fraction = bits & ((1 << format.fraction) - 1);
                special |= field == (1 << format.exponent) - 1;
                let magnitude = fraction | u32::from(field != 0) << format.fraction;
                significands[i] = if bits >> 15 == 1 { -(magnitude as i32) } else { magnitude as i32 };
                exponents[i] =
                    if magnitude == 0 { ZERO_EXPONENT } else { field.max(1) as i32 - 1 + format.lowest_exponent() };
            }
            self.significands.push(significands);
            self.exponents.push(exponents);
            self.special.push(special);
            self.raw.push(raw);
        }
    }
}

/// `c` plus the product of row `row` of `a` and row `column` of `b`.
pub fn dot(half: Half, a: &Operand, row: usize, b: &Operand, column: usize, c: f32) -> f32 {
    if a.special[row] || b.special[column] || !c.is_finite() {
        return special(half, &a.raw[row], &b.raw[column], c);
    }
    let (sa, sb) = (&a.significands[row], &b.significands[column]);
    let (ea, eb) = (&a.exponents[row], &b.exponents[column]);
    let mut exponents = [0i32; DEPTH];
    let mut products = [0i32; DEPTH];
    let (c_significand, c_exponent) = take_apart(c);
    let mut largest = c_exponent;
    for i in 0..DEPTH {
        products[i] = sa[i] * sb[i];
        exponents[i] = ea[i] + eb[i];
        largest = largest.max(exponents[i]);
    }
    if largest < ZERO_EXPONENT / 2 {
        return 0.0;
    }
    // A product has twice the fraction bits of its factors: at most 20, so it must move up to 25.
    let up = FRACTION - 2 * a.fraction;
    let mut sum = 0i64;
    for i in 0..DEPTH {
        let down = (largest - exponents[i]).min(31);
        let magnitude = (products[i].unsigned_abs() << up) >> down;
        let sign = products[i] >> 31;
        sum += i64::from((magnitude as i32 ^ sign) - sign);
    }
    let down = (largest - c_exponent).min(63);
    let magnitude = (c_significand.unsigned_abs() << (FRACTION - 23)) >> down;
    sum += if c_significand < 0 { -(magnitude as i64) } else { magnitude as i64 };
    put_together(sum, largest)
}

/// Signed significand with 23 fraction bits, and exponent.
fn take_apart(value: f32) -> (i64, i32) {
    let bits = value.to_bits();
    let field = bits >> 23 & 0xff;
    let magnitude = i64::from(bits & 0x7f_ffff | u32::from(field != 0) << 23);
    if magnitude == 0 {
        return (0, ZERO_EXPONENT);
    }
    (if bits >> 31 == 1 { -magnitude } else { magnitude }, field.max(1) as i32 - 127)
}

/// `sum · 2^(exponent - 25)`, cut off to f32; an overflow is infinite.
fn put_together(sum: i64, exponent: i32) -> f32 {
    if sum == 0 {
        return 0.0;
    }
    let sign = if sum < 0 { 1u32 << 31 } else { 0 };
    let magnitude = sum.unsigned_abs();
    let top = magnitude.ilog2() as i32;
    let value_exponent = exponent - FRACTION as i32 + top;
    if value_exponent > 127 {
        return f32::from_bits(sign | 0x7f80_0000);
    }
    // Where the last fraction bit of the result lies in `magnitude`.
    let last = top - 23 + (-126 - value_exponent).max(0);
    let significand = match last {
        64.. => 0,
        0..=63 => (magnitude >> last) as u32,
        _ => (magnitude << -last) as u32,
    };
    let field = if value_exponent < -126 { 0 } else { (value_exponent + 126) as u32 };
    // The leading bit of a normal number adds one to the exponent field.
    f32::from_bits(sign | ((field << 23) + significand))
}

/// The same where an input is infinite or NaN: only infinities and NaN can come out.
fn special(half: Half, a: &[u16; DEPTH], b: &[u16; DEPTH], c: f32) -> f32 {
    let format = half.format();
    let mut sum = f64::from(c);
    for i in 0..DEPTH {
        sum += format.decode(u32::from(a[i])) * format.decode(u32::from(b[i]));
    }
    if sum.is_nan() { f32::from_bits(0x7fff_ffff) } else { f32::from_bits(F32.encode(sum, Rounding::Zero)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rule in slow, wide arithmetic: every term as an integer multiple of 2^-400.
    fn slow(half: Half, a: &[u16; DEPTH], b: &[u16; DEPTH], c: f32) -> f32 {
        let format = half.format();
        let apart = |format: Format, bits: u32| -> (i128, i32) {
            let field = bits >> format.fraction & ((1 << format.exponent) - 1);
            let fraction = bits & ((1 << format.fraction) - 1);
            let sign = if bits >> (format.fraction + format.exponent) & 1 == 1 { -1 } else { 1 };
            let magnitude = fraction | u32::from(field != 0) << format.fraction;
            (sign * i128::from(magnitude), field.max(1) as i32 - 1 + format.lowest_exponent())
        };
        let mut terms = vec![{
            let (s, e) = apart(F32, c.to_bits());
            (s, e, 23)
        }];
        for i in 0..DEPTH {
            let ((sa, ea), (sb, eb)) = (apart(format, u32::from(a[i])), apart(format, u32::from(b[i])));
            terms.push((sa * sb, ea + eb, 2 * format.fraction as i32));
        }
        let Some(largest) = terms.iter().filter(|t| t.0 != 0).map(|t| t.1).max() else { return 0.0 };
        let mut sum = 0i128;
        for (s, e, fraction) in terms {
            let shift = 25 - fraction + e - largest;
            let magnitude = s.unsigned_abs();
            let cut = if shift >= 0 {
                magnitude << shift
            } else if shift < -127 {
                0
            } else {
                magnitude >> -shift
            };
            sum += if s < 0 { -(cut as i128) } else { cut as i128 };
        }
        let value = sum as f64 * 2f64.powi(largest.max(-1000) - 25);
        if value.abs() >= 2f64.powi(128) {
            (value as f32).signum() * f32::INFINITY
        } else {
            f32::from_bits(F32.encode(value, Rounding::Zero))
        }
    }

    #[test]
    fn agrees_with_the_rule_in_wide_arithmetic() {
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 32) as u32
        };
        for round in 0..60_000 {
            let half = if round % 2 == 0 { Half::F16 } else { Half::Bf16 };
            let infinity = half.format().infinity() as u16;
            let mut input = || {
                let mut row = [0u16; DEPTH];
                for x in &mut row {
                    // Random bits, small exponents, subnormals and zeros.
                    *x = match next() % 8 {
                        0 => 0,
                        1 => (next() % 1024) as u16,
                        2 => 0x8000,
                        3..=5 => (next() as u16 & 0x83ff) | 0x3c00,
                        _ => next() as u16,
                    };
                    if *x & infinity == infinity {
                        *x &= !infinity;
                    }
                }
                row
            };
            let (a, b) = (input(), input());
            let mut c = f32::from_bits(next());
            if !c.is_finite() || round % 3 == 0 {
                c = f32::from_bits(next() & 0x8fff_ffff | 0x3000_0000);
            }
            let (mut left, mut right) = (Operand::default(), Operand::default());
            left.fill(half, &[a], false);
            right.fill(half, &[b], false);
            let got = dot(half, &left, 0, &right, 0, c);
            let want = slow(half, &a, &b, c);
            assert_eq!(got.to_bits(), want.to_bits(), "{half:?} {a:x?} {b:x?} {c:e}: {got:e} {want:e}");
        }
    }

    #[test]
    fn infinities_and_nan() {
        let one = |a: u16, b: u16, c: f32| {
            let (mut left, mut right) = (Operand::default(), Operand::default());
            let mut rows = [[0u16; DEPTH]; 2];
            rows[0][3] = a;
            rows[1][3] = b;
            left.fill(Half::F16, &rows[..1], false);
            right.fill(Half::F16, &rows[1..], false);
            dot(Half::F16, &left, 0, &right, 0, c)
        };
        assert_eq!(one(0x7c00, 0x3c00, 1.0), f32::INFINITY);
        assert_eq!(one(0xfc00, 0x3c00, 1.0), f32::NEG_INFINITY);
        assert_eq!(one(0x7c00, 0, 1.0).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x7c00, 0x3c00, f32::NEG_INFINITY).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x3c00, 0x3c00, f32::NAN).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x3c00, 0x4000, f32::MAX), f32::MAX);
    }
}
