//! The catalogue: every kernel configuration, described once.
//!
//! Tile sizes, stages, threads, barrier counts, shared-memory bytes and register budgets are derived
//! here and nowhere else. Device code, `build.rs`, the host library, the simulator and the tests all
//! read these rows.

use crate::matmul::{ceiling, gemv, parts, persistent, pingpong, split, v0, v1, v2, v3, v4, v5, wide};
use crate::shared::{RingLayout, SLAB_ROWS, slab_columns};
use crate::workspace::Workspace;

/// Shared memory that one block may use on compute capability 9.0, in bytes (227 KiB; CUDA C++
/// Programming Guide, table of technical specifications per compute capability).
pub const SHARED_LIMIT: usize = 227 * 1024;
/// Shared memory of one multiprocessor on compute capability 9.0, in bytes (228 KiB). Each resident
/// block takes [`SHARED_RESERVED`] bytes of it besides its own.
pub const SHARED_PER_MULTIPROCESSOR: usize = 228 * 1024;
/// Shared memory that the system reserves for each resident block, in bytes.
pub const SHARED_RESERVED: usize = 1024;
/// Registers that one thread can address (PTX allocates in steps of eight, and register 255 is RZ).
pub const REGISTERS_PER_THREAD: usize = 255;
/// Registers that a kernel needs beside its accumulators: descriptors, addresses, phases, bounds.
/// What ptxas 13.0.88 takes beside them in every configuration of v3, v4 and v5.
pub const REGISTERS_OVERHEAD: usize = 26;
/// Registers in each quarter of a multiprocessor's register file, counted per lane: 16 Ki / 32.
pub const REGISTERS_PER_QUARTER: usize = 512;
/// Warps that a multiprocessor holds at once on compute capability 9.0 (CUDA C++ Programming Guide, table of
/// technical specifications per compute capability).
pub const WARPS_PER_MULTIPROCESSOR: usize = 64;
/// Threads of a warp.
pub const WARP: usize = 32;
/// Threads of a warpgroup: four warps, the first of which has an index that is a multiple of four.
pub const WARPGROUP: usize = 128;

/// Type of the elements of A, B and C. Products are accumulated in f32 for all of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Element {
    /// IEEE 754 binary16: PTX `.f16`.
    F16,
    /// bfloat16: PTX `.bf16`.
    Bf16,
}

impl Element {
    /// Every element type that has kernels.
    pub const ALL: [Element; 2] = [Element::F16, Element::Bf16];

    /// Bytes of one element.
    pub const fn bytes(self) -> usize {
        match self {
            Element::F16 | Element::Bf16 => 2,
        }
    }

    /// The name used in entry names, on the command line and in results: `f16`, `bf16`.
    pub const fn name(self) -> &'static str {
        match self {
            Element::F16 => "f16",
            Element::Bf16 => "bf16",
        }
    }

    /// The extent in K of one MMA instruction: 32 bytes of K whatever the type.
    pub const fn mma_k(self) -> usize {
        32 / self.bytes()
    }
}

/// The output tile of one block and the slice of K that one stage holds, in elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Tile {
    /// Rows of C that a block computes.
    pub m: usize,
    /// Columns of C that a block computes.
    pub n: usize,
    /// Extent in K of one pipeline stage; of gemv, of what a block reads in a round.
    pub k: usize,
}

impl Tile {
    /// Whether the MMAs compute Cᵀ = B·Aᵀ of this tile. wgmma always has 64 rows; with fewer in the tile, its columns
    /// take their place, of which there may be as few as 8.
    pub const fn is_swapped(&self) -> bool {
        self.m < 64
    }

    /// Rows of what the MMAs compute: rows of the tile or, where it is swapped, columns.
    pub const fn mma_rows(&self) -> usize {
        if self.is_swapped() { self.n } else { self.m }
    }

