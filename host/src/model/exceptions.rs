//! Where measurements overrule the model.

use kernels::catalogue::{COMPILED, Config, Element, by_entry};

use super::rows_fill_lines;
use crate::problem::leading_dimension_unit;

/// A product for which the model's choice measured more than 0.5 % slower than the best, or was not measured, and the
/// best that was.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Exception {
    /// The product that was measured: M, N and K.
    pub measured: [usize; 3],
    /// Entry of the best configuration, of f16; that of another element type has the same tile, stages, cluster
    /// and splits.
    pub entry: &'static str,
    /// Clusters that share each tile.
    pub parts: u32,
    /// Its band.
    pub band: u32,
}

/// One for each shape of `benches/results/h200-f16-configurations.json` that calls for it; a test keeps the list
/// so.
pub const EXCEPTIONS: &[Exception] = &[
    exception([3072, 3072, 3072], "pingpong_f16_128x192x64_s4_c1x1", 1, 8),
    exception([1900, 1900, 1900], "persistent_f16_128x256x64_s4_c1x1", 1, 16),
    exception([5000, 5000, 5000], "wide_f16_256x200x64_s3_c1x2", 1, 10),
    exception([10000, 10000, 10000], "wide_f16_256x208x64_s3_c1x1", 1, 8),
    exception([1, 4096, 4096], "gemv_f16_8x16x1024_s2", 1, 16),
    exception([1, 28672, 8192], "gemv_f16_8x16x512_s4", 1, 16),
    exception([16, 12288, 4096], "gemv_f16_16x16x512_s2", 1, 16),
    exception([16, 4096, 14336], "split_f16_16x64x64_s20_k1", 1, 16),
    exception([64, 6144, 2048], "split_f16_64x96x64_s10_k1", 1, 16),
    exception([64, 28672, 8192], "split_f16_64x112x64_s9_k1", 1, 16),
    exception([64, 8192, 28672], "split_f16_64x128x64_s8_k2", 1, 16),
    exception([128, 6144, 2048], "split_f16_128x48x64_s9_k1", 1, 16),
    exception([128, 4096, 4096], "split_f16_128x64x64_s8_k2", 1, 16),
    exception([256, 4096, 14336], "split_f16_128x128x64_s6_k2", 1, 16),
    exception([2048, 6144, 2048], "pingpong_f16_128x192x64_s4_c1x2", 1, 16),
    exception([4096, 12288, 4096], "wide_f16_256x192x64_s3_c1x2", 1, 8),
    exception([4096, 14336, 4096], "wide_f16_256x176x64_s3_c1x2", 1, 8),
    exception([16384, 5120, 5120], "persistent_f16_128x256x64_s3_c1x1", 1, 16),
    exception([128, 65536, 1024], "pingpong_f16_128x128x64_s5_c1x1", 1, 8),
    exception([64, 100000, 512], "split_f16_64x96x64_s5_k1", 1, 8),
    exception([128, 128, 131072], "split_f16_128x64x64_s8_k1", 33, 16),
    exception([8192, 8192, 128], "persistent_f16_128x256x64_s3_c1x1", 1, 8),
    exception([16384, 16384, 512], "pingpong_f16_128x192x64_s4_c1x1", 1, 16),
    exception([1021, 1031, 1033], "persistent_f16_128x96x64_s6_c1x1", 1, 16),
    exception([2039, 2053, 2063], "persistent_f16_192x192x64_s4_c1x1", 1, 16),
    exception([1280, 1280, 1280], "split_f16_128x128x64_s6_k1", 1, 16),
    exception([9216, 9216, 9216], "wide_f16_256x160x64_s4_c1x2", 1, 8),
    exception([1200, 1200, 1200], "parts_f16_128x128x64_s6_c2x2", 1, 8),
    exception([2000, 2000, 2000], "persistent_f16_128x256x64_s4_c1x1", 1, 16),
    exception([4000, 1000, 2000], "persistent_f16_128x256x64_s4_c1x1", 1, 16),
    exception([500, 2000, 4000], "parts_f16_128x64x64_s9_c1x1", 1, 16),
    exception([16, 10000, 5000], "gemv_f16_16x16x512_s2", 1, 16),
    exception([2048, 11008, 4096], "wide_f16_256x176x64_s3_c1x2", 1, 8),
    exception([32, 11008, 4096], "split_f16_64x96x64_s10_k1", 1, 16),
    exception([16, 5120, 13824], "split_f16_16x64x64_s10_k1", 3, 16),
    exception([4, 4096, 4096], "gemv_f16_8x16x1024_s2", 1, 16),
    exception([256, 8192, 2048], "split_f16_128x128x64_s6_k1", 1, 16),
    exception([1, 5120, 5120], "gemv_f16_8x16x512_s4", 1, 16),
    exception([8, 8192, 28672], "gemv_f16_8x16x1024_s4", 1, 16),
    exception([4096, 2560, 4096], "wide_f16_256x160x64_s4_c1x2", 1, 8),
    exception([3800, 3800, 3800], "persistent_f16_128x224x64_s4_c2x1", 1, 8),
    exception([800, 3000, 1000], "pingpong_f16_128x192x64_s4_c1x2", 1, 16),
    exception([64, 3000, 1000], "split_f16_64x96x64_s10_k1", 1, 16),
    exception([16, 3000, 3000], "split_f16_16x64x64_s20_k2", 1, 16),
    exception([200, 200, 2000], "split_f16_64x64x64_s12_k2", 1, 16),
    exception([1800, 1800, 1800], "persistent_f16_256x128x64_s4_c1x2", 1, 16),
    exception([3600, 3600, 3600], "persistent_f16_192x192x64_s4_c1x1", 1, 16),
    exception([5400, 5400, 5400], "wide_f16_256x192x64_s3_c1x2", 1, 4),
    exception([2000, 2000, 6000], "persistent_f16_128x256x64_s4_c1x1", 1, 16),
    exception([32, 8960, 1536], "split_f16_16x192x64_s8_k1", 1, 16),
    exception([1, 6400, 6400], "gemv_f16_8x8x1024_s4", 1, 16),
    exception([1, 32000, 4096], "gemv_f16_8x8x2048_s4", 1, 16),
    exception([1, 4096, 14336], "gemv_f16_8x8x2048_s4", 1, 16),
    exception([8, 5120, 5120], "gemv_f16_8x16x512_s4", 1, 16),
    exception([4, 4096, 14336], "gemv_f16_8x16x1024_s2", 1, 16),
    exception([1, 12288, 4096], "gemv_f16_8x16x1024_s4", 1, 16),
    exception([16, 8192, 8192], "gemv_f16_16x32x512_s2", 1, 16),
    exception([16, 5120, 5120], "gemv_f16_16x16x512_s2", 1, 16),
    exception([16, 28672, 4096], "gemv_f16_16x32x512_s2", 1, 16),
    exception([12, 12288, 4096], "gemv_f16_16x16x512_s2", 1, 16),
    exception([1, 2048, 2048], "gemv_f16_8x8x1024_s4", 1, 16),
    exception([8, 1024, 1024], "gemv_f16_8x8x2048_s4", 1, 16),
    exception([8, 4096, 4096], "gemv_f16_8x16x1024_s4", 1, 16),
    exception([1, 8192, 8192], "gemv_f16_8x16x1024_s4", 1, 16),
];

