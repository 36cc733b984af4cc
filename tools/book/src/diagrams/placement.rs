//! Which GPC computes which tile of C: drawn with the kernels' own tile orders.

use kernels::tile_order::{banded, patched};

use crate::svg::{At, Drawing, Fill};

/// Tiles of C in a turn: rows in a band, and columns.
const ROWS: u32 = 16;
const COLUMNS: u32 = 8;
const BLOCKS: u32 = ROWS * COLUMNS;
/// Blocks that follow each other in a GPC of an idle H200.
const PER_GPC: u32 = 16;
/// Rows of A and of B that a tile of 128×256 reads.
const TILE: [u32; 2] = [128, 256];

/// The GPC of each block, and its tile.
struct Placement {
    name: &'static str,
    gpcs: Vec<u32>,
    order: fn(u32, u32, u32, u32) -> (u32, u32),
}

impl Placement {
    fn tile(&self, block: u32) -> (u32, u32) {
        (self.order)(block, ROWS, COLUMNS, ROWS)
    }

    /// Rows of A and B that a GPC reads, in the mean over GPCs.
    fn rows_read(&self) -> u32 {
        let gpcs = BLOCKS / PER_GPC;
        let read_by = |gpc: u32| {
            let tiles: Vec<_> =
                (0..BLOCKS).filter(|&block| self.gpcs[block as usize] == gpc).map(|block| self.tile(block)).collect();
            let rows = (0..ROWS).filter(|row| tiles.iter().any(|tile| tile.0 == *row)).count() as u32;
            let columns = (0..COLUMNS).filter(|column| tiles.iter().any(|tile| tile.1 == *column)).count() as u32;
            rows * TILE[0] + columns * TILE[1]
        };
        (0..gpcs).map(read_by).sum::<u32>() / gpcs
    }
}

fn placements() -> [Placement; 3] {
    let in_order: Vec<u32> = (0..BLOCKS).map(|block| block / PER_GPC).collect();
    // Fisher and Yates, with a congruential generator: any disorder will do.
    let mut shuffled = in_order.clone();
    let mut state = 1u32;
    for i in (1..shuffled.len()).rev() {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        shuffled.swap(i, (state >> 16) as usize % (i + 1));
    }
    [
        Placement { name: "wherever one is free", gpcs: shuffled, order: banded },
        Placement { name: "in the hardware's order", gpcs: in_order.clone(), order: banded },
        Placement { name: "the same, in patches", gpcs: in_order, order: patched },
    ]
}

/// One turn of 128 tiles in three ways.
pub fn draw() -> String {
    let (width, height) = (25.0, 12.5);
    let (panel_width, panel_height) = (f64::from(COLUMNS) * width, f64::from(ROWS) * height);
    let mut drawing = Drawing::new(704, 292);
    drawing.text((14.0, 18.0), At::Right, 14.0, "a turn of 16×8 tiles of C, a colour for each GPC that computes them");
    for (panel, placement) in placements().iter().enumerate() {
        let (x0, y0) = (14.0 + panel as f64 * (panel_width + 32.0), 40.0);
        for block in 0..BLOCKS {
            let (row, column) = placement.tile(block);
            let corner = (x0 + f64::from(column) * width, y0 + f64::from(row) * height);
            drawing.rect(corner, (width, height), Fill::Color(placement.gpcs[block as usize] as usize));
        }
        drawing.text((x0, y0 + panel_height + 20.0), At::Right, 13.0, placement.name);
        let read = format!("a GPC reads {} rows of A and B", placement.rows_read());
        drawing.note((x0, y0 + panel_height + 38.0), At::Right, 12.0, &read);
    }
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_reads_less_and_patches_least() {
        let [scattered, columns, patches] = placements().map(|placement| placement.rows_read());
        assert_eq!(columns, 16 * 128 + 256);
        assert_eq!(patches, 4 * 128 + 4 * 256);
        assert!(scattered > columns && scattered <= 16 * 128 + 8 * 256, "{scattered}");
    }
}