    /// Columns of what the MMAs compute.
    pub const fn mma_columns(&self) -> usize {
        if self.is_swapped() { self.m } else { self.n }
    }
}

/// How TMA permutes 16-byte chunks of a tile in shared memory so that wgmma reads it without bank
/// conflicts. The span is the number of bytes of one row of the pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Swizzle {
    /// No permutation.
    None,
    /// 32-byte rows: address bit 4 is XORed with bit 7.
    B32,
    /// 64-byte rows: bits 4–5 are XORed with bits 7–8.
    B64,
    /// 128-byte rows: bits 4–6 are XORed with bits 7–9.
    B128,
}

impl Swizzle {
    /// The swizzle whose span is exactly `bytes`.
    pub const fn of_row_bytes(bytes: usize) -> Swizzle {
        match bytes {
            128 => Swizzle::B128,
            64 => Swizzle::B64,
            32 => Swizzle::B32,
            _ => Swizzle::None,
        }
    }

    /// Bytes of one row of the pattern; 0 for none.
    pub const fn span(self) -> usize {
        match self {
            Swizzle::None => 0,
            Swizzle::B32 => 32,
            Swizzle::B64 => 64,
            Swizzle::B128 => 128,
        }
    }

    /// The two-bit code in a wgmma matrix descriptor (PTX ISA, "Matrix Descriptor Format").
    pub const fn descriptor_code(self) -> u64 {
        match self {
            Swizzle::None => 0,
            Swizzle::B128 => 1,
            Swizzle::B64 => 2,
            Swizzle::B32 => 3,
        }
    }

    /// Where the byte at linear offset `offset` of a tile lies once swizzled. The tile must start at a
    /// multiple of eight rows of the pattern (1024 bytes for the 128-byte swizzle).
    // ANCHOR: swizzle
    pub const fn apply(self, offset: usize) -> usize {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::B32 => 0b1,
            Swizzle::B64 => 0b11,
            Swizzle::B128 => 0b111,
        };
        offset ^ (((offset >> 7) & mask) << 4)
    }
    // ANCHOR_END: swizzle
}

/// A kernel of the ladder. Each has one file under `kernels/src/matmul/`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Kernel {
    /// TMA loads, `ldmatrix` and `mma.sync`.
    V0,
    /// `wgmma` in place of `mma.sync`.
    V1,
    /// A ring of stages, filled ahead; block-wide barriers.
    V2,
    /// Warp-specialised: one TMA producer warp, one consumer warpgroup, full and empty barriers.
    V3,
    /// The pipeline as a type; one wgmma group in flight.
    V4,
    /// Two consumer warpgroups that share each tile of B.
    V5,
    /// Few rows of A, and B straight from global memory into registers.
    Gemv,
    /// A cluster of blocks shares the K of each tile.
    Split,
    /// Neighbouring tiles a cluster, and the K of each shared by clusters.
    Parts,
    /// Blocks that stay, clusters with multicast, an epilogue through TMA stores.
    Persistent,
    /// The persistent kernel without a producer, for tiles that need its registers.
    Wide,
    /// The persistent kernel with a tile for each warpgroup, which take turns at the tensor cores.
    PingPong,
    /// The persistent kernel without its loads: a measure of the tensor cores, with a wrong product.
    Ceiling,
}

impl Kernel {
    /// Every kernel, in the order of the ladder.
    pub const ALL: [Kernel; 13] = [
        Kernel::V0,
        Kernel::V1,
        Kernel::V2,
        Kernel::V3,
        Kernel::V4,
        Kernel::V5,
        Kernel::Gemv,
        Kernel::Split,
        Kernel::Parts,
        Kernel::Persistent,
        Kernel::Wide,
        Kernel::PingPong,
        Kernel::Ceiling,
    ];

