//! Where clusters that share the K of a tile meet: which tiles of K each block takes, and the global memory
//! through which they add up.
//!
//! The K of a tile of C is shared by `parts` clusters of `splits` blocks. Within a cluster the blocks add up
//! through shared memory, after which block `rank` has the sums of slice `rank` of the tile's columns over its
//! cluster's K: a partial sum. Where there is more than one cluster, each leaves its partial sums in global
//! memory, and counts; whoever counts last adds all of them up, in their order.
//!
//! The clusters meet slice by slice and warp by warp: the same warp has the same rows of a slice in every
//! cluster, and the same lane the same elements.
//!
//! ```text
//! counters  u32     [tile][rank][warp of 4]                                          0 between launches
//! partials  16 byte [tile][rank][part][fragment][octet of the slice][thread of 128]  four f32 of a thread
//! ```
//!
//! A warp thus writes and reads 512 bytes side by side, and all partial sums of a slice lie together.

use crate::catalogue::{Tile, WARP, WARPGROUP};

/// Counters of a slice: one for each warp of the warpgroup that computes it.
pub const COUNTERS_PER_SLICE: usize = WARPGROUP / WARP;

/// What clusters that share tiles need of global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workspace {
    /// Number of the counters, each a `u32`: zero before the launch, and after it.
    pub counters: u64,
    /// Bytes of the partial sums, which need no value before the launch.
    pub partial_bytes: u64,
}

impl Workspace {
    /// For `tiles` tiles of C in slices of `splits` blocks, each shared by `parts` clusters. A tile that is not
    /// shared needs none.
    pub const fn new(tiles: u64, tile: Tile, splits: usize, parts: u32) -> Workspace {
        if parts <= 1 {
            return Workspace { counters: 0, partial_bytes: 0 };
        }
        Workspace {
            counters: tiles * (splits * COUNTERS_PER_SLICE) as u64,
            partial_bytes: tiles * parts as u64 * (tile.m * tile.n * 4) as u64,
        }
    }
}

/// How many of `k_tiles` tiles of K block `number` of `blocks` takes: number `number`, and then each that is `blocks`
/// further. All take as many as the others, or one more; with fewer tiles than blocks, the last have none.
///
/// So those who share a tile of C read side by side, lines of the same rows of A and B at about the same time. Where each has
/// a stretch of K of its own, with rows a power of two long, the addresses of all that is read at once differ in
/// few bits only.
#[inline(always)]
// ANCHOR: share
pub const fn share(k_tiles: u32, number: u32, blocks: u32) -> u32 {
    k_tiles / blocks + (number < k_tiles % blocks) as u32
}
// ANCHOR_END: share

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_k() {
        for k_tiles in [0, 1, 2, 7, 8, 9, 33, 100] {
            for blocks in [1, 2, 3, 8, 33] {
                for number in 0..blocks {
                    let taken = (number..k_tiles).step_by(blocks as usize).count();
                    assert_eq!(share(k_tiles, number, blocks) as usize, taken, "{k_tiles} tiles, {number} of {blocks}");
                }
            }
        }
    }

    #[test]
    fn tiles_that_are_not_shared_need_nothing() {
        let tile = Tile { m: 128, n: 64, k: 64 };
        assert_eq!(Workspace::new(5, tile, 2, 1), Workspace { counters: 0, partial_bytes: 0 });
        assert_eq!(Workspace::new(5, tile, 2, 3), Workspace { counters: 40, partial_bytes: 15 * 32768 });
    }
}
