//! The kernels of the catalogue on host slices.

use std::array::from_fn;
use std::ops::Range;

use kernels::catalogue::{Config, Element, Kernel, WARP};
use kernels::matmul::gemv;
use ptx::ast::Rounding;

use crate::float::{BF16, F16, Format};
use crate::launch::{Argument, Launch, Options, Role};
use crate::memory::{Access, BufferId, Memory};
use crate::program::{LoadError, Program};
use crate::report::{Finding, Kind, Place};
use crate::run::{Control, Explored, Outcome, run, run_and_note};
use crate::schedule::Schedule;
use crate::tensor_core::{self, DEPTH, Half};
use crate::tensor_map::TensorMap;

/// Bytes after C that no kernel may touch: part of C's buffer, checked after each run.
const GUARD: usize = 256;
/// What C and its guard hold before a run: a NaN in both formats.
const POISON: u16 = 0x7fff;

/// A product C = A·Bᵀ of row-major matrices of 16-bit elements: A is M×K, B is N×K, C is M×N.
#[derive(Clone, Copy, Debug)]
pub struct Product<'a> {
    /// Rows of A and C.
    pub m: usize,
    /// Rows of B, columns of C.
    pub n: usize,
    /// Columns of A and B.
    pub k: usize,
    /// Bits of A's elements, `lda` from one row to the next.
    pub a: &'a [u16],
    /// Elements from one row of A to the next: at least K, a multiple of 8.
    pub lda: usize,
    /// Bits of B's elements.
    pub b: &'a [u16],
    /// Elements from one row of B to the next: at least K, a multiple of 8.
    pub ldb: usize,
    /// Elements from one row of C to the next: at least N.
    pub ldc: usize,
    /// Multiprocessors of the device: persistent kernels launch a block for each of them at most. An H200
    /// has 132; fewer make their blocks walk over more tiles.
    pub multiprocessors: usize,
    /// Clusters that share the K of each tile: 1, or more for kernels that take it
    /// ([`kernels::catalogue::Kernel::takes_parts`]).
    pub parts: u32,
}

/// A launch of a kernel of the catalogue, and the memory that it works on.
pub struct Prepared {
    /// The matrices, and the workspace where clusters share tiles.
    pub memory: Memory,
    /// The launch.
    pub launch: Launch,
    /// What is looked at after it.
    pub results: Results,
}

/// The buffers that a run leaves its results in.
#[derive(Clone, Copy, Debug)]
pub struct Results {
    /// C.
    pub c: BufferId,
    /// The meetings in the workspace, where there is one.
    pub meetings: Option<BufferId>,
}

/// Why a product was not computed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The kernel cannot be loaded.
    Load(LoadError),
    /// A size or slice that does not fit.
    Argument(String),
    /// A fault of the kernel.
    Finding(Box<Finding>),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Load(error) => error.fmt(f),
            Error::Argument(message) => f.write_str(message),
            Error::Finding(finding) => finding.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<LoadError> for Error {
    fn from(error: LoadError) -> Error {
        Error::Load(error)
    }
}

impl From<Box<Finding>> for Error {
    fn from(finding: Box<Finding>) -> Error {
        Error::Finding(finding)
    }
}

