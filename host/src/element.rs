//! The element types of A, B and C.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use kernels::catalogue;

mod sealed {
    pub trait Sealed {}
    impl Sealed for half::f16 {}
    impl Sealed for half::bf16 {}
}

/// A 16-bit floating-point type that the kernels multiply: [`half::f16`] or [`half::bf16`].
pub trait Element: sealed::Sealed + Copy + Default + PartialEq + std::fmt::Debug + Send + Sync + 'static {
    /// The type as the kernel catalogue knows it.
    const KIND: catalogue::Element;
    /// Significant bits of a normal number, the implicit one included: p of IEEE 754.
    const PRECISION: i32;
    /// Exponent of the smallest normal number: emin of IEEE 754.
    const MIN_EXPONENT: i32;
    /// Exponent of the largest finite number: emax of IEEE 754.
    const MAX_EXPONENT: i32;

    /// Rounds to nearest, ties to even; beyond the largest finite value to infinity.
    fn from_f32(value: f32) -> Self;
    /// The exact value.
    fn to_f32(self) -> f32;
    /// The sixteen bits.
    fn to_bits(self) -> u16;
    /// The value of sixteen bits.
    fn from_bits(bits: u16) -> Self;

    /// [`Element::from_f32`] of each value.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn convert_from_f32(from: &[f32], to: &mut [Self]);
    /// [`Element::to_f32`] of each element.
    ///
    /// # Panics
    /// When the slices differ in length.
    fn convert_to_f32(from: &[Self], to: &mut [f32]);

    /// As [`Element::from_f32`], with a single rounding.
    fn from_f64(value: f64) -> Self {
        Self::from_f32(round_to_odd(value))
    }

    /// Unit roundoff 2⁻ᵖ: the largest relative error of one rounding.
    fn unit_roundoff() -> f64 {
        2f64.powi(-Self::PRECISION)
    }

    /// Unit in the last place of this type at the magnitude of `value`: the distance between neighbouring
    /// numbers there. It does not shrink below the smallest normal number or grow beyond the largest.
    fn ulp(value: f64) -> f64 {
        let exponent = exponent(value).clamp(Self::MIN_EXPONENT, Self::MAX_EXPONENT);
        // 2 to the power exponent + 1 - p, which is a normal number for every type here.
        f64::from_bits(((exponent + 1 - Self::PRECISION + 1023) as u64) << 52)
    }

    /// The smallest magnitude that rounds to infinity: half a unit beyond the largest finite number.
    fn overflow_threshold() -> f64 {
        let unit = Self::ulp(f64::INFINITY);
        2f64.powi(Self::MAX_EXPONENT + 1) - unit / 2.0
    }
}

/// Exponent e of a finite value in 2ᵉ ≤ |value| < 2ᵉ⁺¹; that of the smallest normal f64 for what is
/// smaller.
fn exponent(value: f64) -> i32 {
    let biased = (value.to_bits() >> 52 & 0x7ff) as i32;
    biased.max(1) - 1023
}

/// Rounds to f32 such that rounding once more, to a type with at least two bits less, gives what rounding
/// the f64 at once would: what is inexact goes to the neighbour with an odd significand, which is never a
/// tie of the second rounding. (The f64 conversions of `half` round twice.)
fn round_to_odd(value: f64) -> f32 {
    let nearest = value as f32;
    let back = f64::from(nearest);
    if back == value || value.is_nan() {
        return nearest;
    }
    let toward_zero = nearest.to_bits() - u32::from(back.abs() > value.abs());
    f32::from_bits(toward_zero | 1)
}

macro_rules! element {
    ($type:ident, $kind:ident, precision $precision:literal, exponents $min:literal ..= $max:literal) => {
        impl Element for $type {
            const KIND: catalogue::Element = catalogue::Element::$kind;
            const PRECISION: i32 = $precision;
            const MIN_EXPONENT: i32 = $min;
            const MAX_EXPONENT: i32 = $max;

            fn from_f32(value: f32) -> Self {
                $type::from_f32(value)
            }
            fn to_f32(self) -> f32 {
                self.to_f32()
            }
            fn to_bits(self) -> u16 {
                self.to_bits()
            }
            fn from_bits(bits: u16) -> Self {
                $type::from_bits(bits)
            }
            fn convert_from_f32(from: &[f32], to: &mut [Self]) {
                to.convert_from_f32_slice(from);
            }
            fn convert_to_f32(from: &[Self], to: &mut [f32]) {
                from.convert_to_f32_slice(to);
            }
        }
    };
}

