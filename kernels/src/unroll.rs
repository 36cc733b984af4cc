//! Loops that are unrolled in the source.

/// `unroll!(S in 0..COUNT => { … })`: the block once for each `S`, a constant in each copy. COUNT is a
/// constant of at most 8.
///
/// A `for` loop would leave the unrolling to the optimiser, whose threshold decides whether an index is
/// a constant; where it is not, accumulators land in local memory.
macro_rules! unroll {
    ($i:ident in 0..$count:expr => $body:block) => {
        unroll!(@copies $i, $count, $body, 0 1 2 3 4 5 6 7)
    };
    (@copies $i:ident, $count:expr, $body:block, $($value:literal)*) => {
        const { assert!($count <= 8, "unroll! copies a block at most eight times") };
        $(
            #[allow(unused_comparisons, clippy::absurd_extreme_comparisons)]
            if $value < $count {
                #[allow(dead_code, non_upper_case_globals)]
                const $i: usize = $value;
                $body
            }
        )*
    };
}
pub(crate) use unroll;