const fn exception(measured: [usize; 3], entry: &'static str, parts: u32, band: u32) -> Exception {
    Exception { measured, entry, parts, band }
}

impl Exception {
    /// The configuration for elements of type `element`.
    pub fn config(&self, element: Element) -> Option<&'static Config> {
        let measured = by_entry(self.entry)?;
        let alike =
            |config: &&Config| Config { entry: measured.entry, element: measured.element, ..**config } == *measured;
        COMPILED.iter().filter(|config| config.element == element).find(alike)
    }

    /// Whether it holds for a product of `sizes` of elements of type `element`: M, N and K no more than an eighth
    /// larger or smaller than the measured ones, as many tiles each way, and rows of A, B and C that are aligned
    /// alike. Less than 8 rows or columns, which no tile has, are like 8.
    pub fn covers(&self, element: Element, sizes: [usize; 3]) -> bool {
        let near = sizes.into_iter().zip(self.measured).all(|(size, measured)| {
            let [size, measured] = [size, measured].map(|extent| extent.max(8));
            size.abs_diff(measured) <= measured / 8
        });
        // For loads, and for stores by TMA.
        let alignment =
            |[_, n, k]: [usize; 3]| [rows_fill_lines(element, k), n.is_multiple_of(leading_dimension_unit(element))];
        // Most often it ends here, before the catalogue is searched.
        if !near || alignment(sizes) != alignment(self.measured) {
            return false;
        }
        let Some(Config { tile, cluster, .. }) = by_entry(self.entry) else { return false };
        let grid = |[m, n, _]: [usize; 3]| [m.div_ceil(tile.m * cluster.m), n.div_ceil(tile.n * cluster.n)];
        grid(sizes) == grid(self.measured)
    }

    /// How far `sizes` are from the measured ones: the sum of the logarithms of the ratios.
    pub fn distance(&self, sizes: [usize; 3]) -> f64 {
        let ratio = |(size, measured): (usize, usize)| (size.max(1) as f64 / measured as f64).ln().abs();
        sizes.into_iter().zip(self.measured).map(ratio).sum()
    }
}
