//! What the blocks of a cluster of tiles do for each other: load parts of the tiles that they share, and release
//! the stages that others write to.
//!
//! Block `r` of a cluster of `CM`×`CN` tiles computes tile (r mod `CM`, r / `CM`) of it. Blocks of the same column share
//! their tile of B: each loads a part of it and multicasts it to all of them. Likewise for rows and A.

use crate::catalogue::Tile;
use crate::epilogue::Output;
use crate::pipeline::Ring;
use crate::ptx::cache::{self, Policy};
use crate::ptx::wgmma::MmaElement;
use crate::ptx::{barrier, cluster, control, fence, mbarrier, sreg, tma};
use crate::tile_order::{PATCH, banded, patched};
use crate::unroll::unroll;

/// Stages that a block goes through in all, below which a grid is short ([`Clusters::let_next_in`]): between what gained
/// and what lost by being late, of the shapes of the suite on an H200.
const SHORT: u64 = 128;
/// The same where C has few rows of tiles.
const SHORT_FEW_ROWS: u64 = 60;
/// Columns of tiles below which it does not matter where blocks land: all read the same of B, and each its own of A.
const NARROW: u32 = 4;
/// Bytes of a band of A that the L2 cache can keep from one column of tiles to the next if it is told to
/// ([`Clusters::kept`]), and below which it does without being told: between what gained and what lost on an H200, whose
/// L2 cache has 60 MiB, half of them for each half of the multiprocessors.
const KEPT: core::ops::RangeInclusive<u64> = 12 << 20..=24 << 20;
/// Stages of a tile from which K is long ([`Clusters::in_patches`]).
const LONG: u32 = 128;

/// This block's place in its cluster.
#[derive(Clone, Copy)]
pub struct Neighbours<const CM: usize, const CN: usize> {
    /// Its tile's row in the cluster.
    pub row: u32,
    /// Its tile's column in the cluster.
    pub column: u32,
}

impl<const CM: usize, const CN: usize> Neighbours<CM, CN> {
    /// Blocks of the cluster.
    pub const BLOCKS: u32 = (CM * CN) as u32;
    /// Blocks that write to a block's stages, itself among them.
    pub const WRITERS: u32 = (CM + CN - 1) as u32;

    /// This block's.
    #[inline(always)]
    pub fn here() -> Self {
        let rank = if Self::BLOCKS > 1 { cluster::rank() } else { 0 };
        Neighbours { row: rank % CM as u32, column: rank / CM as u32 }
    }

    /// The rank of this block in its cluster.
    #[inline(always)]
    pub fn number(&self) -> u32 {
        self.row + CM as u32 * self.column
    }

    /// Sets up `ring`, whose stages `consumers` warpgroups of each block release, and lets the blocks of the cluster begin
    /// together. The set-up overlaps with the end of the grid before; memory may be touched from here on.
    ///
    /// With `let_next_in` the next grid's blocks begin as soon as multiprocessors are free for them, and are set up when
    /// this grid is complete; but they land wherever one is free. Without, they begin when all blocks of this grid
    /// have exited, half a microsecond later, and in the hardware's own order: sixteen that follow each other in one
    /// GPC, two on the multiprocessors of a TPC, where requests for the same lines are merged.
    ///
    /// # Safety
    /// All threads of the cluster call it, each warp converged, and nobody has used the barriers before.
    #[inline(always)]
    pub unsafe fn begin<const STAGES: usize>(&self, ring: &Ring<STAGES>, consumers: usize, let_next_in: bool) {
        // SAFETY: as promised by the caller. A stage of this block is written by itself and by the other blocks of its
        // row and column, so its consumers release it to all of them.
        unsafe {
            if sreg::thread() == 0 {
                ring.init(consumers as u32 * Self::WRITERS);
                fence::mbarrier_init();
            }
            if Self::BLOCKS > 1 { cluster::sync() } else { barrier::sync_block() }
        }
        if let_next_in {
            control::launch_dependents();
        }
        control::wait_for_prerequisites();
    }

