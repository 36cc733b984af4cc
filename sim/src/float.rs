//! Floating-point formats: encoding with every rounding, and decoding.

use ptx::ast::Rounding;

/// A binary floating-point format with infinities.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Format {
    /// Bits of the fraction.
    pub fraction: u32,
    /// Bits of the exponent.
    pub exponent: u32,
}

/// IEEE 754 binary16.
pub const F16: Format = Format { fraction: 10, exponent: 5 };
/// bfloat16.
pub const BF16: Format = Format { fraction: 7, exponent: 8 };
/// IEEE 754 binary32.
pub const F32: Format = Format { fraction: 23, exponent: 8 };

impl Format {
    const fn bias(self) -> i32 {
        (1 << (self.exponent - 1)) - 1
    }

    /// Exponent of the smallest normal number, which is that of all subnormal ones.
    pub const fn lowest_exponent(self) -> i32 {
        1 - self.bias()
    }

    /// Bits of infinity.
    pub const fn infinity(self) -> u32 {
        ((1 << self.exponent) - 1) << self.fraction
    }

    /// Bits of the largest finite number.
    const fn largest(self) -> u32 {
        self.infinity() - 1
    }

    /// Bits of the NaN that conversions produce: all ones below the sign (PTX ISA, "cvt").
    const fn nan(self) -> u32 {
        (1 << (self.exponent + self.fraction)) - 1
    }

    /// The value of `bits`, exactly.
    pub fn decode(self, bits: u32) -> f64 {
        let sign = if bits >> (self.exponent + self.fraction) & 1 == 1 { -1.0 } else { 1.0 };
        let field = bits >> self.fraction & ((1 << self.exponent) - 1);
        let fraction = bits & ((1 << self.fraction) - 1);
        if field == (1 << self.exponent) - 1 {
            return if fraction == 0 { sign * f64::INFINITY } else { f64::NAN };
        }
        let (significand, exponent) = if field == 0 {
            (fraction, self.lowest_exponent())
        } else {
            (fraction | 1 << self.fraction, field as i32 - self.bias())
        };
        sign * f64::from(significand) * exp2(exponent - self.fraction as i32)
    }

    /// `value` rounded to this format, which has fewer fraction bits than f64.
    pub fn encode(self, value: f64, rounding: Rounding) -> u32 {
        let sign = u32::from(value.is_sign_negative()) << (self.exponent + self.fraction);
        if value.is_nan() {
            return self.nan();
        }
        let magnitude = value.abs();
        if magnitude == 0.0 {
            return sign;
        }
        if magnitude.is_infinite() {
            return sign | self.infinity();
        }
        let field = (magnitude.to_bits() >> 52) as i32;
        let significand = magnitude.to_bits() & ((1 << 52) - 1) | u64::from(field != 0) << 52;
        // The value is `significand` · 2^(field - 1075), the result a multiple of 2^unit: so many bits are dropped.
        let unit = exponent_of(magnitude).max(self.lowest_exponent()) - self.fraction as i32;
        let dropped = (unit - (field.max(1) - 1075)).min(63);
        let (below, rest) = (significand >> dropped, significand & ((1 << dropped) - 1));
        let half = 1 << (dropped - 1);
        let up = match rounding {
            Rounding::Nearest => rest > half || (rest == half && below & 1 == 1),
            Rounding::NearestAway => rest >= half,
            Rounding::Zero => false,
            Rounding::Down => rest > 0 && sign != 0,
            Rounding::Up => rest > 0 && sign == 0,
        };
        let units = below + u64::from(up);
        // A carry out of the fraction lands in the exponent field, as it should.
        let field = (unit + self.fraction as i32 - self.lowest_exponent()) as u64;
        let bits = (field << self.fraction) + units;
        if bits >= u64::from(self.infinity()) {
            let to_largest = match rounding {
                Rounding::Nearest | Rounding::NearestAway => false,
                Rounding::Zero => true,
                Rounding::Down => sign == 0,
                Rounding::Up => sign != 0,
            };
            return sign | if to_largest { self.largest() } else { self.infinity() };
        }
        sign | bits as u32
    }
}

/// 2 to the power `exponent`, exactly; zero below the subnormal range.
fn exp2(exponent: i32) -> f64 {
    match exponent {
        -1022..=1023 => f64::from_bits(((exponent + 1023) as u64) << 52),
        -1074..=-1023 => f64::from_bits(1 << (exponent + 1074)),
        i32::MIN..=-1075 => 0.0,
        _ => f64::INFINITY,
    }
}

/// The exponent of a positive finite number, with its leading bit before the point.
fn exponent_of(value: f64) -> i32 {
    let field = (value.to_bits() >> 52 & 0x7ff) as i32;
    if field == 0 { value.to_bits().ilog2() as i32 - 1074 } else { field - 1023 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_agrees_with_the_machine() {
        let mut state = 1u64;
        for _ in 0..100_000 {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            let value = f64::from_bits(state ^ state >> 31);
            let scaled = f64::from_bits((value.to_bits() & !(0x7ff << 52)) | (((state >> 7) % 320 + 860) << 52));
            for value in [value, scaled] {
                if !value.is_nan() {
                    assert_eq!(F32.encode(value, Rounding::Nearest), (value as f32).to_bits(), "{value:e}");
                }
            }
            let bits = (state >> 16) as u32;
            let exact = f32::from_bits(bits);
            if !exact.is_nan() {
                assert_eq!(F32.decode(bits), f64::from(exact));
            }
        }
    }

    #[test]
    fn every_half_survives_a_round_trip() {
        for format in [F16, BF16] {
            for bits in 0..=0xffff_u32 {
                let value = format.decode(bits);
                if !value.is_nan() {
                    for rounding in [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up] {
                        assert_eq!(format.encode(value, rounding), bits);
                    }
                }
            }
        }
    }

    #[test]
    fn rounding_goes_where_it_says() {
        assert_eq!(F16.encode(65519.0, Rounding::Nearest), 0x7bff);
        assert_eq!(F16.encode(65520.0, Rounding::Nearest), 0x7c00);
        assert_eq!(F16.encode(1e9, Rounding::Zero), 0x7bff);
        assert_eq!(F16.encode(-1e9, Rounding::Up), 0xfbff);
        assert_eq!(F16.encode(1.0 + 2f64.powi(-11), Rounding::Nearest), 0x3c00);
        assert_eq!(F16.encode(1.0 + 3.0 * 2f64.powi(-11), Rounding::Nearest), 0x3c02);
        assert_eq!(F16.encode(1.0 + 2f64.powi(-11), Rounding::NearestAway), 0x3c01);
        assert_eq!(F16.encode(2f64.powi(-25), Rounding::Nearest), 0);
        assert_eq!(F16.encode(1.5 * 2f64.powi(-25), Rounding::Nearest), 1);
    }
}