    /// The name used in entry names and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::V0 => "v0",
            Kernel::V1 => "v1",
            Kernel::V2 => "v2",
            Kernel::V3 => "v3",
            Kernel::V4 => "v4",
            Kernel::V5 => "v5",
            Kernel::Gemv => "gemv",
            Kernel::Split => "split",
            Kernel::Parts => "parts",
            Kernel::Persistent => "persistent",
            Kernel::Wide => "wide",
            Kernel::PingPong => "pingpong",
            Kernel::Ceiling => "ceiling",
        }
    }

    /// One line that says what the kernel is.
    pub const fn summary(self) -> &'static str {
        match self {
            Kernel::V0 => "TMA loads, then ldmatrix and mma.sync; nothing overlaps",
            Kernel::V1 => "v0 with wgmma, which reads its operands from shared memory",
            Kernel::V2 => "v1 with a ring of stages that is filled ahead; all warps meet twice a turn",
            Kernel::V3 => {
                "warp-specialised: a TMA producer warp feeds one consumer warpgroup through full and empty barriers"
            }
            Kernel::V4 => {
                "v3 with the pipeline as a type, one wgmma group in flight, and the tile order as a parameter"
            }
            Kernel::V5 => "v4 with two consumer warpgroups that split the rows of C and share each tile of B",
            Kernel::Gemv => "few rows of A, and B straight from global memory into registers and mma.sync",
            Kernel::Split => "v4 with the K of a tile shared by a cluster of blocks, for a C of few tiles",
            Kernel::Parts => {
                "v5 with multicast in clusters, and the K of a tile shared by clusters, for a C of few tiles"
            }
            Kernel::Persistent => {
                "v5 with blocks that walk over tiles, clusters with multicast, and a TMA-store epilogue"
            }
            Kernel::Wide => "the persistent kernel without a producer, whose registers go to tiles of 256 rows",
            Kernel::PingPong => {
                "the persistent kernel with a tile for each warpgroup, which take turns at the tensor cores"
            }
            Kernel::Ceiling => "the persistent kernel without loads: what the tensor cores allow, and a wrong product",
        }
    }

    /// Warps that only move data, and warpgroups that only compute, of a block whose tile has `rows` rows. Of
    /// [`Kernel::Gemv`] that does not follow from the rows, but from K: see [`Config::roles`].
    pub const fn roles(self, rows: usize) -> Roles {
        match self {
            Kernel::V0 => Roles { producer_warps: 0, consumer_warpgroups: v0::CONSUMERS },
            Kernel::V1 => Roles { producer_warps: 0, consumer_warpgroups: v1::CONSUMERS },
            Kernel::V2 => Roles { producer_warps: 0, consumer_warpgroups: v2::CONSUMERS },
            Kernel::V3 => Roles { producer_warps: 1, consumer_warpgroups: v3::CONSUMERS },
            Kernel::V4 => Roles { producer_warps: 1, consumer_warpgroups: v4::CONSUMERS },
            Kernel::V5 => Roles { producer_warps: 1, consumer_warpgroups: v5::CONSUMERS },
            Kernel::Gemv => panic!("the warps of gemv follow from its stage of K"),
            Kernel::Split => Roles { producer_warps: 1, consumer_warpgroups: split::CONSUMERS },
            Kernel::Parts => Roles { producer_warps: 1, consumer_warpgroups: parts::CONSUMERS },
            Kernel::Persistent | Kernel::Ceiling => {
                Roles { producer_warps: WARPGROUP / WARP, consumer_warpgroups: persistent::consumers(rows) }
            }
            Kernel::Wide => Roles { producer_warps: 0, consumer_warpgroups: wide::CONSUMERS },
            Kernel::PingPong => Roles { producer_warps: WARPGROUP / WARP, consumer_warpgroups: pingpong::TURNS },
        }
    }

    /// Whether the kernel multiplies what it is given. Only [`Kernel::Ceiling`] does not.
    pub const fn loads(self) -> bool {
        !matches!(self, Kernel::Ceiling)
    }

    /// Whether each block walks over many tiles of C, so that the grid is as large as the device and not as
    /// large as C.
    pub const fn is_persistent(self) -> bool {
        matches!(self, Kernel::Persistent | Kernel::Wide | Kernel::PingPong | Kernel::Ceiling)
    }

    /// Warpgroups that share the `rows` rows of a tile: all that compute, but for [`Kernel::PingPong`], and for
    /// [`Kernel::Gemv`], whose warps share K.
    pub const fn tile_warpgroups(self, rows: usize) -> usize {
        match self {
            Kernel::PingPong => pingpong::CONSUMERS,
            Kernel::Gemv => 1,
            _ => self.roles(rows).consumer_warpgroups,
        }
    }

    /// Whether A and B are read by TMA, so that a launch passes tensor maps of them, and not their addresses.
    pub const fn reads_by_tma(self) -> bool {
        !matches!(self, Kernel::Gemv)
    }

    /// Whether each stage has an empty barrier: not where all threads of the block meet between stages.
    pub const fn has_empty_barriers(self) -> bool {
        !matches!(self, Kernel::V0 | Kernel::V1 | Kernel::V2 | Kernel::Gemv)
    }

    /// Whether a launch says how many clusters share the K of each tile, and passes a workspace for them
    /// ([`crate::workspace`]).
    pub const fn takes_parts(self) -> bool {
        matches!(self, Kernel::Split | Kernel::Parts)
    }

    /// Whether the epilogue stores C by TMA, so that a launch passes a tensor map of C too.
    pub const fn stores_by_tma(self) -> bool {
        matches!(self, Kernel::Persistent | Kernel::Wide | Kernel::PingPong | Kernel::Ceiling)
    }
}

