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

/// Columns that are computed together.
const LANES: usize = 8;

/// The NaN that comes out.
const NAN: f32 = f32::from_bits(0x7fff_ffff);

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

/// A row of A, or a column of B, taken apart: the value of an input is `significand · 2^(exponent - fraction)`.
#[derive(Clone, Copy)]
struct Row {
    significands: [i32; DEPTH],
    exponents: [i32; DEPTH],
    raw: [u16; DEPTH],
    /// Whether it holds an infinity or a NaN.
    special: bool,
    /// Whether all of it is zero.
    zero: bool,
}

impl Row {
    const ZERO: Row = Row {
        significands: [0; DEPTH],
        exponents: [ZERO_EXPONENT; DEPTH],
        raw: [0; DEPTH],
        special: false,
        zero: true,
    };

    fn new(half: Half, mut raw: [u16; DEPTH], negate: bool) -> Row {
        // Padding is common.
        if raw == [0; DEPTH] && !negate {
            return Row::ZERO;
        }
        if negate {
            raw = raw.map(|x| x ^ 1 << 15);
        }
        match half {
            Half::F16 => Row::of_format::<{ F16.fraction }, { F16.exponent }>(raw),
            Half::Bf16 => Row::of_format::<{ BF16.fraction }, { BF16.exponent }>(raw),
        }
    }

    /// With the format known at compile time, so that all inputs are taken apart at once.
    fn of_format<const FRACTION: u32, const EXPONENT: u32>(raw: [u16; DEPTH]) -> Row {
        let format = const { Format { fraction: FRACTION, exponent: EXPONENT } };
        let mut row = Row { raw, ..Row::ZERO };
        for (i, &bits) in raw.iter().enumerate() {
            let bits = u32::from(bits);
            let field = bits >> FRACTION & ((1 << EXPONENT) - 1);
            let magnitude = (bits & ((1 << FRACTION) - 1) | u32::from(field != 0) << FRACTION) as i32;
            row.significands[i] = if bits >> 15 == 1 { magnitude.wrapping_neg() } else { magnitude };
            let exponent = (field.max(1) as i32).wrapping_add(format.lowest_exponent() - 1);
            row.exponents[i] = if magnitude == 0 { ZERO_EXPONENT } else { exponent };
            row.special |= field == (1 << EXPONENT) - 1;
            row.zero &= magnitude == 0;
        }
        row
    }
}

/// Columns of B, as many as are computed together; those that B lacks are zero.
struct Columns {
    significands: [[i32; LANES]; DEPTH],
    exponents: [[i32; LANES]; DEPTH],
    raw: [[u16; DEPTH]; LANES],
    special: [bool; LANES],
    zero: bool,
}

impl Columns {
    fn new(columns: &[Row; LANES]) -> Columns {
        Columns {
            significands: std::array::from_fn(|k| columns.each_ref().map(|column| column.significands[k])),
            exponents: std::array::from_fn(|k| columns.each_ref().map(|column| column.exponents[k])),
            raw: columns.each_ref().map(|column| column.raw),
            special: columns.each_ref().map(|column| column.special),
            zero: columns.iter().all(|column| column.zero),
        }
    }
}

/// The operands of one step: rows of A and columns of B, sixteen inputs each, taken apart once.
pub struct Operands {
    half: Half,
    a: Vec<Row>,
    b: Vec<Columns>,
    /// Whether B holds an infinity or a NaN.
    special: bool,
}

impl Default for Operands {
    fn default() -> Operands {
        Operands { half: Half::F16, a: Vec::new(), b: Vec::new(), special: false }
    }
}

impl Operands {
    /// Puts in other operands. `negate` flips the signs of A's and of B's inputs.
    pub fn fill(&mut self, half: Half, a: &[[u16; DEPTH]], b: &[[u16; DEPTH]], negate: [bool; 2]) {
        self.half = half;
        self.a.clear();
        self.a.extend(a.iter().map(|raw| Row::new(half, *raw, negate[0])));
        self.b.clear();
        self.b.extend(b.chunks(LANES).map(|raw| {
            let mut columns = [Row::ZERO; LANES];
            for (column, raw) in columns.iter_mut().zip(raw) {
                *column = Row::new(half, *raw, negate[1]);
            }
            Columns::new(&columns)
        }));
        self.special = self.b.iter().any(|b| b.special != [false; LANES]);
    }

    /// Whether the products of row `row` of A are all zero whatever the column, so that its sums are [`unchanged`].
    pub fn adds_nothing(&self, row: usize) -> bool {
        self.a[row].zero && !self.special
    }

