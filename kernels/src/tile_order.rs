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

/// Rows and columns of a patch ([`patched`]): sixteen tiles, as many as an H200 has multiprocessors in a GPC.
pub const PATCH: u32 = 4;

/// As [`banded`], but in a band the tiles are taken in patches of [`PATCH`]×[`PATCH`], down each patch and then down the band.
/// A band whose rows are no multiple of that is as [`banded`] has it.
///
/// ```text
///   columns of tiles
/// ┌ 0 4  8 12 │ 32 …
/// │ 1 5  9 13 │ 33 …
/// │ 2 6 10 14 │         band = 8
/// │ 3 7 11 15 │
/// │16 …       │
/// ```
///
/// Sixteen tiles of a column read one tile of B and sixteen of A; of a patch, four and four.
#[inline(always)]
// ANCHOR: patched
pub const fn patched(block: u32, tiles_m: u32, tiles_n: u32, band: u32) -> (u32, u32) {
    let per_band = band * tiles_n;
    let first_row = block / per_band * band;
    let rows = if tiles_m - first_row < band { tiles_m - first_row } else { band };
    if !rows.is_multiple_of(PATCH) {
        return banded(block, tiles_m, tiles_n, band);
    }
    let per_strip = rows * PATCH;
    let (first_column, in_strip) = (block % per_band / per_strip * PATCH, block % per_band % per_strip);
    let columns = if tiles_n - first_column < PATCH { tiles_n - first_column } else { PATCH };
    let (patch, in_patch) = (in_strip / (PATCH * columns), in_strip % (PATCH * columns));
    (first_row + patch * PATCH + in_patch % PATCH, first_column + in_patch / PATCH)
}
// ANCHOR_END: patched

#[cfg(test)]
mod tests {
    use super::{banded, patched};

    #[test]
    fn the_picture_is_true() {
        let order: [(u32, u32); 20] = core::array::from_fn(|block| banded(block as u32, 5, 4, 3));
        assert_eq!(order[..4], [(0, 0), (1, 0), (2, 0), (0, 1)]);
        assert_eq!(order[11..15], [(2, 3), (3, 0), (4, 0), (3, 1)]);
        assert_eq!(order[19], (4, 3));
    }

    #[test]
    fn patches_go_down_the_band() {
        let order: [(u32, u32); 80] = core::array::from_fn(|block| patched(block as u32, 8, 10, 8));
        assert_eq!(order[..6], [(0, 0), (1, 0), (2, 0), (3, 0), (0, 1), (1, 1)]);
        assert_eq!((order[15], order[16], order[32]), ((3, 3), (4, 0), (0, 4)));
        // Two columns are left for the last patches.
        assert_eq!((order[64], order[71], order[72], order[79]), ((0, 8), (3, 9), (4, 8), (7, 9)));
        // Rows that fill no patch.
        assert_eq!(patched(7, 5, 4, 3), banded(7, 5, 4, 3));
    }

    #[test]
    fn every_tile_is_taken_once() {
        for order in [banded, patched] {
            takes_every_tile_once(order);
        }
    }

    fn takes_every_tile_once(order: fn(u32, u32, u32, u32) -> (u32, u32)) {
        for (tiles_m, tiles_n) in [(1, 1), (1, 7), (7, 1), (5, 4), (32, 3), (33, 3), (31, 2), (64, 64), (100, 9)] {
            for band in [1, 2, 3, 8, 16, 32] {
                let mut taken = [false; 64 * 64];
                for block in 0..tiles_m * tiles_n {
                    let (row, column) = order(block, tiles_m, tiles_n, band);
                    assert!(row < tiles_m && column < tiles_n);
                    let slot = &mut taken[(row * tiles_n + column) as usize];
                    assert!(!*slot, "{tiles_m}x{tiles_n}, band {band}: tile ({row}, {column}) taken twice");
                    *slot = true;
                }
            }
        }
    }
}