/// How the threads of a block divide the work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Roles {
    /// Warps that issue TMA loads and compute nothing. They come after the consumers. None where one of the
    /// consumers' threads issues them.
    pub producer_warps: usize,
    /// Warpgroups that issue wgmma and store C.
    pub consumer_warpgroups: usize,
}

impl Roles {
    /// Threads of the consumer warpgroups.
    pub const fn consumer_threads(self) -> usize {
        self.consumer_warpgroups * WARPGROUP
    }

    /// Threads of a block.
    pub const fn threads(self) -> usize {
        self.consumer_threads() + self.producer_warps * WARP
    }
}

/// The neighbouring tiles that the blocks of a cluster compute.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Cluster {
    /// Tiles down the rows of C: they share their tile of B.
    pub m: usize,
    /// Tiles along the columns of C: they share their tile of A.
    pub n: usize,
}

impl Cluster {
    /// A block on its own.
    pub const ONE: Cluster = Cluster { m: 1, n: 1 };

    /// Blocks of the cluster.
    pub const fn blocks(self) -> usize {
        self.m * self.n
    }
}

/// Why a configuration is not compiled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The ring does not fit in the shared memory of a block.
    SharedMemory {
        /// Bytes that the ring and its barriers take.
        wanted: usize,
    },
    /// The accumulators do not fit in the registers of a thread.
    Registers {
        /// f32 accumulators that each consumer thread would hold.
        accumulators: usize,
    },
}

impl core::fmt::Display for Refusal {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match *self {
            Refusal::SharedMemory { wanted } => {
                write!(f, "needs {wanted} bytes of shared memory; a block may use {SHARED_LIMIT}")
            }
            Refusal::Registers { accumulators } => write!(
                f,
                "needs {accumulators} accumulator registers a thread and about {REGISTERS_OVERHEAD} others; \
                 a thread has {REGISTERS_PER_THREAD}"
            ),
        }
    }
}