    /// Adds the products of row `row` of A and the columns of B to `sums`, one for each column.
    pub fn add_row(&self, row: usize, sums: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.add_row_avx2(row, sums) };
        }
        self.add_row_inline(row, sums);
    }

    /// The same, compiled for AVX2, whose shifts of each lane by its own distance make it four times as fast.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn add_row_avx2(&self, row: usize, sums: &mut [f32]) {
        self.add_row_inline(row, sums);
    }

    #[inline(always)]
    fn add_row_inline(&self, row: usize, sums: &mut [f32]) {
        let a = &self.a[row];
        for (b, sums) in self.b.iter().zip(sums.chunks_mut(LANES)) {
            let mut c = [0.0; LANES];
            c[..sums.len()].copy_from_slice(sums);
            let mut out = if a.zero || b.zero {
                c.map(|c| f32::from_bits(unchanged(c.to_bits())))
            } else {
                sum(self.half, a, b, &c)
            };
            for lane in 0..LANES {
                if a.special || b.special[lane] || !c[lane].is_finite() {
                    out[lane] = special(self.half, &a.raw, &b.raw[lane], c[lane]);
                }
            }
            sums.copy_from_slice(&out[..sums.len()]);
        }
    }
}

/// The bits of a sum to which only zeros are added: as they were, but -0 becomes 0, and a NaN that of the tensor
/// cores.
#[inline]
pub const fn unchanged(c: u32) -> u32 {
    let magnitude = c & 0x7fff_ffff;
    let number = if magnitude == 0 { 0 } else { c };
    if magnitude > 0x7f80_0000 { NAN.to_bits() } else { number }
}

/// `c` plus the products of a row and columns, all of which are finite.
///
/// Nothing overflows here; the arithmetic is written as wrapping because checks would keep the compiler from
/// computing all lanes at once where they are on. Loops over indices of lanes are what it sees through best.
#[allow(clippy::needless_range_loop)]
#[inline(always)]
fn sum(half: Half, a: &Row, b: &Columns, c: &[f32; LANES]) -> [f32; LANES] {
    let mut c_significands = [0i32; LANES];
    let mut c_exponents = [0i32; LANES];
    for lane in 0..LANES {
        let bits = c[lane].to_bits();
        let field = bits >> 23 & 0xff;
        let magnitude = (bits & 0x7f_ffff | u32::from(field != 0) << 23) as i32;
        c_significands[lane] = if bits >> 31 == 1 { magnitude.wrapping_neg() } else { magnitude };
        c_exponents[lane] = if magnitude == 0 { ZERO_EXPONENT } else { (field.max(1) as i32).wrapping_sub(127) };
    }
    let mut largest = c_exponents;
    for k in 0..DEPTH {
        for lane in 0..LANES {
            largest[lane] = largest[lane].max(a.exponents[k].wrapping_add(b.exponents[k][lane]));
        }
    }
    // A product is below 4 and has twice the fraction bits of its factors, at most 20; moved up to 25 it is below
    // 2^27, so that eight fit in 32 bits.
    let up = FRACTION - 2 * half.format().fraction;
    let mut sums = [[0i32; LANES]; 2];
    for (half, sums) in sums.iter_mut().enumerate() {
        for k in DEPTH / 2 * half..DEPTH / 2 * (half + 1) {
            for lane in 0..LANES {
                let product = a.significands[k].wrapping_mul(b.significands[k][lane]);
                let exponent = a.exponents[k].wrapping_add(b.exponents[k][lane]);
                let term = shift(product, up, largest[lane].wrapping_sub(exponent));
                sums[lane] = sums[lane].wrapping_add(term);
            }
        }
    }
    let mut exact = [0f64; LANES];
    for lane in 0..LANES {
        let c = shift(c_significands[lane], FRACTION - 23, largest[lane].wrapping_sub(c_exponents[lane]));
        let sum = f64::from(sums[0][lane]) + f64::from(sums[1][lane]) + f64::from(c);
        // Where all terms are zero, so is the sum, and any power of two will do.
        let field = largest[lane].max(ZERO_EXPONENT / 20).wrapping_add(1023 - FRACTION as i32);
        exact[lane] = sum * f64::from_bits((field as u64) << 52);
    }
    exact.map(cut_off)
}

