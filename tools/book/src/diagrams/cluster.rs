//! A cluster of two blocks that share their tile of B.

use crate::svg::{At, Drawing, Fill};

/// Each block loads its own tile of A, and half of B for both.
pub fn draw() -> String {
    let mut drawing = Drawing::new(740, 290);
    drawing.note((88.0, 20.0), At::Middle, 11.0, "global memory");
    drawing.note((420.0, 20.0), At::Middle, 11.0, "shared memory of the cluster's blocks");
    for block in 0..2 {
        let y = 36.0 + 128.0 * f64::from(block);
        let a = Fill::Color(1);
        drawing.cell((40.0, y + 14.0), (96.0, 36.0), a, 13.0, &format!("A, tile {block}"));
        drawing.cell(
            (40.0, y + 64.0),
            (96.0, 36.0),
            Fill::Color([0, 2][block as usize]),
            13.0,
            &format!("half {block} of B"),
        );
        drawing.rect((320.0, y), (260.0, 112.0), Fill::Outline);
        drawing.text((572.0, y + 14.0), At::Left, 12.0, &format!("block {block}"));
        drawing.cell((340.0, y + 14.0), (96.0, 36.0), a, 13.0, &format!("A, tile {block}"));
        drawing.cell((340.0, y + 64.0), (96.0, 36.0), Fill::Color(0), 13.0, "half 0 of B");
        drawing.cell((438.0, y + 64.0), (96.0, 36.0), Fill::Color(2), 13.0, "half 1 of B");
        drawing.arrow(&[(136.0, y + 32.0), (340.0, y + 32.0)]);
        drawing.arrow(&[(580.0, y + 56.0), (636.0, y + 56.0)]);
        drawing.text((644.0, y + 56.0), At::Right, 13.0, &format!("C, tile {block}"));
    }
    // Half 0 goes to both from the first block's producer, half 1 from the second's.
    drawing.arrow(&[(136.0, 118.0), (340.0, 118.0)]);
    drawing.arrow(&[(136.0, 118.0), (230.0, 118.0), (290.0, 240.0), (340.0, 240.0)]);
    drawing.arrow(&[(136.0, 246.0), (220.0, 246.0), (220.0, 272.0), (486.0, 272.0), (486.0, 264.0)]);
    drawing.arrow(&[(136.0, 246.0), (220.0, 246.0), (262.0, 156.0), (486.0, 156.0), (486.0, 136.0)]);
    drawing.note((226.0, 84.0), At::Middle, 11.0, "multicast: to both blocks");
    drawing.finish()
}