/// One configuration of one kernel: a row of the catalogue.
///
/// The product is C = A·Bᵀ with A of M×K, B of N×K and C of M×N, all row-major; so both operands are
/// contiguous in K ("K-major").
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Name of the PTX entry, `v3_f16_128x128x64_s2`.
    pub entry: &'static str,
    /// Which kernel.
    pub kernel: Kernel,
    /// Element type of A, B and C.
    pub element: Element,
    /// Tile of one block.
    pub tile: Tile,
    /// Stages of the ring; of gemv, chunks of K that a warp loads together.
    pub stages: usize,
    /// Tiles of a cluster.
    pub cluster: Cluster,
    /// Blocks that share the K of a tile, and form a cluster: 1 but for [`Kernel::Split`].
    pub splits: usize,
}

impl Config {
    /// How the threads of a block divide the work.
    pub const fn roles(&self) -> Roles {
        match self.kernel {
            Kernel::Gemv => {
                let warps = gemv::warps(self.tile.k, self.stages);
                Roles { producer_warps: 0, consumer_warpgroups: warps * WARP / WARPGROUP }
            }
            kernel => kernel.roles(self.tile.m),
        }
    }

    /// Warpgroups that share the rows of a tile.
    pub const fn tile_warpgroups(&self) -> usize {
        self.kernel.tile_warpgroups(self.tile.m)
    }

    /// Threads of a block.
    pub const fn threads(&self) -> usize {
        self.roles().threads()
    }

    /// Rows of tiles, or of clusters of them, in a band of the tile order ([`crate::tile_order::banded`])
    /// unless a launch says otherwise.
    pub const fn band(&self) -> usize {
        match self.kernel {
            Kernel::V0 => v0::BAND,
            Kernel::V1 => v1::BAND,
            Kernel::V2 => v2::BAND,
            Kernel::V3 => v3::BAND,
            Kernel::V4 => v4::BAND,
            Kernel::V5 => v5::BAND,
            Kernel::Gemv => gemv::BAND,
            Kernel::Split => split::BAND,
            Kernel::Parts => parts::BAND / self.cluster.m,
            Kernel::Persistent | Kernel::Ceiling => persistent::BAND / self.cluster.m,
            Kernel::Wide => wide::BAND / self.cluster.m,
            Kernel::PingPong => pingpong::BAND / self.cluster.m,
        }
    }

    /// Accumulator registers (f32) of each consumer thread.
    pub const fn accumulators(&self) -> usize {
        match self.kernel {
            // Each warp has sums of all columns, of 16 rows.
            Kernel::Gemv => 16 * self.tile.n / WARP,
            _ => self.tile.m * self.tile.n / (self.tile_warpgroups() * WARPGROUP),
        }
    }

    /// Registers of each consumer thread for operands: 16 bytes of each stage for each eight rows and each eight columns of
    /// the tile; none where the MMAs read shared memory, and none that counts in v0.
    pub const fn operand_registers(&self) -> usize {
        match self.kernel {
            Kernel::Gemv => self.stages * (self.tile.m + self.tile.n) / 8 * 4,
            _ => 0,
        }
    }

    /// Where the ring lies in shared memory.
    pub const fn layout(&self) -> RingLayout {
        if matches!(self.kernel, Kernel::Gemv) {
            let warps = gemv::warps(self.tile.k, self.stages);
            return RingLayout::exchange(gemv::exchange_bytes(warps, self.tile.n / 8));
        }
        let ring = RingLayout::new(self.element.bytes(), self.tile, self.stages);
        let ring = if self.kernel.has_empty_barriers() { ring } else { ring.without_empty_barriers() };
        let (warpgroups, bytes) = (self.roles().consumer_warpgroups, self.element.bytes());
        if self.kernel.is_persistent() {
            ring.with_staging(warpgroups, self.tile.m / (64 * self.tile_warpgroups()), bytes, self.tile.n)
        } else {
            ring.with_exchange(self.tile, self.splits).with_overlaid_staging(
                warpgroups,
                bytes,
                self.tile.mma_columns() / self.splits,
            )
        }
    }

    /// Dynamic shared memory of a launch, in bytes.
    pub const fn shared_bytes(&self) -> usize {
        self.layout().bytes()
    }