impl Product<'_> {
    /// Checks that the slices hold the matrices, that TMA can read A and B, and that the kernel of `config` can share
    /// tiles among as many clusters.
    ///
    /// # Errors
    /// Names the argument, its value and the rule.
    pub fn check(&self, config: &Config) -> Result<(), Error> {
        let error = |message: String| Err(Error::Argument(message));
        if self.parts == 0 || self.parts > 1 << 16 {
            return error(format!("parts is {}: the simulator takes 1 to 2^16", self.parts));
        }
        if self.parts > 1 && !config.kernel.takes_parts() {
            return error(format!("parts is {}: kernel {} takes 1 only", self.parts, config.kernel.name()));
        }
        for (name, value) in [("m", self.m), ("n", self.n), ("k", self.k)] {
            if value == 0 || value > 1 << 20 {
                return error(format!("{name} is {value}: the simulator takes 1 to 2^20"));
            }
        }
        for (name, slice, rows, columns, leading) in
            [("a", self.a, self.m, self.k, self.lda), ("b", self.b, self.n, self.k, self.ldb)]
        {
            if leading < columns || leading % 8 != 0 {
                return error(format!("ld{name} is {leading}: must be a multiple of 8 and at least k = {columns}"));
            }
            let wanted = (rows - 1) * leading + columns;
            if slice.len() < wanted {
                return error(format!("{name} has {} elements: the matrix needs {wanted}", slice.len()));
            }
        }
        if self.ldc < self.n {
            return error(format!("ldc is {}: must be at least n = {}", self.ldc, self.n));
        }
        Ok(())
    }

    /// Multiply-adds of the product.
    pub fn work(&self) -> u64 {
        self.m as u64 * self.n as u64 * self.k as u64
    }

    /// Elements of C from the first to the last.
    const fn c_len(&self) -> usize {
        (self.m - 1) * self.ldc + self.n
    }

    /// Blocks of the grid: a whole number of clusters.
    fn blocks(&self, config: &Config) -> usize {
        let cluster = config.cluster;
        let clusters = self.m.div_ceil(config.tile.m * cluster.m) * self.n.div_ceil(config.tile.n * cluster.n);
        let resident = (self.multiprocessors / config.cluster_blocks()).max(1);
        let clusters = if config.kernel.is_persistent() { clusters.min(resident) } else { clusters };
        clusters * self.parts as usize * config.cluster_blocks()
    }

    /// Memory with the three matrices and the workspace, and the launch of `config` over it.
    pub fn launch(&self, config: &Config) -> Prepared {
        let mut memory = Memory::new();
        let bytes = |slice: &[u16]| slice.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let a = memory.insert("A", &bytes(self.a), Access::Read);
        let b = memory.insert("B", &bytes(self.b), Access::Read);
        let c = memory.insert("C", &bytes(&vec![POISON; self.c_len() + GUARD / 2]), Access::ReadWrite);
        let map = |buffer, rows: usize, leading: usize, extents: [usize; 2]| {
            let shape = [rows as u64, self.k as u64, leading as u64];
            TensorMap::matrix(memory.address(buffer), 2, shape, extents.map(|e| e as u32), config.swizzle())
        };
        let mut arguments = Vec::new();
        if config.kernel.reads_by_tma() {
            arguments.push(Argument::TensorMap(map(a, self.m, self.lda, config.a_box())));
            arguments.push(Argument::TensorMap(map(b, self.n, self.ldb, config.b_box())));
        }
        if config.kernel.stores_by_tma() {
            let shape = [self.m, self.n, self.ldc].map(|extent| extent as u64);
            let extents = config.c_box().map(|extent| extent as u32);
            let c_map = TensorMap::matrix(memory.address(c), 2, shape, extents, config.c_swizzle());
            // Where TMA cannot write C, the kernel stores directly and leaves the map alone; any will do.
            let any = if c_map.check().is_ok() { Argument::TensorMap(c_map) } else { arguments[0].clone() };
            arguments.push(any);
        }
        arguments.extend([
            Argument::U64(memory.address(c)),
            Argument::U32(self.m as u32),
            Argument::U32(self.n as u32),
            Argument::U32(self.k as u32),
            Argument::U64(self.ldc as u64),
            Argument::U32(config.band() as u32),
        ]);
        if !config.kernel.reads_by_tma() {
            arguments.extend([
                Argument::U64(memory.address(a)),
                Argument::U64(self.lda as u64),
                Argument::U64(memory.address(b)),
                Argument::U64(self.ldb as u64),
            ]);
        }
        let mut meetings = None;
        if config.kernel.takes_parts() {
            let [mut meetings_at, mut partials_at] = [0; 2];
            if self.parts > 1 {
                let workspace = config.workspace(self.m, self.n, self.parts);
                let zeros = vec![0; workspace.meetings as usize * 8];
                let buffer = memory.insert("meetings", &zeros, Access::ReadWrite);
                // Not a number, as f32.
                let poison = vec![0xff; workspace.partial_bytes as usize];
                let partials = memory.insert("partials", &poison, Access::ReadWrite);
                [meetings_at, partials_at] = [buffer, partials].map(|buffer| memory.address(buffer));
                meetings = Some(buffer);
            }
            arguments.extend([Argument::U32(self.parts), Argument::U64(meetings_at), Argument::U64(partials_at)]);
        }
        let launch = Launch {
            grid: [self.blocks(config) as u32, 1, 1],
            cluster: [config.cluster_blocks() as u32, 1, 1],
            block: [config.threads() as u32, 1, 1],
            shared_bytes: config.shared_bytes() as u32,
            arguments,
        };
        Prepared { memory, launch, results: Results { c, meetings } }
    }

    /// The options of [`options`], for this product.
    pub fn options(&self, config: &Config) -> Options {
        let blocks = self.multiprocessors * config.min_blocks();
        let resident_clusters = (blocks / config.cluster_blocks()).max(1);
        Options { blocks_talk: self.parts > 1, resident_clusters, ..options(config) }
    }

    /// The MMAs in which the sharer `number` goes through its part of K.
    fn steps(&self, config: &Config, number: usize) -> Vec<Step> {
        let tiles = self.k.div_ceil(config.tile.k);
        if config.kernel != Kernel::Gemv {
            let taken = (number..tiles).step_by(self.parts as usize * config.splits);
            let starts =
                taken.flat_map(|tile| (0..config.tile.k).step_by(DEPTH).map(move |k| tile * config.tile.k + k));
            return starts.map(|start| from_fn(|slot| Some(start + slot).filter(|&k| k < self.k))).collect();
        }
        // Two MMAs a chunk. The last elements, which are less than a lane loads, come behind all others.
        let whole = self.k / 8 * 8;
        let chunk = |start: usize, taken: Range<usize>| {
            [0, 1].map(|mma| {
                from_fn(|slot| Some(start + gemv::element_of_chunk(mma, slot)).filter(|k| taken.contains(k)))
            })
        };
        let own = config.stages * gemv::CHUNK;
        let rounds = (0..tiles).map(|tile| tile * config.tile.k + number * own).take_while(|&start| start < self.k);
        let chunks = rounds.flat_map(|start| (0..config.stages).map(move |stage| start + stage * gemv::CHUNK));
        let mut steps: Vec<Step> = chunks.flat_map(|start| chunk(start, 0..whole)).collect();
        if whole < self.k && whole % config.tile.k / own == number {
            steps.extend(chunk(whole / gemv::CHUNK * gemv::CHUNK, whole..self.k));
        }
        steps
    }

    /// C as a kernel that walks K in order must compute it, N elements a row: for each element the sums of
    /// [`tensor_core`], K filled up with zeros to whole tiles of `config`, then rounded to its element type. Where
    /// blocks share K, the sums of each are added in their order: of the blocks of a cluster, then of the clusters; and so are
    /// those of the warps of gemv.
    pub fn reference(&self, config: &Config) -> Vec<u16> {
        let (half, format) = formats(config.element);
        let part = |slice: &[u16], rows: usize, leading: usize, step: &Step| {
            let element = |row: usize, k: Option<usize>| k.map_or(0, |k| slice[row * leading + k]);
            (0..rows).map(|row| step.map(|k| element(row, k))).collect::<Vec<_>>()
        };
        let mut operands = tensor_core::Operands::default();
        // What block `number` of those that share a tile adds up, or warp `number` of a block's.
        let mut share_of = |number: u32| {
            let mut sums = vec![0f32; self.m * self.n];
            for step in self.steps(config, number as usize) {
                let (a, b) = (part(self.a, self.m, self.lda, &step), part(self.b, self.n, self.ldb, &step));
                operands.fill(half, &a, &b, [false; 2]);
                for (row, sums) in sums.chunks_exact_mut(self.n).enumerate() {
                    operands.add_row(row, sums);
                }
            }
            sums
        };
        // The kernel adds to zero, which turns -0 into 0.
        let add = |sums: &mut Vec<f32>, more: Vec<f32>| sums.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        let mut of_cluster = |part: u32| {
            let splits = sharers(config) as u32;
            if splits == 1 {
                return share_of(part);
            }
            let mut sums = vec![0f32; self.m * self.n];
            (0..splits).for_each(|rank| add(&mut sums, share_of(part * splits + rank)));
            sums
        };
        let mut sums = vec![0f32; self.m * self.n];
        if self.parts == 1 {
            sums = of_cluster(0);
        } else {
            (0..self.parts).for_each(|part| add(&mut sums, of_cluster(part)));
        }
        sums.iter().map(|&sum| format.encode(f64::from(sum), Rounding::Nearest) as u16).collect()
    }
}

