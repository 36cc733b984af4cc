//! Tiles of C with the slices of A and B that they need, to scale: from the catalogue.

use kernels::catalogue::{WARPGROUP, by_entry};

use crate::svg::{At, Drawing, Fill};

/// The configurations whose tiles are compared.
const ENTRIES: [&str; 3] = ["v3_f16_128x128x64_s2", "v4_f16_128x192x64_s4", "v5_f16_128x256x64_s4"];
/// Pixels of an element.
const SCALE: f64 = 0.8;

/// One tile each of v3, v4 and v5.
pub fn draw() -> String {
    let mut drawing = Drawing::new(790, 248);
    let (mut x0, y0) = (14.0, 90.0);
    for config in ENTRIES.iter().filter_map(|entry| by_entry(entry)) {
        let tile = config.tile;
        let (m, n, k) = (tile.m as f64 * SCALE, tile.n as f64 * SCALE, tile.k as f64 * SCALE);
        drawing.text(
            (x0, 18.0),
            At::Right,
            14.0,
            &format!("{}: {}×{}×{}", config.kernel.name(), tile.m, tile.n, tile.k),
        );
        let c = (x0 + k + 6.0, y0 + 6.0);
        // B stands above C on its side: its rows are C's columns.
        drawing.cell((c.0, y0 - k), (n, k), Fill::Color(0), 13.0, "B");
        drawing.cell((x0, c.1), (k, m), Fill::Color(1), 13.0, "A");
        let groups = config.roles().consumer_warpgroups;
        let share = m / groups as f64;
        for group in 0..groups {
            let name = if groups == 1 { String::from("C") } else { format!("C, warpgroup {group}") };
            let corner = (c.0, c.1 + share * group as f64);
            drawing.cell(corner, (n, share - 1.0), Fill::Color([6, 3][group % 2]), 13.0, &name);
        }
        // Operations of a tile and a slice of K over the bytes of that slice.
        let bytes = ((tile.m + tile.n) * tile.k * config.element.bytes()) as f64;
        let per_byte = (2 * tile.m * tile.n * tile.k) as f64 / bytes;
        drawing.text((x0, c.1 + m + 18.0), At::Right, 12.0, &format!("{per_byte:.0} operations a byte loaded"));
        let accumulators = format!("{} accumulators × {} threads", config.accumulators(), groups * WARPGROUP);
        drawing.note((x0, c.1 + m + 36.0), At::Right, 12.0, &accumulators);
        x0 += (k + n + 40.0).max(240.0);
    }
    drawing.finish()
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_entry_is_in_the_catalogue() {
        assert!(super::ENTRIES.iter().all(|entry| kernels::catalogue::by_entry(entry).is_some()));
    }
}