    /// Blocks of a hardware cluster: those of its tiles, or those that share one.
    pub const fn cluster_blocks(&self) -> usize {
        self.cluster.blocks() * self.splits
    }

    /// Blocks that cover C of `m`×`n` with one tile each, or one tile for all that share it, in whole clusters.
    pub const fn blocks(&self, m: usize, n: usize) -> u64 {
        let clusters_m = m.div_ceil(self.tile.m * self.cluster.m) as u64;
        let clusters_n = n.div_ceil(self.tile.n * self.cluster.n) as u64;
        clusters_m * clusters_n * self.cluster_blocks() as u64
    }

    /// Blocks of the grid for C of `m`×`n` on a device of `multiprocessors`: [`Config::blocks`], or as many as
    /// run at once where each walks over many tiles.
    pub const fn grid(&self, m: usize, n: usize, multiprocessors: usize) -> u64 {
        let blocks = self.blocks(m, n);
        if !self.kernel.is_persistent() {
            return blocks;
        }
        let cluster = self.cluster_blocks();
        let clusters_at_once = multiprocessors * self.min_blocks() / cluster;
        let at_once = if clusters_at_once == 0 { cluster } else { clusters_at_once * cluster } as u64;
        // No more blocks than finish in as many turns: with 512 tiles on 132 multiprocessors, 128 blocks take
        // four turns as 132 would, and the power that four more would use while they wait goes to the clock.
        let turns = blocks.div_ceil(at_once);
        if turns == 0 { 0 } else { blocks.div_ceil(turns).next_multiple_of(cluster as u64) }
    }

    /// What a launch for C of `m`×`n` needs of global memory where `parts` clusters share each tile.
    pub const fn workspace(&self, m: usize, n: usize, parts: u32) -> Workspace {
        // A slice is what a warpgroup has of the tile once the blocks of a cluster have added up.
        let slices = self.splits * self.tile_warpgroups();
        Workspace::new(self.blocks(m, n) / self.splits as u64, self.tile, slices, parts)
    }

    /// The swizzle of both operands' tiles.
    pub const fn swizzle(&self) -> Swizzle {
        Swizzle::of_row_bytes(self.tile.k * self.element.bytes())
    }

    /// TMA box of A: elements of K, then rows of A. Blocks that share a tile of A load a part each.
    pub const fn a_box(&self) -> [usize; 2] {
        [self.tile.k, self.tile.m / self.cluster.n]
    }

    /// TMA box of B: elements of K, then rows of B. Blocks that share a tile of B load a part each.
    pub const fn b_box(&self) -> [usize; 2] {
        [self.tile.k, self.tile.n / self.cluster.m]
    }

    /// TMA box of C where the kernel stores by TMA: columns, then rows.
    pub const fn c_box(&self) -> [usize; 2] {
        [slab_columns(self.tile.n), SLAB_ROWS]
    }

    /// The swizzle of C's slabs in shared memory.
    pub const fn c_swizzle(&self) -> Swizzle {
        Swizzle::of_row_bytes(slab_columns(self.tile.n) * self.element.bytes())
    }

    /// Blocks that must fit on a multiprocessor at once; written into the PTX as `.minnctapersm`, from
    /// which ptxas takes its register budget. Two or three where the shared memory and the accumulators
    /// allow it, because then one block computes while another fills its ring or stores its tile.
    pub const fn min_blocks(&self) -> usize {
        if self.kernel.is_persistent() {
            return 1;
        }
        let blocks = self.resident_blocks(self.accumulators() + self.operand_registers() + REGISTERS_OVERHEAD);
        match (blocks, self.kernel) {
            (0, _) => 1,
            // What hides its latency is how many warps there are.
            (1..=3, _) | (_, Kernel::Gemv) => blocks,
            _ => 3,
        }
    }

