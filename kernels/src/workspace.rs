//! Where clusters that share the K of a tile meet: which tiles of K each block takes, and the global memory
//! through which they add up.
//!
//! The K of a tile of C is shared by `parts` clusters of `splits` blocks. Within a cluster the blocks add up
//! through shared memory, after which block `rank` has the sums of slice `rank` of the tile's columns over its
//! cluster's K: a partial sum. Where there is more than one cluster, each leaves its partial sums in global
//! memory, and once all have, each adds up a share of them, in the order of the parts.
//!
//! The clusters meet slice by slice and warp by warp: the same warp has the same rows of a slice in every
//! cluster, and the same lane the same elements.
//!
//! ```text
//! meetings  u64     [tile][slice][warp of 4]                                         0 between launches
//! partials  16 byte [tile][slice][part][fragment][octet of the slice][thread of 128]  four f32 of a thread
//! ```
//!
//! A warp thus writes and reads 512 bytes side by side, and all partial sums of a slice lie together.
//!
//! Octets are dealt out to the parts as shares, which the parts sum once all have arrived. Whether they have, the word of
//! the meeting says:
//!
//! ```text
//! bits  0..16   parts that have arrived
//! bits 16..32   parts that have left: they do not come back to the word. The last sets it to zero.
//! bits 32..64   shares that were given up
//! ```
//!
//! A part waits only so long. Blocks of other grids may have the multiprocessors that those who have not arrived need,
//! and wait themselves; so it must not wait for ever. It gives its share up, which the last to arrive sums in its place:
//! that one never waits.

use crate::catalogue::{Tile, WARP, WARPGROUP};

/// Meetings about a slice: one for each warp of the warpgroup that computes it.
pub const MEETINGS_PER_SLICE: usize = WARPGROUP / WARP;

/// Loads of 16 bytes that a thread has on their way at once while it sums a share.
pub const LOADS: usize = 16;

/// The most shares that octets are dealt out in: the bits that a word has for them.
pub const MOST_SHARES: u32 = 32;

/// The most clusters that can share a tile: what 16 bits count.
pub const MOST_PARTS: u32 = (1 << 16) - 1;

/// What is added to a word by a part that arrives.
pub const ARRIVED: u64 = 1;

/// What is added to a word by a part that leaves.
pub const LEFT: u64 = 1 << 16;

/// What is added beside to the word by part `part`, one with a share, if it leaves without summing it.
#[inline(always)]
pub const fn has_given_up(part: u32) -> u64 {
    1 << (32 + part)
}

/// Parts that have arrived.
#[inline(always)]
pub const fn arrived(word: u64) -> u32 {
    word as u32 & 0xffff
}

/// Parts that have left.
#[inline(always)]
pub const fn left(word: u64) -> u32 {
    word as u32 >> 16
}

/// Shares that were given up, one bit each.
#[inline(always)]
pub const fn given_up(word: u64) -> u32 {
    (word >> 32) as u32
}

/// Shares that `pieces` octets are dealt out in where `parts` clusters share a tile: share s is of octets s, s + shares
/// and so on, and part s's.
#[inline(always)]
pub const fn shares(parts: u32, pieces: u32) -> u32 {
    let shares = if parts < pieces { parts } else { pieces };
    if shares < MOST_SHARES { shares } else { MOST_SHARES }
}

/// What clusters that share tiles need of global memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workspace {
    /// Number of the meetings, each a `u64`: zero before the launch, and after it.
    pub meetings: u64,
    /// Bytes of the partial sums, which need no value before the launch.
    pub partial_bytes: u64,
}

impl Workspace {
    /// For `tiles` tiles of C in `slices` slices, each shared by `parts` clusters. A tile that is not
    /// shared needs none.
    pub const fn new(tiles: u64, tile: Tile, slices: usize, parts: u32) -> Workspace {
        if parts <= 1 {
            return Workspace { meetings: 0, partial_bytes: 0 };
        }
        Workspace {
            meetings: tiles * (slices * MEETINGS_PER_SLICE) as u64,
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
        assert_eq!(Workspace::new(5, tile, 2, 1), Workspace { meetings: 0, partial_bytes: 0 });
        assert_eq!(Workspace::new(5, tile, 2, 3), Workspace { meetings: 40, partial_bytes: 15 * 32768 });
    }
}
