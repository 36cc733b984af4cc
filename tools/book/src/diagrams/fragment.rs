//! Which thread holds which accumulator.

use crate::svg::{At, Drawing, Fill};

/// Row and column, in a warp's 16 rows, of accumulator `register` of lane `lane`, as `Mma::Accumulators` in
/// `kernels/src/ptx/wgmma.rs` says.
fn place(lane: usize, register: usize) -> (usize, usize) {
    (lane / 4 + 8 * (register % 4 / 2), 8 * (register / 4) + 2 * (lane % 4) + register % 2)
}

/// The first 16 columns of a warp's 16 rows.
pub fn draw() -> String {
    let (left, top, wide, high) = (62.0, 64.0, 43.0, 21.0);
    let mut drawing = Drawing::new(780, 446);
    drawing.text((left, 18.0), At::Right, 14.0, "lane.register of warp 0's rows, first 16 columns");
    for column in 0..16 {
        drawing.note((left + (column as f64 + 0.5) * wide, top - 12.0), At::Middle, 11.0, &column.to_string());
    }
    for lane in 0..32 {
        for register in 0..8 {
            let (row, column) = place(lane, register);
            let corner = (left + column as f64 * wide, top + row as f64 * high);
            let fill = if lane == 5 { Fill::Color(1) } else { Fill::Neutral };
            drawing.cell(
                (corner.0 + 0.5, corner.1 + 0.5),
                (wide - 1.0, high - 1.0),
                fill,
                10.0,
                &format!("{lane}.{register}"),
            );
        }
    }
    for row in 0..16 {
        drawing.note((left - 8.0, top + (f64::from(row) + 0.5) * high), At::Left, 11.0, &format!("row {row}"));
    }
    let y = top + 16.0 * high + 18.0;
    drawing.note(
        (left, y),
        At::Right,
        12.0,
        "Coloured: lane 5. Two neighbours at a time, 4 lanes make 8 columns; warps 1 to 3 hold rows 16, 32 and 48 on.",
    );
    drawing.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_element_is_held_once() {
        let mut all: Vec<_> =
            (0..32).flat_map(|lane| (0..8).map(move |register| super::place(lane, register))).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!((all.len(), all.last()), (16 * 16, Some(&(15, 15))));
    }
}