    /// Blocks that fit on a multiprocessor at once when a thread takes `registers` registers.
    pub const fn resident_blocks(&self, registers: usize) -> usize {
        let by_shared = SHARED_PER_MULTIPROCESSOR / (self.shared_bytes() + SHARED_RESERVED);
        let by_warps = WARPS_PER_MULTIPROCESSOR / (self.threads() / WARP);
        let mut blocks = if by_shared < by_warps { by_shared } else { by_warps };
        while blocks > 0 && registers > self.register_budget(blocks) {
            blocks -= 1;
        }
        blocks
    }

    /// Registers a thread that ptxas can give when `blocks` blocks share a multiprocessor: what counts
    /// is the quarter of the register file with the most warps, and allocation goes in steps of eight.
    pub const fn register_budget(&self, blocks: usize) -> usize {
        let warps = blocks * self.threads() / WARP;
        let per_warp = REGISTERS_PER_QUARTER / warps.div_ceil(4) / 8 * 8;
        if per_warp < REGISTERS_PER_THREAD { per_warp } else { REGISTERS_PER_THREAD }
    }

    /// Tensor-core instructions that the machine code must hold: one HGMMA for each 64 rows that a warpgroup
    /// computes and each MMA step of K, once for each copy of the stage's code: v3 unrolls its ring, and so
    /// does the persistent kernel where [`persistent::by_laps`] says so. v0 and gemv have HMMA instead, one
    /// for each 8 columns of 16 rows.
    pub const fn mma_count(&self) -> usize {
        if matches!(self.kernel, Kernel::Gemv) {
            // And once more for what is left of K.
            return (self.stages + 1) * (gemv::CHUNK / self.element.mma_k()) * (self.tile.n / 8);
        }
        let fragments = self.tile.mma_rows() / self.tile_warpgroups() / 64;
        let copies = match self.kernel {
            Kernel::V0 => self.tile.n / 8,
            Kernel::V3 => self.stages,
            Kernel::Persistent if persistent::by_laps(self.stages, fragments, self.tile_warpgroups()) => self.stages,
            Kernel::V1
            | Kernel::V2
            | Kernel::V4
            | Kernel::V5
            | Kernel::Gemv
            | Kernel::Split
            | Kernel::Parts
            | Kernel::Persistent
            | Kernel::Wide
            | Kernel::PingPong
            | Kernel::Ceiling => 1,
        };
        fragments * (self.tile.k / self.element.mma_k()) * copies
    }

    /// Whether the configuration can run on compute capability 9.0.
    pub const fn verdict(&self) -> Result<(), Refusal> {
        let accumulators = self.accumulators();
        let registers = match self.kernel {
            Kernel::Persistent | Kernel::PingPong | Kernel::Ceiling => {
                persistent::registers(self.roles().consumer_warpgroups).consumer as usize
            }
            _ => REGISTERS_PER_THREAD,
        };
        if accumulators + self.operand_registers() + REGISTERS_OVERHEAD > registers {
            return Err(Refusal::Registers { accumulators });
        }
        let wanted = self.shared_bytes();
        if wanted > SHARED_LIMIT {
            return Err(Refusal::SharedMemory { wanted });
        }
        Ok(())
    }
}

/// The spaces of the kernels, each a list of products.
const COMPILED_SPACES: &[&[&[Config]]] = &[
    v0::COMPILED,
    v1::COMPILED,
    v2::COMPILED,
    v3::COMPILED,
    v4::COMPILED,
    v5::COMPILED,
    gemv::COMPILED,
    split::COMPILED,
    parts::COMPILED,
    persistent::COMPILED,
    wide::COMPILED,
    pingpong::COMPILED,
    ceiling::COMPILED,
];
const REFUSED_SPACES: &[&[&[Config]]] = &[v0::REFUSED, v1::REFUSED, v2::REFUSED, v3::REFUSED, v4::REFUSED, v5::REFUSED];

