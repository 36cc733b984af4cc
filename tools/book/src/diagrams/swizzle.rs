//! Where TMA puts the 16-byte chunks of a tile, and what that is good for: drawn with the swizzle of the catalogue.

use kernels::catalogue::Swizzle;

use crate::svg::{At, Drawing, Fill};

/// Bytes that a swizzle moves as one.
const CHUNK: usize = 16;
/// Bytes that shared memory delivers at once: 32 banks of four.
const BANKS: usize = 128;
/// Rows after which the pattern repeats.
const ROWS: usize = 8;

/// The row of a tile and the chunk of that row which lie at each 16 bytes of shared memory, for as many rows of
/// `swizzle` as the pattern has.
fn lying(swizzle: Swizzle) -> Vec<(usize, usize)> {
    let (row_bytes, total) = (swizzle.span(), ROWS * BANKS);
    let mut lying = vec![(usize::MAX, usize::MAX); total / CHUNK];
    for offset in (0..total).step_by(CHUNK) {
        lying[swizzle.apply(offset) / CHUNK] = (offset / row_bytes, offset % row_bytes / CHUNK);
    }
    lying
}

/// The banks, in groups of four, from which the same chunk of eight neighbouring rows is read.
fn groups(swizzle: Swizzle, span: usize, chunk: usize) -> Vec<usize> {
    (0..ROWS).map(|row| swizzle.apply(row * span + chunk * CHUNK) % BANKS / CHUNK).collect()
}

/// The 128-byte swizzle beside no swizzle.
pub fn one() -> String {
    let (cell, left, top) = (38.0, 62.0, 74.0);
    let mut drawing = Drawing::new(780, 476);
    let chunks = BANKS / CHUNK;
    for (panel, swizzle) in [Swizzle::None, Swizzle::B128].into_iter().enumerate() {
        let x0 = left + panel as f64 * 386.0;
        let title = if panel == 0 { "without swizzle" } else { "128-byte swizzle" };
        drawing.text((x0, 18.0), At::Right, 15.0, title);
        drawing.note((x0, 40.0), At::Right, 12.0, "banks of shared memory, four a column");
        for group in 0..chunks {
            let x = x0 + (group as f64 + 0.5) * cell;
            drawing.note((x, top - 12.0), At::Middle, 10.0, &format!("{}–{}", 4 * group, 4 * group + 3));
        }
        for row in 0..ROWS {
            let y = top + row as f64 * cell;
            drawing.note((x0 - 6.0, y + cell / 2.0), At::Left, 11.0, &format!("row {row}"));
            for chunk in 0..chunks {
                let at = swizzle.apply(row * BANKS + chunk * CHUNK);
                let x = x0 + (at % BANKS / CHUNK) as f64 * cell;
                let y = top + (at / BANKS) as f64 * cell;
                let fill = if chunk == 2 { Fill::Color(1) } else { Fill::Neutral };
                drawing.cell((x + 1.0, y + 1.0), (cell - 2.0, cell - 2.0), fill, 13.0, &chunk.to_string());
            }
        }
        let mut used = groups(swizzle, BANKS, 2);
        used.sort_unstable();
        used.dedup();
        let y = top + ROWS as f64 * cell + 22.0;
        let verdict = format!("chunk 2 of eight rows: {} of {chunks} groups of banks,", used.len());
        drawing.text((x0, y), At::Right, 12.0, &verdict);
        let times = ROWS / used.len();
        let cost = if times == 1 { String::from("read at once") } else { format!("read in {times} turns") };
        drawing.text((x0, y + 18.0), At::Right, 12.0, &cost);
    }
    let key = [
        "A number is a 16-byte chunk of its row: eight elements of K.",
        "A matrix fragment of 8×8 elements is one chunk of eight rows.",
    ];
    for (line, text) in (0..).zip(key) {
        drawing.note((left, 442.0 + 18.0 * f64::from(line)), At::Right, 12.0, text);
    }
    drawing.finish()
}

/// The patterns of all swizzles: which chunk of which row lies where.
pub fn all() -> String {
    let (cell, top) = (30.0, 74.0);
    let mut drawing = Drawing::new(812, 352);
    for (panel, swizzle) in [Swizzle::B128, Swizzle::B64, Swizzle::B32].into_iter().enumerate() {
        let x0 = 14.0 + panel as f64 * 268.0;
        let per_row = swizzle.span() / CHUNK;
        drawing.text((x0, 18.0), At::Right, 15.0, &format!("{}-byte swizzle", swizzle.span()));
        let k = swizzle.span() / 2;
        drawing.note((x0, 40.0), At::Right, 12.0, &format!("rows of {k} elements (BLOCK_K {k})"));
        for (at, (row, chunk)) in lying(swizzle).into_iter().enumerate() {
            let corner = (x0 + (at * CHUNK % BANKS / CHUNK) as f64 * cell, top + (at * CHUNK / BANKS) as f64 * cell);
            let text = format!("{row}.{chunk}");
            drawing.cell((corner.0 + 1.0, corner.1 + 1.0), (cell - 2.0, cell - 2.0), Fill::Color(chunk), 10.0, &text);
        }
        drawing.note((x0, top - 12.0), At::Right, 11.0, &format!("row.chunk, {per_row} chunks a row"));
    }
    drawing.note(
        (14.0, 336.0),
        At::Right,
        12.0,
        "Each line is 128 bytes of shared memory. Colours are the chunks of a row.",
    );
    drawing.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fragment_is_read_without_conflict() {
        for chunk in 0..8 {
            let mut used = groups(Swizzle::B128, 128, chunk);
            used.sort_unstable();
            assert_eq!(used, [0, 1, 2, 3, 4, 5, 6, 7], "chunk {chunk}");
            assert_eq!(groups(Swizzle::None, 128, chunk), [chunk; 8]);
        }
        // Shorter rows: eight of them lie in fewer lines of 128 bytes, and still in eight groups.
        for swizzle in [Swizzle::B64, Swizzle::B32] {
            for chunk in 0..swizzle.span() / CHUNK {
                let mut used = groups(swizzle, swizzle.span(), chunk);
                used.sort_unstable();
                assert_eq!(used, [0, 1, 2, 3, 4, 5, 6, 7], "{swizzle:?}, chunk {chunk}");
            }
        }
    }

    #[test]
    fn every_chunk_lies_somewhere() {
        for swizzle in [Swizzle::B128, Swizzle::B64, Swizzle::B32] {
            let mut all = lying(swizzle);
            all.sort_unstable();
            let per_row = swizzle.span() / CHUNK;
            let expected: Vec<_> = (0..64).map(|i| (i / per_row, i % per_row)).collect();
            assert_eq!(all, expected, "{swizzle:?}");
        }
    }
}
