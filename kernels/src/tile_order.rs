//! In which order the blocks of a grid take the tiles of C.
//!
//! Blocks start in the order of their index and run side by side, so neighbours in this order read the
//! same rows of A or of B at about the same time. How many different rows are being read at once decides
//! how much of the traffic to the L2 cache is shared.

/// The tile of C, in units of tiles, that block `block` takes: bands of `band` rows of tiles, one after
/// the other; in a band, down the columns from left to right.
///
/// ```text
///          columns of tiles
///        ┌ 0  3  6  9 ┐
/// band 0 │ 1  4  7 10 │     band = 3, 5 rows of tiles, 4 columns
///        └ 2  5  8 11 ┘
/// band 1 ┌12 14 16 18 ┐
///        └13 15 17 19 ┘
/// ```
///
/// `block` is below `tiles_m · tiles_n`, `band` at least 1. The last band may be lower than the others.
#[inline(always)]
// ANCHOR: banded
pub const fn banded(block: u32, tiles_m: u32, tiles_n: u32, band: u32) -> (u32, u32) {
    let per_band = band * tiles_n;
    let first_row = block / per_band * band;
    let rows = if tiles_m - first_row < band { tiles_m - first_row } else { band };
    let in_band = block % per_band;
    (first_row + in_band % rows, in_band / rows)
}
// ANCHOR_END: banded

#[cfg(test)]
mod tests {
    use super::banded;

    #[test]
    fn the_picture_is_true() {
        let order: [(u32, u32); 20] = core::array::from_fn(|block| banded(block as u32, 5, 4, 3));
        assert_eq!(order[..4], [(0, 0), (1, 0), (2, 0), (0, 1)]);
        assert_eq!(order[11..15], [(2, 3), (3, 0), (4, 0), (3, 1)]);
        assert_eq!(order[19], (4, 3));
    }

    #[test]
    fn every_tile_is_taken_once() {
        for (tiles_m, tiles_n) in [(1, 1), (1, 7), (7, 1), (5, 4), (32, 3), (33, 3), (31, 2), (64, 64), (100, 9)] {
            for band in [1, 2, 3, 16, 32] {
                let mut taken = [false; 64 * 64];
                for block in 0..tiles_m * tiles_n {
                    let (row, column) = banded(block, tiles_m, tiles_n, band);
                    assert!(row < tiles_m && column < tiles_n);
                    let slot = &mut taken[(row * tiles_n + column) as usize];
                    assert!(!*slot, "{tiles_m}x{tiles_n}, band {band}: tile ({row}, {column}) taken twice");
                    *slot = true;
                }
            }
        }
    }
}
