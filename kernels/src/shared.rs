//! Where things lie in the shared memory of a block.

use crate::catalogue::{SHARED_LIMIT, Tile, WARPGROUP};

/// Bytes of an mbarrier object (PTX ISA, "Size and alignment of mbarrier object").
pub const MBARRIER_BYTES: usize = 8;

/// A ring of stages, each a tile of A and then a tile of B, followed by the staging buffers of the epilogue
/// and the barriers of each stage.
///
/// ```text
/// 0                                                     barriers()
/// | A 0 | B 0 | A 1 | B 1 | … | A S-1 | B S-1 | staging | full 0 … full S-1 | empty 0 … empty S-1 |
/// ```
///
/// A block that computes one tile has no use for the ring once it stores that tile, so its staging buffers
/// lie over the stages ([`RingLayout::with_overlaid_staging`]), behind the exchange area if there is one. Kernels whose threads all wait for each other
/// have no empty barriers ([`RingLayout::without_empty_barriers`]).
///
/// Offsets are in bytes from the start of the block's dynamic shared memory, which is aligned to 1024
/// bytes as the 128-byte swizzle requires. Every tile is a multiple of 1024 bytes, so every tile is
/// aligned too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RingLayout {
    /// Bytes of a stage's tile of A.
    pub a_bytes: usize,
    /// Bytes of a stage's tile of B.
    pub b_bytes: usize,
    /// Stages of the ring.
    pub stages: usize,
    /// Bytes of the exchange area, in which the blocks of a cluster leave their partial sums for each other. It
    /// lies over the stages.
    pub exchange_bytes: usize,
    /// Staging buffers of each warpgroup.
    pub staging_buffers: usize,
    /// Bytes of the staging buffers of all warpgroups.
    pub staging_bytes: usize,
    /// Whether the staging buffers lie over the stages and not behind them.
    pub staging_overlaid: bool,
    /// Whether each stage has an empty barrier beside its full one.
    pub empty_barriers: bool,
}

/// Columns of the slabs in which a tile of `n` columns, a multiple of eight, goes through a staging buffer: 64 where they
/// divide it, else 32; else 16, or of a wide tile half, or from 200 on all.
///
/// Such a half is an odd multiple of eight columns, and its rows an odd number of 16-byte chunks. They need no swizzle: eight
/// rows below each other begin in eight different places of 128 bytes; so do those of 200 columns, and those of 208 in
/// four. TMA stores few long rows faster than twice as many short ones (see the worklog).
pub const fn slab_columns(n: usize) -> usize {
    if n.is_multiple_of(64) {
        64
    } else if n.is_multiple_of(32) {
        32
    } else if n >= 200 {
        n
    } else if n > 128 {
        n / 2
    } else {
        16
    }
}

/// Rows of a slab: those of one wgmma.
pub const SLAB_ROWS: usize = 64;

/// Staging buffers that a warpgroup has where a whole fragment does not fit: one is written while the other is read.
pub const STAGING_BUFFERS: usize = 2;

impl RingLayout {
    /// The layout for elements of `element_bytes` bytes.
    pub const fn new(element_bytes: usize, tile: Tile, stages: usize) -> RingLayout {
        let a_bytes = tile.m * tile.k * element_bytes;
        let b_bytes = tile.n * tile.k * element_bytes;
        assert!(
            a_bytes.is_multiple_of(1024) && b_bytes.is_multiple_of(1024),
            "tiles must keep each other aligned to 1024 bytes"
        );
        RingLayout {
            a_bytes,
            b_bytes,
            stages,
            exchange_bytes: 0,
            staging_buffers: 0,
            staging_bytes: 0,
            staging_overlaid: false,
            empty_barriers: true,
        }
    }

    /// A layout without stages: an exchange area of `bytes` bytes.
    pub const fn exchange(bytes: usize) -> RingLayout {
        RingLayout {
            a_bytes: 0,
            b_bytes: 0,
            stages: 0,
            exchange_bytes: bytes,
            staging_buffers: 0,
            staging_bytes: 0,
            staging_overlaid: true,
            empty_barriers: false,
        }
    }

