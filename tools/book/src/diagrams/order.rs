//! Which tiles of C run side by side, for bands of different heights: drawn with the kernels' own tile order.

use kernels::tile_order::banded;

use crate::svg::{At, Drawing, Fill};

/// Tiles of C each way: 8192 rows and columns in tiles of 128.
const TILES: u32 = 64;
/// Blocks that run at once: one on each multiprocessor of an H200.
const BLOCKS: u32 = 132;

/// The tiles of the first blocks, and how many rows and columns of tiles they touch.
fn first(band: u32) -> (Vec<(u32, u32)>, usize, usize) {
    let tiles: Vec<(u32, u32)> = (0..BLOCKS).map(|block| banded(block, TILES, TILES, band)).collect();
    let distinct = |of: fn(&(u32, u32)) -> u32| {
        let mut all: Vec<u32> = tiles.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all.len()
    };
    let (rows, columns) = (distinct(|tile| tile.0), distinct(|tile| tile.1));
    (tiles, rows, columns)
}

/// The tiles of the first 132 blocks.
pub fn draw() -> String {
    let cell = 2.75;
    let side = f64::from(TILES) * cell;
    let mut drawing = Drawing::new(808, 286);
    drawing.text((14.0, 18.0), At::Right, 14.0, "tiles of C that the first 132 blocks compute, of 64×64");
    for (panel, band) in [1, 8, 16, 64].into_iter().enumerate() {
        let (x0, y0) = (14.0 + panel as f64 * (side + 22.0), 40.0);
        let (tiles, rows, columns) = first(band);
        drawing.rect((x0, y0), (side, side), Fill::Neutral);
        for (row, column) in tiles {
            let corner = (x0 + f64::from(column) * cell, y0 + f64::from(row) * cell);
            drawing.rect(corner, (cell, cell), Fill::Color(1));
        }
        let name = if band == 1 { String::from("bands of 1 row") } else { format!("bands of {band} rows") };
        drawing.text((x0, y0 + side + 18.0), At::Right, 13.0, &name);
        let strips = format!("{rows} of A + {columns} of B");
        drawing.note((x0, y0 + side + 36.0), At::Right, 12.0, &strips);
        drawing.note((x0, y0 + side + 52.0), At::Right, 12.0, &format!("= {} strips read", rows + columns));
    }
    drawing.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_square_patch_touches_least() {
        let strips = |band| {
            let (tiles, rows, columns) = super::first(band);
            assert_eq!(tiles.len(), 132);
            rows + columns
        };
        assert_eq!([1, 8, 16, 64].map(strips), [3 + 64, 8 + 17, 16 + 9, 64 + 3]);
    }
}