/// `value` moved `up` bits, and then `down` bits toward zero.
#[inline(always)]
fn shift(value: i32, up: u32, down: i32) -> i32 {
    let magnitude = value.unsigned_abs().wrapping_shl(up).wrapping_shr(down.min(31) as u32) as i32;
    if value < 0 { magnitude.wrapping_neg() } else { magnitude }
}

/// `value`, which has at most 34 significant bits, cut off toward zero to f32; an overflow is infinite.
#[inline(always)]
fn cut_off(value: f64) -> f32 {
    if value.abs() < f64::from(f32::MIN_POSITIVE) {
        // A subnormal number is a multiple of 2^-149.
        return ((value * 2f64.powi(149)).trunc() * 2f64.powi(-149)) as f32;
    }
    // The 29 fraction bits that f32 lacks.
    f64::from_bits(value.to_bits() >> 29 << 29) as f32
}

/// The same where an input is infinite or NaN: only infinities and NaN can come out.
fn special(half: Half, a: &[u16; DEPTH], b: &[u16; DEPTH], c: f32) -> f32 {
    let format = half.format();
    let mut sum = f64::from(c);
    for i in 0..DEPTH {
        sum += format.decode(u32::from(a[i])) * format.decode(u32::from(b[i]));
    }
    if sum.is_nan() { NAN } else { f32::from_bits(F32.encode(sum, Rounding::Zero)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One sum; with and without AVX2 it must be the same.
    fn dot(half: Half, a: [u16; DEPTH], b: [u16; DEPTH], c: f32) -> f32 {
        let mut operands = Operands::default();
        operands.fill(half, &[a], &[b], [false; 2]);
        let (mut sum, mut plain) = ([c], [c]);
        operands.add_row(0, &mut sum);
        operands.add_row_inline(0, &mut plain);
        assert_eq!(sum[0].to_bits(), plain[0].to_bits());
        sum[0]
    }

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
            let got = dot(half, a, b, c);
            let want = slow(half, &a, &b, c);
            assert_eq!(got.to_bits(), want.to_bits(), "{half:?} {a:x?} {b:x?} {c:e}: {got:e} {want:e}");
        }
    }

    #[test]
    fn zeros_add_nothing_unless_they_meet_infinities() {
        let mut operands = Operands::default();
        let (zero, one) = ([0; DEPTH], [0x3c00; DEPTH]);
        operands.fill(Half::F16, &[zero, one], &[one, zero], [false; 2]);
        assert!(operands.adds_nothing(0) && !operands.adds_nothing(1));
        for c in [-0.0, 1.5, -f32::MIN_POSITIVE / 4.0, f32::INFINITY, f32::NAN] {
            let mut sums = [c; 2];
            operands.add_row(0, &mut sums);
            assert_eq!(sums.map(f32::to_bits), [unchanged(c.to_bits()); 2]);
            if c.is_finite() {
                assert_eq!(slow(Half::F16, &zero, &one, c).to_bits(), unchanged(c.to_bits()));
            }
        }
        operands.fill(Half::F16, &[zero], &[[0x7c00; DEPTH]], [false; 2]);
        assert!(!operands.adds_nothing(0));
        let mut sums = [1.0];
        operands.add_row(0, &mut sums);
        assert_eq!(sums[0].to_bits(), NAN.to_bits());
    }

    #[test]
    fn a_sum_that_underflows_keeps_its_sign_until_zeros_are_added() {
        // Sixteen times -2^-266, far below the smallest f32.
        let tiny = dot(Half::Bf16, [0x8001; DEPTH], [0x0001; DEPTH], 0.0);
        assert_eq!(tiny.to_bits(), (-0f32).to_bits());
        assert_eq!(dot(Half::Bf16, [0; DEPTH], [0x3f80; DEPTH], tiny).to_bits(), 0);
    }

    #[test]
    fn infinities_and_nan() {
        let one = |a: u16, b: u16, c: f32| {
            let mut rows = [[0u16; DEPTH]; 2];
            rows[0][3] = a;
            rows[1][3] = b;
            dot(Half::F16, rows[0], rows[1], c)
        };
        assert_eq!(one(0x7c00, 0x3c00, 1.0), f32::INFINITY);
        assert_eq!(one(0xfc00, 0x3c00, 1.0), f32::NEG_INFINITY);
        assert_eq!(one(0x7c00, 0, 1.0).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x7c00, 0x3c00, f32::NEG_INFINITY).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x3c00, 0x3c00, f32::NAN).to_bits(), 0x7fff_ffff);
        assert_eq!(one(0x3c00, 0x4000, f32::MAX), f32::MAX);
    }
}
