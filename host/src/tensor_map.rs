//! What a tensor map says: where a matrix lies and how TMA puts a box of it into shared memory.
//!
//! The description is here, for every machine; the feature `cuda` adds the driver call that encodes it.

use kernels::catalogue::{Config, Element, Swizzle};

use crate::error::Result;
use crate::problem::{Addresses, Problem, TMA_ALIGNMENT, TMA_STRIDE_LIMIT};

/// A row-major matrix as TMA sees it: boxes of `box_columns` columns and `box_rows` rows, swizzled; outside
/// the matrix zeros are read and nothing is written. Made by [`operands`] and [`output`], which see to the
/// rules of TMA.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct TiledMatrix {
    /// Element type.
    pub element: Element,
    /// Address of the first element, a multiple of 16 bytes.
    pub address: u64,
    /// Rows.
    pub rows: u64,
    /// Columns, the contiguous dimension.
    pub columns: u64,
    /// Bytes from one row to the next, a multiple of 16.
    pub stride_bytes: u64,
    /// Columns of a box.
    pub box_columns: u32,
    /// Rows of a box.
    pub box_rows: u32,
    /// How a box is laid out in shared memory.
    pub swizzle: Swizzle,
    /// Bytes that the L2 fetches from DRAM where a load misses: 128 or 256.
    pub l2_promotion: u32,
}

/// A and B of `problem` at `addresses`, as the kernel of `config` reads them; `None` where it reads them without TMA. It asks
/// for the same alignment then.
///
/// # Errors
/// When TMA could not read them; see [`Problem::check_tma`].
pub fn operands(problem: &Problem, config: &Config, addresses: Addresses) -> Result<Option<[TiledMatrix; 2]>> {
    problem.check_tma(addresses)?;
    let operand = |address, rows, ld, box_sides| {
        describe(problem, config, address, [rows, problem.k()], ld, box_sides, config.swizzle())
    };
    Ok(config.kernel.reads_by_tma().then(|| {
        [
            operand(addresses.a, problem.m(), problem.lda(), config.a_box()),
            operand(addresses.b, problem.n(), problem.ldb(), config.b_box()),
        ]
    }))
}

/// C of `problem` at `addresses`, as the kernel of `config` stores it by TMA; `None` where the kernel does not,
/// or where TMA cannot: then it stores C itself. TMA stores whole chunks of 16 bytes, so the rows of C must end
/// at a multiple of 16 bytes too.
pub fn output(problem: &Problem, config: &Config, addresses: Addresses) -> Option<TiledMatrix> {
    let stride = problem.ldc() * problem.element().bytes();
    let takes_tma = addresses.c.is_multiple_of(TMA_ALIGNMENT as u64)
        && stride.is_multiple_of(TMA_ALIGNMENT)
        && stride < TMA_STRIDE_LIMIT
        && (problem.n() * problem.element().bytes()).is_multiple_of(TMA_ALIGNMENT);
    (config.kernel.stores_by_tma() && takes_tma).then(|| {
        let shape = [problem.m(), problem.n()];
        describe(problem, config, addresses.c, shape, problem.ldc(), config.c_box(), config.c_swizzle())
    })
}

/// How many bytes the L2 should fetch where a load of the kernel of `config` misses, with rows `stride_bytes` apart.
///
/// 256 are two tiles of K. A persistent kernel has a short ring, and the second of them is asked for a stage later:
/// it waits in the L2 by then. The rings of split and parts are deep, and the second is asked for at once, or by
/// another block: then both are fetched twice. Where rows do not begin at multiples of 256 bytes, 256 bytes hold
/// what nobody asks for. (See the worklog, "L2 promotion".)
fn l2_promotion(config: &Config, stride_bytes: usize) -> u32 {
    if config.kernel.takes_parts() || !stride_bytes.is_multiple_of(256) { 128 } else { 256 }
}