element!(f16, F16, precision 11, exponents -14 ..= 15);
element!(bf16, Bf16, precision 8, exponents -126 ..= 127);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_agree_with_half() {
        fn check<T: Element>(min: T, max: T, epsilon: T) {
            assert_eq!(f64::from(min.to_f32()), 2f64.powi(T::MIN_EXPONENT));
            assert_eq!(exponent(f64::from(max.to_f32())), T::MAX_EXPONENT);
            assert_eq!(f64::from(epsilon.to_f32()), T::ulp(1.0));
        }
        check(f16::MIN_POSITIVE, f16::MAX, f16::EPSILON);
        check(bf16::MIN_POSITIVE, bf16::MAX, bf16::EPSILON);
    }

    #[test]
    fn ulp_is_the_distance_to_the_next_number() {
        fn check<T: Element>() {
            for bits in 0..0x7fffu16 {
                let (low, high) = (T::from_bits(bits).to_f32(), T::from_bits(bits + 1).to_f32());
                if high.is_finite() {
                    assert_eq!(T::ulp(f64::from(low)), f64::from(high) - f64::from(low), "{low}");
                }
            }
        }
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn ulp_is_bounded_for_what_the_type_cannot_hold() {
        assert_eq!(f16::ulp(1e30), 32.0);
        assert_eq!(f16::ulp(f64::INFINITY), 32.0);
        assert_eq!(f16::ulp(0.0), 2f64.powi(-24));
        assert_eq!(f16::ulp(f64::from_bits(1)), 2f64.powi(-24));
    }

    #[test]
    fn the_overflow_threshold_is_where_rounding_overflows() {
        fn check<T: Element>() {
            let threshold = T::overflow_threshold();
            assert!(T::from_f64(threshold).to_f32().is_infinite());
            assert!(T::from_f64(threshold * (1.0 - f64::EPSILON)).to_f32().is_finite());
        }
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn doubles_are_rounded_once() {
        // Above a tie by less than f32 can hold, and below one.
        let tie = 1.0 + 2f64.powi(-11);
        assert_eq!(f16::from_f64(tie), <f16 as Element>::from_f64(tie));
        assert_eq!(<f16 as Element>::from_f64(tie + 2f64.powi(-40)), f16::from_f32(1.0 + 2f32.powi(-10)));
        assert_eq!(<f16 as Element>::from_f64(-tie - 2f64.powi(-40)), f16::from_f32(-1.0 - 2f32.powi(-10)));
        let tie = 1.0 + 3.0 * 2f64.powi(-11);
        assert_eq!(<f16 as Element>::from_f64(tie - 2f64.powi(-40)), f16::from_f32(1.0 + 2f32.powi(-10)));
        for value in [0.0, -0.0, 1.5, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 1e-300, f64::MIN_POSITIVE] {
            assert_eq!(<f16 as Element>::from_f64(value).to_bits(), f16::from_f64(value).to_bits(), "{value}");
            assert_eq!(<bf16 as Element>::from_f64(value).to_bits(), bf16::from_f64(value).to_bits(), "{value}");
        }
        assert!(<bf16 as Element>::from_f64(f64::NAN).is_nan());
    }

    #[test]
    fn slices_round_to_nearest_even() {
        // Halfway between 1 and the next number, halfway between that and the one after, and overflow.
        let from = [1.0 + 2f32.powi(-11), 1.0 + 3.0 * 2f32.powi(-11), 65520.0];
        let mut to = [f16::ZERO; 3];
        f16::convert_from_f32(&from, &mut to);
        assert_eq!(to, [f16::ONE, f16::from_f32(1.0 + 2f32.powi(-9)), f16::INFINITY]);
        assert_eq!(to, from.map(f16::from_f32));
    }
}