    /// Lets the blocks of the cluster end together: none leaves while a peer may still write to its shared memory or
    /// arrive on its barriers.
    ///
    /// # Safety
    /// All threads of the cluster call it.
    #[inline(always)]
    pub unsafe fn end(&self) {
        if Self::BLOCKS > 1 {
            // SAFETY: as promised by the caller.
            unsafe { cluster::sync() };
        }
    }

    /// Loads this block's parts of the tiles of a stage, for all blocks that share them, as `kept` says. `maps` are the
    /// tensor maps of A and B, `stage` the shared addresses of their tiles; `full` completes once all bytes of both tiles have
    /// arrived here, whoever loads them. `row`, `column` and `k` say where in C, and in K, the tile begins.
    ///
    /// # Safety
    /// One thread calls it for a stage that nobody reads, in this block or in those that it writes to; the maps are
    /// valid and have the boxes that the catalogue says.
    #[inline(always)]
    // ANCHOR: load
    pub unsafe fn load<E: MmaElement>(
        &self,
        tile: Tile,
        maps: [u64; 2],
        stage: [u32; 2],
        full: u32,
        [row, column, k]: [u32; 3],
        kept: Kept,
    ) {
        let [a_map, b_map] = maps;
        let [a, b] = stage;
        let row_bytes = (tile.k * E::BYTES) as u32;
        let k = k as i32;
        // SAFETY: as promised by the caller; the bytes announced are those that land in this block's stage, the parts
        // that others multicast included.
        unsafe {
            mbarrier::arrive_expect_tx(full, (tile.m + tile.n) as u32 * row_bytes);
            if CN > 1 {
                let part = (tile.m / CN) as u32 * self.column;
                tma::load_2d_multicast(
                    a + part * row_bytes,
                    a_map,
                    k,
                    (row + part) as i32,
                    full,
                    kept.a,
                    self.same_row(),
                );
            } else {
                tma::load_2d(a, a_map, k, row as i32, full, kept.a);
            }
            if CM > 1 {
                let part = (tile.n / CM) as u32 * self.row;
                tma::load_2d_multicast(
                    b + part * row_bytes,
                    b_map,
                    k,
                    (column + part) as i32,
                    full,
                    kept.b,
                    self.same_column(),
                );
            } else {
                tma::load_2d(b, b_map, k, column as i32, full, kept.b);
            }
        }
    }
    // ANCHOR_END: load

    /// The blocks of this block's row, one bit each.
    #[inline(always)]
    fn same_row(&self) -> u16 {
        let mut mask = 0u16;
        unroll!(J in 0..CN => { mask |= 1 << (J * CM); });
        mask << self.row
    }

    /// The blocks of this block's column, one bit each.
    #[inline(always)]
    fn same_column(&self) -> u16 {
        ((1u16 << CM) - 1) << (self.column * CM as u32)
    }

    /// Whether thread `thread` of a warpgroup is one of those that release its stages: thread i does so for block i of
    /// the cluster, if that block writes here.
    #[inline(always)]
    pub fn releases(&self, thread: u32) -> bool {
        thread < Self::BLOCKS && (thread % CM as u32 == self.row || thread / CM as u32 == self.column)
    }

    /// Releases a stage of this block, whose empty barrier is `empty`, to block `thread` of the cluster.
    ///
    /// # Safety
    /// [`Neighbours::releases`] is true for this thread, whose warpgroup has read the stage; that block's barrier is
    /// initialised, counts this arrival, and its block does not exit before the cluster's barrier at the end.
    #[inline(always)]
    // ANCHOR: release
    pub unsafe fn release(&self, empty: u32, thread: u32) {
        // SAFETY: as promised by the caller.
        unsafe {
            if Self::BLOCKS > 1 {
                mbarrier::arrive_remote(cluster::map_shared(empty, thread));
            } else {
                mbarrier::arrive(empty);
            }
        }
    }
    // ANCHOR_END: release
}

/// What the L2 cache is told to do with each matrix.
#[derive(Clone, Copy)]
pub struct Kept {
    /// How it keeps what is read of A; `None` is as it does without being told.
    pub a: Option<Policy>,
    /// What is read of B.
    pub b: Option<Policy>,
    /// What is written of C.
    pub c: Option<Policy>,
}

impl Kept {
    /// All three as without being told.
    pub const UNTOLD: Kept = Kept { a: None, b: None, c: None };
}

