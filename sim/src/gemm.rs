//! The kernels of the catalogue on host slices.

use kernels::catalogue::{Config, Element, WARP};
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
        let a_map = map(a, self.m, self.lda, config.a_box());
        let b_map = map(b, self.n, self.ldb, config.b_box());
        let mut arguments = vec![Argument::TensorMap(a_map.clone()), Argument::TensorMap(b_map)];
        if config.kernel.stores_by_tma() {
            let shape = [self.m, self.n, self.ldc].map(|extent| extent as u64);
            let extents = config.c_box().map(|extent| extent as u32);
            let c_map = TensorMap::matrix(memory.address(c), 2, shape, extents, config.c_swizzle());
            // Where TMA cannot write C, the kernel stores directly and leaves the map alone; any will do.
            arguments.push(Argument::TensorMap(if c_map.check().is_ok() { c_map } else { a_map }));
        }
        arguments.extend([
            Argument::U64(memory.address(c)),
            Argument::U32(self.m as u32),
            Argument::U32(self.n as u32),
            Argument::U32(self.k as u32),
            Argument::U64(self.ldc as u64),
            Argument::U32(config.band() as u32),
        ]);
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

    /// C as a kernel that walks K in order must compute it, N elements a row: for each element the sums of
    /// [`tensor_core`], K filled up with zeros to whole tiles of `config`, then rounded to its element type. Where
    /// blocks share K, the sums of each are added in their order: of the blocks of a cluster, then of the clusters.
    pub fn reference(&self, config: &Config) -> Vec<u16> {
        let (half, format) = formats(config.element);
        let part = |slice: &[u16], rows: usize, leading: usize, step: usize| {
            let mut tile = vec![[0u16; DEPTH]; rows];
            for (row, out) in tile.iter_mut().enumerate() {
                let (start, end) = (self.k.min(step * DEPTH), self.k.min((step + 1) * DEPTH));
                out[..end - start].copy_from_slice(&slice[row * leading + start..row * leading + end]);
            }
            tile
        };
        let (tiles, steps_a_tile) = (self.k.div_ceil(config.tile.k), config.tile.k / DEPTH);
        let mut operands = tensor_core::Operands::default();
        let blocks = self.parts * config.splits as u32;
        // What block `number` of those that share a tile adds up.
        let mut share_of = |number: u32| {
            let mut sums = vec![0f32; self.m * self.n];
            let taken = (number as usize..tiles).step_by(blocks as usize);
            for step in taken.flat_map(|tile| tile * steps_a_tile..(tile + 1) * steps_a_tile) {
                let (a, b) = (part(self.a, self.m, self.lda, step), part(self.b, self.n, self.ldb, step));
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
            let splits = config.splits as u32;
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
    for stage in 0..config.stages {
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
    let product = Some(if config.tile.is_swapped() { [1, 0] } else { [0, 1] });
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