/// Every configuration that is compiled, in the order of the ladder.
pub const COMPILED: &[Config] = &flatten::<{ count(COMPILED_SPACES) }>(COMPILED_SPACES);

/// Every configuration that the spaces name but that cannot run, with the reason in
/// [`Config::verdict`].
pub const REFUSED: &[Config] = &flatten::<{ count(REFUSED_SPACES) }>(REFUSED_SPACES);

const fn count(spaces: &[&[&[Config]]]) -> usize {
    let (mut total, mut i) = (0, 0);
    while i < spaces.len() {
        let mut j = 0;
        while j < spaces[i].len() {
            total += spaces[i][j].len();
            j += 1;
        }
        i += 1;
    }
    total
}

/// All rows one after the other; `TOTAL` is their [`count`].
const fn flatten<const TOTAL: usize>(spaces: &[&[&[Config]]]) -> [Config; TOTAL] {
    let mut all = [spaces[0][0][0]; TOTAL];
    let (mut filled, mut i) = (0, 0);
    while i < spaces.len() {
        let mut j = 0;
        while j < spaces[i].len() {
            let mut k = 0;
            while k < spaces[i][j].len() {
                all[filled] = spaces[i][j][k];
                filled += 1;
                k += 1;
            }
            j += 1;
        }
        i += 1;
    }
    all
}

/// The configuration whose PTX entry is `entry`.
pub fn by_entry(entry: &str) -> Option<&'static Config> {
    COMPILED.iter().find(|config| config.entry == entry)
}

// The list says which configurations are compiled, the rule says which can run: they must agree, or
// nothing compiles.
const _: () = {
    let mut i = 0;
    while i < COMPILED.len() {
        assert!(COMPILED[i].verdict().is_ok(), "a configuration that cannot run is listed as compiled");
        i += 1;
    }
    let mut i = 0;
    while i < REFUSED.len() {
        assert!(REFUSED[i].verdict().is_err(), "a configuration that can run is listed as refused");
        i += 1;
    }
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grids_cover_c_or_fill_the_device() {
        for config in COMPILED {
            let cluster = config.cluster_blocks() as u64;
            assert_eq!(config.blocks(1, 1), cluster, "{}", config.entry);
            let (rows, columns) = (config.tile.m * config.cluster.m, config.tile.n * config.cluster.n);
            assert_eq!(config.blocks(3 * rows, 2 * columns + 1), 9 * cluster, "{}", config.entry);
            let grid = config.grid(100 * rows, 100 * columns, 132);
            if config.kernel.is_persistent() {
                assert_eq!(grid, 132, "{}", config.entry);
                assert_eq!(config.grid(100 * rows, 100 * columns, 1), cluster, "{}", config.entry);
            } else {
                assert_eq!(grid, 10_000 * cluster, "{}", config.entry);
            }
            assert_eq!(config.grid(1, 1, 132), cluster, "{}", config.entry);
        }
    }

    /// Eight lanes of `stmatrix` write 16 bytes each, to eight rows below each other: at once, if these lie in different
    /// places of 128 bytes. Those of 208 columns lie in four.
    #[test]
    fn slabs_are_written_without_bank_conflicts() {
        for config in COMPILED.iter().filter(|config| config.kernel.stores_by_tma()) {
            let row_bytes = config.c_box()[0] * config.element.bytes();
            assert_eq!(config.tile.n * config.element.bytes() % row_bytes, 0, "{}", config.entry);
            for chunk in 0..row_bytes / 16 {
                let place = |row: usize| config.c_swizzle().apply(row * row_bytes + chunk * 16) / 16 % 8;
                let places = (0..8).fold(0u8, |places, row| places | 1 << place(row));
                let wanted = if config.tile.n == 208 { 4 } else { 8 };
                assert_eq!(places.count_ones(), wanted, "{}: chunk {chunk} of its rows", config.entry);
            }
        }
    }
}