/// The elements of K that one MMA multiplies, in the order of its own; zeros where there is none.
type Step = [Option<usize>; DEPTH];

/// Blocks of a cluster that share the K of a tile or, in gemv, warps of a block.
fn sharers(config: &Config) -> usize {
    match config.kernel {
        Kernel::Gemv => config.threads() / WARP,
        _ => config.splits,
    }
}

const fn formats(element: Element) -> (Half, Format) {
    match element {
        Element::F16 => (Half::F16, F16),
        Element::Bf16 => (Half::Bf16, BF16),
    }
}

/// The options for kernels of the catalogue: names of their tiles, barriers and warps, and what they multiply.
pub fn options(config: &Config) -> Options {
    let layout = config.layout();
    let mut names = Vec::new();
    for stage in 0..layout.stages {
        names.push((layout.a(stage) as u32, layout.a_bytes as u32, format!("A[{stage}]")));
        names.push((layout.b(stage) as u32, layout.b_bytes as u32, format!("B[{stage}]")));
        names.push((layout.full(stage) as u32, 8, format!("full[{stage}]")));
        if layout.empty_barriers {
            names.push((layout.empty(stage) as u32, 8, format!("empty[{stage}]")));
        }
    }
    if layout.staging_bytes > 0 {
        names.push((layout.staging() as u32, layout.staging_bytes as u32, "staging".to_string()));
    }
    let consumers = config.roles().consumer_threads() / WARP;
    let role = |name: &str, warps| Role { name: name.to_string(), warps };
    let roles = match config.threads() / WARP {
        // Where nobody else issues the loads, there is but one role.
        warps if warps == consumers => Vec::new(),
        warps => vec![role("consumer", 0..consumers), role("producer", consumers..warps)],
    };
    // The maps of A and B, in the order in which the MMAs multiply their tiles.
    let product = config.kernel.reads_by_tma().then_some(if config.tile.is_swapped() { [1, 0] } else { [0, 1] });
    Options { names, roles, product, ..Options::default() }
}

