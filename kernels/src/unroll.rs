//! Loops that are unrolled in the source.

/// `unroll!(S in 0..COUNT => { … })`: the block once for each `S`, a constant in each copy. COUNT is a
/// constant of at most 8; `unroll_wide!` takes up to 32, and must not be nested, since each level
/// multiplies what the compiler has to read.
///
/// A `for` loop would leave the unrolling to the optimiser, whose threshold decides whether an index is
/// a constant; where it is not, accumulators land in local memory.
macro_rules! unroll {
    ($i:ident in 0..$count:expr => $body:block) => {
        $crate::unroll::copies!($i, $count, $body, 8, 0 1 2 3 4 5 6 7)
    };
}
pub(crate) use unroll;

/// See [`unroll`].
macro_rules! unroll_wide {
    ($i:ident in 0..$count:expr => $body:block) => {
        $crate::unroll::copies!($i, $count, $body, 32,
            0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31)
    };
}
pub(crate) use unroll_wide;

macro_rules! copies {
    ($i:ident, $count:expr, $body:block, $limit:literal, $($value:literal)*) => {
        const { assert!($count <= $limit, "more copies than this macro makes") };
        $(
            // A constant condition: copies that are not wanted are dropped before they are compiled.
            if const { $value < $count } {
                #[allow(dead_code, non_upper_case_globals)]
                const $i: usize = $value;
                $body
            }
        )*
    };
}
pub(crate) use copies;
