//! Which shapes share a tuned answer.

use std::fmt;

use kernels::catalogue::Element;

use crate::problem::{Problem, leading_dimension_unit};

/// Sizes below this are one class: no tile is smaller. (One of 16 rows or more serves fewer as well, one of eight no more.)
const SMALLEST: usize = 8;

/// The shapes for which one answer is kept.
///
/// Two products are of one class when they agree in
/// - the type of their elements,
/// - M, N and K, each rounded up to a power of two or to one and a half times one (8, 12, 16, 24, 32, …): a
///   third apart at most, so that the number of tiles is about the same,
/// - whether the rows of C end at multiples of 16 bytes, because TMA stores need it and other stores are slower.
///
/// The answer is that of the shape which was measured; for the others of its class it is a good guess.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct ShapeClass {
    element: Element,
    sizes: [usize; 3],
    tma_stores: bool,
}

impl ShapeClass {
    /// The class of `problem`. Leading dimensions do not matter.
    pub fn of(problem: &Problem) -> ShapeClass {
        ShapeClass {
            element: problem.element(),
            sizes: [problem.m(), problem.n(), problem.k()].map(round_up),
            tma_stores: problem.n().is_multiple_of(leading_dimension_unit(problem.element())),
        }
    }
}

/// `f16 4096x4096x16384`, and `f16 1536x12x64 unaligned` where TMA cannot store C.
impl fmt::Display for ShapeClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [m, n, k] = self.sizes;
        write!(f, "{} {m}x{n}x{k}{}", self.element.name(), if self.tma_stores { "" } else { " unaligned" })
    }
}

/// The smallest 2ⁱ or 3·2ⁱ that is not below `size`, at least [`SMALLEST`].
fn round_up(size: usize) -> usize {
    let power = size.max(SMALLEST).next_power_of_two();
    let between = power / 4 * 3;
    if size <= between && between >= SMALLEST { between } else { power }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(m: usize, n: usize, k: usize) -> String {
        ShapeClass::of(&Problem::new(Element::F16, m, n, k).unwrap()).to_string()
    }

    #[test]
    fn sizes_are_rounded_up_by_less_than_half() {
        for (size, rounded) in [
            (0, 8),
            (1, 8),
            (8, 8),
            (9, 12),
            (13, 16),
            (16, 16),
            (17, 24),
            (25, 32),
            (33, 48),
            (49, 64),
            (4096, 4096),
            (4097, 6144),
        ] {
            assert_eq!(round_up(size), rounded, "{size}");
        }
        for size in 8..10_000 {
            assert!((size..=size * 3 / 2).contains(&round_up(size)), "{size}");
        }
    }

    #[test]
    fn neighbours_share_a_class_and_others_do_not() {
        assert_eq!(class(4096, 4096, 14336), "f16 4096x4096x16384");
        assert_eq!(class(4096, 4096, 14336), class(4000, 4088, 12296));
        assert_eq!(class(1797, 10, 64), "f16 2048x12x64 unaligned");
        assert_ne!(class(4096, 4096, 64), class(4096, 4095, 64));
        let bf16 = ShapeClass::of(&Problem::new(Element::Bf16, 4096, 4096, 64).unwrap());
        assert_ne!(bf16.to_string(), class(4096, 4096, 64));
    }
}