    /// The same with staging buffers behind the stages, for `warpgroups` warpgroups that each have `fragments`
    /// fragments of `n` columns: as many as hold all of that if they fit beside the ring, else as many as hold one
    /// fragment, else [`STAGING_BUFFERS`], else one.
    pub const fn with_staging(self, warpgroups: usize, fragments: usize, element_bytes: usize, n: usize) -> RingLayout {
        let slabs = n / slab_columns(n);
        let all = self.with_buffers(warpgroups, fragments * slabs, element_bytes, n);
        let one = self.with_buffers(warpgroups, slabs, element_bytes, n);
        let some = self.with_buffers(warpgroups, STAGING_BUFFERS, element_bytes, n);
        if fragments * slabs > STAGING_BUFFERS && all.bytes() <= SHARED_LIMIT {
            all
        } else if slabs > STAGING_BUFFERS && one.bytes() <= SHARED_LIMIT {
            one
        } else if some.bytes() <= SHARED_LIMIT {
            some
        } else {
            self.with_buffers(warpgroups, 1, element_bytes, n)
        }
    }

    /// The same with [`STAGING_BUFFERS`] staging buffers for each of `warpgroups` warpgroups whose fragments have `n`
    /// columns, in the memory of the stages.
    pub const fn with_overlaid_staging(self, warpgroups: usize, element_bytes: usize, n: usize) -> RingLayout {
        RingLayout { staging_overlaid: true, ..self.with_buffers(warpgroups, STAGING_BUFFERS, element_bytes, n) }
    }

    const fn with_buffers(self, warpgroups: usize, buffers: usize, element_bytes: usize, n: usize) -> RingLayout {
        let bytes = SLAB_ROWS * slab_columns(n) * element_bytes;
        RingLayout { staging_buffers: buffers, staging_bytes: warpgroups * buffers * bytes, ..self }
    }

    /// The same with an exchange area for the f32 accumulators of `tile`, where `splits` blocks share it.
    pub const fn with_exchange(self, tile: Tile, splits: usize) -> RingLayout {
        RingLayout { exchange_bytes: if splits > 1 { tile.m * tile.n * 4 } else { 0 }, ..self }
    }

    /// Bytes from one octet of accumulators of a fragment to the next in the exchange area: four f32 of each of
    /// the 128 threads of a warpgroup, so that neighbouring threads write side by side.
    pub const fn octet_bytes(&self) -> u32 {
        WARPGROUP as u32 * 16
    }

    /// Offset in the exchange area, for tiles with `octets` octets of columns, of the four accumulators that
    /// thread `thread` has of octet `octet` of fragment `fragment`.
    pub const fn exchanged(&self, octets: usize, thread: u32, fragment: usize, octet: usize) -> u32 {
        (fragment * octets + octet) as u32 * self.octet_bytes() + thread * 16
    }

    /// The same with full barriers only.
    pub const fn without_empty_barriers(self) -> RingLayout {
        RingLayout { empty_barriers: false, ..self }
    }

    /// Bytes of one stage: what its full barrier expects.
    pub const fn stage_bytes(&self) -> usize {
        self.a_bytes + self.b_bytes
    }

    /// Offset of the tile of A in stage `stage`.
    pub const fn a(&self, stage: usize) -> usize {
        stage * self.stage_bytes()
    }

    /// Offset of the tile of B in stage `stage`.
    pub const fn b(&self, stage: usize) -> usize {
        self.a(stage) + self.a_bytes
    }

    /// Offset of the staging buffers.
    pub const fn staging(&self) -> usize {
        if self.staging_overlaid { self.exchange_bytes } else { self.stages * self.stage_bytes() }
    }

    /// Offset of the first barrier.
    pub const fn barriers(&self) -> usize {
        let (stages, staging) = (self.stages * self.stage_bytes(), self.staging() + self.staging_bytes);
        if stages > staging { stages } else { staging }
    }

    /// Offset of the barrier that says "stage `stage` is full".
    pub const fn full(&self, stage: usize) -> usize {
        self.barriers() + stage * MBARRIER_BYTES
    }

    /// Offset of the barrier that says "stage `stage` is empty", where there are such barriers.
    pub const fn empty(&self, stage: usize) -> usize {
        self.full(self.stages) + stage * MBARRIER_BYTES
    }

    /// Bytes of the whole.
    pub const fn bytes(&self) -> usize {
        if self.empty_barriers { self.empty(self.stages) } else { self.full(self.stages) }
    }
}