/// The clusters of tiles that cover C. One at the edge may hold tiles outside C: they take part, their loads read zeros
/// and their stores write nothing.
#[derive(Clone, Copy)]
pub struct Clusters<const CM: usize, const CN: usize> {
    neighbours: Neighbours<CM, CN>,
    tile: Tile,
    rows: u32,
    columns: u32,
    band: u32,
    patches: bool,
}

impl<const CM: usize, const CN: usize> Clusters<CM, CN> {
    /// For tiles of `tile`, in bands of `band` rows of clusters.
    #[inline(always)]
    pub fn new(neighbours: Neighbours<CM, CN>, out: &Output, tile: Tile, band: u32) -> Self {
        let (rows, columns) = (out.m.div_ceil((tile.m * CM) as u32), out.n.div_ceil((tile.n * CN) as u32));
        Clusters { neighbours, tile, rows, columns, band, patches: false }
    }

    /// The same in patches ([`patched`]) for a grid that walks over them `step` at a time, `k_tiles` stages each: where blocks
    /// are no clusters, K is long (where it is shorter, more of A stays in the L2 from one column to the next than patches
    /// save), and `step` is a number of whole patches, so that each stays in the GPC where it began.
    #[inline(always)]
    pub fn in_patches(self, step: u32, k_tiles: u32) -> Self {
        let whole = step.is_multiple_of(PATCH * PATCH);
        Clusters { patches: Neighbours::<CM, CN>::BLOCKS == 1 && whole && k_tiles >= LONG, ..self }
    }

    /// How many there are.
    #[inline(always)]
    pub fn count(&self) -> u32 {
        self.rows * self.columns
    }

    /// Whether a grid that walks over them `step` at a time, `k_tiles` stages each, should let the next one in early
    /// ([`Neighbours::begin`]): where it takes so short that half a microsecond counts for more than where blocks land,
    /// where that does not matter, and where blocks are clusters, which the hardware places in another order. Of two to
    /// four rows of tiles with more columns, each tile of B is read by as few blocks, and it counts for more that these
    /// are side by side.
    #[inline(always)]
    // ANCHOR: let_next_in
    pub fn let_next_in(&self, step: u32, k_tiles: u32) -> bool {
        let few_rows = self.rows >= 2 && self.rows <= 4 && self.columns > self.rows;
        let short = if few_rows { SHORT_FEW_ROWS } else { SHORT };
        Neighbours::<CM, CN>::BLOCKS > 1
            || self.columns < NARROW
            || u64::from(self.count()) * u64::from(k_tiles) < u64::from(step) * short
    }
    // ANCHOR_END: let_next_in

    /// What the L2 cache should keep for a grid that walks over them `step` at a time, `k_tiles` stages each. The band of A
    /// is read again for each column of tiles, a turn later. In a turn as many bytes pass of B, and of C half of
    /// that where K is 4096: together more than the L2 holds. Where the band alone would fit, it is
    /// kept, and what is read or written once goes first.
    #[inline(always)]
    // ANCHOR: kept
    pub fn kept<E: MmaElement>(&self, step: u32, k_tiles: u32) -> Kept {
        let rows = u64::from(self.band) * (self.tile.m * CM) as u64;
        let bytes = rows * u64::from(k_tiles) * (self.tile.k * E::BYTES) as u64;
        let many_turns = u64::from(self.band) * u64::from(self.columns) > u64::from(step);
        if many_turns && KEPT.contains(&bytes) {
            Kept { a: Some(cache::evict_last()), b: Some(cache::evict_first()), c: Some(cache::evict_first()) }
        } else {
            Kept::UNTOLD
        }
    }
    // ANCHOR_END: kept

    /// Row and column of C where this block's tile of cluster `index` begins.
    #[inline(always)]
    pub fn corner(&self, index: u32) -> (u32, u32) {
        let (m, n) = if self.patches {
            patched(index, self.rows, self.columns, self.band)
        } else {
            banded(index, self.rows, self.columns, self.band)
        };
        let Neighbours { row, column } = self.neighbours;
        ((m * CM as u32 + row) * self.tile.m as u32, (n * CN as u32 + column) * self.tile.n as u32)
    }
}
