//! A tile of C whose K is shared by the blocks of a cluster.

use crate::svg::{At, Drawing, Fill};

/// Blocks of the cluster that is drawn.
const BLOCKS: usize = 4;

/// Each block multiplies its tiles of K, then sums its slice of the columns over all blocks.
pub fn draw() -> String {
    let mut drawing = Drawing::new(780, 330);
    let (left, part) = (150.0, 150.0);
    drawing.text((14.0, 38.0), At::Right, 13.0, "tiles of K");
    drawing.text((14.0, 112.0), At::Right, 13.0, "partial sums");
    drawing.note((14.0, 130.0), At::Right, 11.0, "f32, all columns");
    drawing.text((14.0, 250.0), At::Right, 13.0, "the tile of C");
    drawing.note((14.0, 268.0), At::Right, 11.0, "a slice a block");
    for block in 0..BLOCKS {
        let x = left + part * block as f64;
        let tiles = format!("{block}, {}, {}, …", block + BLOCKS, block + 2 * BLOCKS);
        drawing.cell((x + 1.0, 22.0), (part - 2.0, 32.0), Fill::Color(block), 13.0, &tiles);
        drawing.arrow(&[(x + part / 2.0, 54.0), (x + part / 2.0, 82.0)]);
        drawing.rect((x + 8.0, 82.0), (part - 16.0, 64.0), Fill::Outline);
        drawing.note((x + part / 2.0, 94.0), At::Middle, 11.0, &format!("block {block}"));
        let slice = (part - 32.0) / BLOCKS as f64;
        for column in 0..BLOCKS {
            let corner = (x + 16.0 + slice * column as f64, 106.0);
            drawing.rect((corner.0 + 0.5, corner.1), (slice - 1.0, 32.0), Fill::Color(block));
            if column == 1 {
                // What block 1 reads.
                drawing.on((corner.0 + slice / 2.0, 122.0), 11.0, "1");
                let to = left + part * 1.5 + (block as f64 - 1.5) * 14.0;
                drawing.arrow(&[
                    (corner.0 + slice / 2.0, 138.0),
                    (corner.0 + slice / 2.0, 172.0),
                    (to, 212.0),
                    (to, 234.0),
                ]);
            }
        }
        let name = format!("slice {block}");
        drawing.cell((x + 1.0, 234.0), (part - 2.0, 32.0), Fill::Neutral, 13.0, &name);
        drawing.note((x + part / 2.0, 280.0), At::Middle, 11.0, &format!("summed by block {block}"));
    }
    drawing.note(
        (left, 312.0),
        At::Right,
        12.0,
        "Arrows: what block 1 reads, from the shared memory of all four, always in the same order.",
    );
    drawing.finish()
}