/// Runs a kernel of the catalogue; returns C with `ldc` elements a row, and what the run did. Elements
/// between the rows are untouched: zero.
///
/// # Errors
/// See [`Error`]; a store outside C is a finding.
pub fn gemm(
    program: &Program,
    config: &Config,
    product: &Product<'_>,
    schedule: &Schedule,
    control: Control<'_>,
) -> Result<(Vec<u16>, Outcome), Error> {
    product.check(config)?;
    let Prepared { mut memory, launch, results } = product.launch(config);
    let outcome = run(program, &launch, &mut memory, &product.options(config), schedule, control)?;
    Ok((results.read(program, product, &memory, schedule)?, outcome))
}

impl Results {
    /// C after a run, as [`gemm`] returns it.
    ///
    /// # Errors
    /// A finding, if elements outside C were stored to, or the meetings are not as they were.
    fn read(
        &self,
        program: &Program,
        product: &Product<'_>,
        memory: &Memory,
        schedule: &Schedule,
    ) -> Result<Vec<u16>, Box<Finding>> {
        if let Some(meetings) = self.meetings {
            let bytes = memory.bytes(meetings);
            if let Some(i) = bytes.iter().position(|&byte| byte != 0) {
                let message =
                    format!("meeting {} of the workspace is not zero at the end: the next launch needs it so", i / 8);
                return Err(wrong(program, schedule, Kind::WrongResult, message));
            }
        }
        let bytes = memory.bytes(self.c);
        let mut values: Vec<u16> = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect();
        let outside = |i: usize| i >= product.c_len() || i % product.ldc >= product.n;
        if let Some(i) = (0..values.len()).find(|&i| outside(i) && values[i] != POISON) {
            let message = format!("element {i} of C's buffer was stored to; it lies outside C");
            return Err(wrong(program, schedule, Kind::OutOfBounds, message));
        }
        values.truncate(product.c_len());
        for (i, value) in values.iter_mut().enumerate() {
            if outside(i) {
                *value = 0;
            }
        }
        Ok(values)
    }
}