fn describe(
    problem: &Problem,
    config: &Config,
    address: u64,
    [rows, columns]: [usize; 2],
    ld: usize,
    [box_columns, box_rows]: [usize; 2],
    swizzle: Swizzle,
) -> TiledMatrix {
    let stride_bytes = ld * problem.element().bytes();
    TiledMatrix {
        element: problem.element(),
        address,
        rows: rows as u64,
        columns: columns as u64,
        stride_bytes: stride_bytes as u64,
        box_columns: box_columns as u32,
        box_rows: box_rows as u32,
        swizzle,
        l2_promotion: l2_promotion(config, stride_bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::catalogue::{COMPILED, Kernel};

    const ADDRESSES: Addresses = Addresses { a: 0x1000, b: 0x2000, c: 0x3000 };

    #[test]
    fn every_compiled_box_is_one_that_tma_can_copy() {
        for config in COMPILED {
            let problem = Problem::new(config.element, 100, 70, 64).unwrap();
            let operands = operands(&problem, config, ADDRESSES).unwrap();
            let aligned = Problem::new(config.element, 100, 72, 64).unwrap();
            let output = output(&aligned, config, ADDRESSES);
            assert_eq!(operands.is_some(), config.kernel.reads_by_tma(), "{}", config.entry);
            assert_eq!(output.is_some(), config.kernel.stores_by_tma(), "{}", config.entry);
            for map in operands.into_iter().flatten().chain(output) {
                // CUDA driver API, cuTensorMapEncodeTiled: boxDim, and the inner dimension by swizzle.
                assert!((1..=256).contains(&map.box_rows) && (1..=256).contains(&map.box_columns));
                let row_bytes = map.box_columns as usize * config.element.bytes();
                assert!(row_bytes.is_multiple_of(16), "{}", config.entry);
                assert!(map.swizzle == Swizzle::None || row_bytes <= map.swizzle.span(), "{}", config.entry);
            }
        }
    }

    #[test]
    fn a_has_the_rows_of_c_and_b_its_columns() {
        let config = &COMPILED[0];
        let problem = Problem::with_leading_dimensions(config.element, (100, 70, 33), 40, 48, 70).unwrap();
        let [a, b] = operands(&problem, config, ADDRESSES).unwrap().unwrap();
        assert_eq!((a.rows, a.columns, a.stride_bytes, a.address), (100, 33, 80, 0x1000));
        assert_eq!((b.rows, b.columns, b.stride_bytes, b.address), (70, 33, 96, 0x2000));
        assert_eq!([a.box_columns as usize, a.box_rows as usize], config.a_box());
        assert_eq!([b.box_columns as usize, b.box_rows as usize], config.b_box());
    }

    #[test]
    fn a_kernel_stores_c_itself_where_tma_cannot() {
        for config in COMPILED.iter().filter(|config| config.kernel.stores_by_tma()) {
            let problem = |n, ldc| Problem::with_leading_dimensions(config.element, (100, n, 64), 64, 64, ldc).unwrap();
            let map = output(&problem(72, 80), config, ADDRESSES).unwrap();
            assert_eq!((map.rows, map.columns, map.stride_bytes, map.address), (100, 72, 160, 0x3000));
            assert!(output(&problem(72, 74), config, ADDRESSES).is_none(), "rows that start off 16 bytes");
            assert!(output(&problem(70, 80), config, ADDRESSES).is_none(), "rows that end off 16 bytes");
            let moved = Addresses { c: ADDRESSES.c + 2, ..ADDRESSES };
            assert!(output(&problem(72, 80), config, moved).is_none(), "a matrix that starts off 16 bytes");
        }
    }

    #[test]
    fn the_l2_fetches_two_lines_for_short_rings_and_aligned_rows_only() {
        for config in COMPILED.iter().filter(|config| config.kernel.reads_by_tma()) {
            let promotion = |k: usize| {
                let ld = k.next_multiple_of(8);
                let problem = Problem::with_leading_dimensions(config.element, (100, 70, k), ld, ld, 70).unwrap();
                operands(&problem, config, ADDRESSES).unwrap().unwrap().map(|map| map.l2_promotion)
            };
            let deep = matches!(config.kernel, Kernel::Split | Kernel::Parts);
            assert_eq!(promotion(4096), if deep { [128; 2] } else { [256; 2] }, "{}", config.entry);
            // Rows of 128 bytes more, and of 16 less.
            assert_eq!(promotion(4096 + 64), [128; 2], "{}", config.entry);
            assert_eq!(promotion(4096 - 8), [128; 2], "{}", config.entry);
        }
    }

    #[test]
    fn what_tma_cannot_read_is_refused() {
        for config in COMPILED {
            let problem = Problem::new(config.element, 4, 4, 9).unwrap();
            assert!(operands(&problem, config, ADDRESSES).is_err(), "{}", config.entry);
        }
    }
}