/// Every order of events of a tiny product, up to `most`, each compared with `reference`; see
/// [`crate::explore`].
///
/// # Errors
/// As [`checked_gemm`].
pub fn explore_gemm(
    program: &Program,
    config: &Config,
    product: &Product<'_>,
    reference: &[u16],
    most: usize,
) -> Result<Explored, Error> {
    product.check(config)?;
    // Every launch has the same buffers.
    let Prepared { results, .. } = product.launch(config);
    let prepare = || {
        let Prepared { memory, launch, .. } = product.launch(config);
        (memory, launch)
    };
    let explored = crate::run::explore(program, &product.options(config), most, prepare, |memory, schedule| {
        let values = results.read(program, product, memory, schedule)?;
        compare(program, config, product, reference, &values, schedule).map_err(|(finding, _)| finding)
    })?;
    Ok(explored)
}

/// As [`gemm`], and compares C bit for bit with [`Product::reference`], which `reference` holds.
///
/// # Errors
/// As [`gemm`]; and [`Kind::WrongResult`].
pub fn checked_gemm(
    program: &Program,
    config: &Config,
    product: &Product<'_>,
    reference: &[u16],
    schedule: &Schedule,
    control: Control<'_>,
) -> Result<Outcome, Error> {
    product.check(config)?;
    let Prepared { mut memory, launch, results } = product.launch(config);
    let options = product.options(config);
    let (outcome, global) = run_and_note(program, &launch, &mut memory, &options, schedule, control)?;
    let values = results.read(program, product, &memory, schedule)?;
    compare(program, config, product, reference, &values, schedule).map_err(|(mut finding, element)| {
        // Who stored it, and where.
        let at = memory.address(results.c) + 2 * element as u64;
        let writer = memory.locate(at, 2).and_then(|(buffer, offset)| global.writers(buffer, offset, 2).pop());
        if let Some(write) = writer.map(|number| global.write(number)) {
            finding.place = program.place(write.pc);
            finding.threads = write.who(&options);
        }
        finding
    })?;
    Ok(outcome)
}

/// Compares C with what it should be, bit for bit.
///
/// # Errors
/// The finding, and the place of the first wrong element in C's buffer.
fn compare(
    program: &Program,
    config: &Config,
    product: &Product<'_>,
    reference: &[u16],
    c: &[u16],
    schedule: &Schedule,
) -> Result<(), (Box<Finding>, usize)> {
    let (_, format) = formats(config.element);
    let mut wrong_elements = 0usize;
    let mut first = None;
    for (i, &want) in reference.iter().enumerate() {
        let (row, column) = (i / product.n, i % product.n);
        let got = c[row * product.ldc + column];
        if got != want {
            wrong_elements += 1;
            first = first.or(Some((row, column, got, want)));
        }
    }
    let Some((row, column, got, want)) = first else { return Ok(()) };
    let mut message = format!(
        "{wrong_elements} of {} elements of C are wrong; the first is C[{row}, {column}]: {} instead of {}",
        reference.len(),
        format.decode(u32::from(got)),
        format.decode(u32::from(want))
    );
    if got == POISON {
        message.push_str(" (it was never stored)");
    }
    let mut finding = wrong(program, schedule, Kind::WrongResult, message);
    let tile = [row / config.tile.m, column / config.tile.n];
    finding.notes.push(format!(
        "it belongs to the tile at row {}, column {}, there row {}, column {}",
        tile[0] * config.tile.m,
        tile[1] * config.tile.n,
        row % config.tile.m,
        column % config.tile.n
    ));
    Err((finding, row * product.ldc + column))
}

fn wrong(program: &Program, schedule: &Schedule, kind: Kind, message: String) -> Box<Finding> {
    Box::new(Finding {
        kind,
        kernel: program.entry().name.clone(),
        message,
        place: Place::NONE,
        threads: String::new(),
        notes: Vec::new(),
        history: Vec::new(),
        schedule: schedule.to_string(),
    })
}
