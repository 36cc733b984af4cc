//! A cost model: how long a configuration will take for a product, and which one is the fastest.
//!
//! Time is in seconds. A product of M×N×K runs on a device of 132 multiprocessors, whose operands come from DRAM:
//!
//! ```text
//! launch + (on chip⁴ + DRAM⁴)^¼        on chip = fill + turns · steps · step + epilogue + meeting
//! ```
//!
//! - **turns**: clusters of blocks run at once as many as the device holds, which is fewer than 132 / blocks
//!   ([`clusters_at_once`]); the last turn takes as long as a full one.
//! - **steps** of a turn: K in stages of the ring, divided among all blocks that share a tile.
//! - **step**: what the tensor cores take for a stage, what the L2 takes to deliver it, and what TMA takes to ask twice for
//!   rows that straddle lines: the greatest and a share of the others, since the chip's power is shared too; or, if
//!   longer, the latency of a load over the stages that are on their way.
//! - **DRAM**: each operand once, B again for each band of rows where it is too large for the L2, and C; all of it slower
//!   where a tile is larger than the matrix.
//! - **fill**: until the first stage has arrived; **epilogue**: what storing a tile adds, of which a persistent
//!   kernel hides a share behind its next tile; **meeting**: the sum over the blocks that share a tile, or what
//!   it takes clusters to start and end together; and where several clusters share a tile, the sum through global
//!   memory.
//!
//! Gemv has no ring: `start + (chain² + DRAM²)^½`, where a chain is as many rounds of K as a multiprocessor's place for a block
//! goes through, each with a load's latency.
//!
//! The constants are those that `tools/fit-model.py` has fitted to `benches/results/h200-f16-configurations.json`: of f16 on
//! H200s, rested, and taken for bf16 too. They are what chooses best in those formulas, and each may hold some of its
//! neighbour's time. Where the model is known to choose badly, or chooses what was not measured, [`EXCEPTIONS`] says what
//! measured best. Tuning ([`crate::tune`]) comes before both.

mod exceptions;
#[cfg(test)]
mod measured;

use kernels::catalogue::{COMPILED, Cluster, Config, Element, Kernel};
use kernels::shared::slab_columns;
use kernels::workspace;

pub use exceptions::{EXCEPTIONS, Exception};

use crate::problem::leading_dimension_unit;

/// Constants of the model. Those that are fitted come first, as `tools/fit-model.py` prints them.
// ANCHOR: constants
mod constants {
    /// Microseconds from one kernel to the next; at the least that the fit allows.
    pub const LAUNCH: f64 = 0.200;
    /// Microseconds until the first stage of a block has arrived.
    pub const FILL: f64 = 1.615;
    /// What a narrow MMA takes beyond its columns, for each time that its columns go into 256 after the first.
    pub const NARROW: f64 = 0.068;
    /// Bytes a clock that the L2 delivers to each multiprocessor.
    pub const L2: f64 = 85.007;
    /// Share of that time, and of the latency below, which up to three stages save where rows fill lines and many tiles
    /// share them: blocks with a short ring stay together, so that more of their requests are merged.
    pub const SHORT_RING: f64 = 0.071;
    /// Clocks that a row of a box takes which straddles two lines of 128 bytes, however many blocks it is for.
    pub const STRADDLING: f64 = 2.615;
    /// Share by which a load takes longer to arrive where all rows do.
    pub const STRADDLING_LATENCY: f64 = 0.670;
    /// Exponent of the sum of the tensor cores' time, the L2's, and that for rows which straddle lines: 1 adds them, ∞
    /// takes the greatest.
    pub const SHARPNESS: f64 = 1.983;
    /// Microseconds from a load to its arrival.
    pub const LATENCY: f64 = 0.929;
    /// The same beyond that where nothing but DRAM limits, in proportion.
    pub const LATENCY_LOADED: f64 = 1.027;
    /// Terabytes a second of DRAM; nearly at the most that the fit allows.
    pub const DRAM: f64 = 4.398;
    /// Share by which DRAM takes longer where a tile's rows of A and B lie outside the matrices, of all its rows: zeros lie
    /// in the ring in place of what could be on its way.
    pub const OUTSIDE: f64 = 1.717;
    /// Share by which C takes longer for each doubling of the band: fewer bytes side by side at once.
    pub const SCATTER: f64 = 0.032;
    /// Microseconds to store a tile of 128×256.
    pub const EPILOGUE: f64 = 1.957;
    /// Share by which an epilogue in slabs of half 64 columns takes longer.
    pub const SLAB: f64 = 0.047;
    /// Share of the epilogue that the persistent kernel does not hide behind its next tile.
    pub const EXPOSED: f64 = 0.685;
    /// Microseconds to sum up over two blocks; each doubling adds as much.
    pub const REDUCTION: f64 = 2.082;
    /// Microseconds that a cluster of two tiles costs; each doubling adds as much.
    pub const CLUSTER: f64 = 0.634;
    /// Microseconds that a launch of gemv takes beyond what it loads.
    pub const GEMV_START: f64 = 1.089;
    /// Microseconds from the loads of one of its rounds to those of the next.
    pub const GEMV_ROUND: f64 = 0.663;
    /// Share by which a round takes longer in blocks of four warps. It is not known what is behind it: they are a tenth faster at
    /// 1×5120×5120 and a third slower at 1×6400×6400, and this keeps the choice on the safe side.
    pub const GEMV_FEW_WARPS: f64 = 0.409;
    /// Microseconds that clusters take to meet through global memory.
    pub const GLOBAL_MEETING: f64 = 1.976;

    /// Rows and columns of tiles from which a short ring helps, where there is more than one turn: an estimate, not fitted.
    pub const TOGETHER: f64 = 8.0;
    /// Rows and columns of tiles of one part that the multiprocessors of a GPC hold: an estimate, not fitted.
    pub const SIDE_BY_SIDE: f64 = 4.0;
    /// Microseconds for a thread's [`LOADS`](kernels::workspace::LOADS) of partial sums: an estimate, not fitted.
    pub const PARTIALS: f64 = 0.9;
    /// Terabytes a second at which all multiprocessors together write partial sums, and read them: by clocks read in the
    /// kernel, and not fitted.
    pub const PARTIALS_ALL: f64 = 7.0;

    /// Clock in MHz: that of an H200 at work on large products.
    pub const CLOCK: f64 = 1755.0;
    /// Bytes of the L2 of an H200.
    pub const L2_BYTES: f64 = 60.0 * 1024.0 * 1024.0;
}
// ANCHOR_END: constants

/// Clusters of so many blocks that an H200 runs at once, for each block that a multiprocessor holds: what
/// `cuOccupancyMaxActiveClusters` says for 2 and 4. Multiprocessors come in groups of unequal size, and a cluster
/// lies within one.
pub const fn clusters_at_once(blocks: usize) -> usize {
    match blocks {
        1 => 132,
        2 => 66,
        3 | 4 => 30,
        _ => 14,
    }
}

/// Clusters of `config` that a turn counts: those that run at once or, of gemv, as many for each block that a multiprocessor
/// holds.
pub fn clusters_a_turn(config: &Config) -> usize {
    let places = if config.kernel == Kernel::Gemv { config.min_blocks() } else { 1 };
    clusters_at_once(config.cluster_blocks()) * places
}

/// What bounds a product.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Bound {
    /// The tensor cores.
    TensorCores,
    /// What the L2 delivers to the multiprocessors, or how often it is asked.
    L2,
    /// The latency of loads: too few stages are on their way.
    Latency,
    /// What DRAM delivers and takes.
    Dram,
    /// What each launch and each tile costs whatever K is: filling the ring, storing, meeting.
    Fixed,
}

impl Bound {
    /// A word or two for it.
    pub const fn name(self) -> &'static str {
        match self {
            Bound::TensorCores => "tensor cores",
            Bound::L2 => "L2",
            Bound::Latency => "latency",
            Bound::Dram => "DRAM",
            Bound::Fixed => "launch and epilogue",
        }
    }
}

/// How long a configuration will take, and what for. Times are in seconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Prediction {
    /// The whole.
    pub seconds: f64,
    /// From one kernel to the next.
    pub launch: f64,
    /// Until the first stages have arrived, of all turns that do not overlap.
    pub fill: f64,
    /// Clusters of blocks in the grid, all that share a tile counted, or walks over tiles that as many would make.
    pub clusters: f64,
    /// Turns in which they run.
    pub turns: f64,
    /// Clusters in the last turn over those that would fit.
    pub last_turn: f64,
    /// Stages that each block goes through in a turn.
    pub steps: f64,
    /// One stage on one multiprocessor: the tensor cores, the L2 and rows that straddle lines together, or the latency.
    pub step: f64,
    /// The tensor cores' time for a stage.
    pub tensor: f64,
    /// The L2's time for a stage.
    pub l2: f64,
    /// TMA's for asking twice for the rows of a stage that straddle lines.
    pub straddling: f64,
    /// A load's latency over the stages that are on their way.
    pub latency: f64,
    /// Storing C, as far as nothing hides it.
    pub epilogue: f64,
    /// Blocks of a cluster waiting for each other, and adding up where they share a tile; and clusters that do.
    pub meeting: f64,
    /// Bytes from and to DRAM.
    pub dram_bytes: f64,
    /// What DRAM alone would take.
    pub dram: f64,
}

impl Prediction {
    /// The steps of all turns.
    pub fn main_loop(&self) -> f64 {
        self.turns * self.steps * self.step
    }

    /// What bounds it.
    pub fn bound(&self) -> Bound {
        let fixed = self.fill + self.epilogue + self.meeting;
        if self.dram > fixed + self.main_loop() {
            Bound::Dram
        } else if self.launch + fixed > self.main_loop() {
            Bound::Fixed
        } else if self.latency >= self.step {
            Bound::Latency
        } else if self.l2.max(self.straddling) > self.tensor {
            Bound::L2
        } else {
            Bound::TensorCores
        }
    }
}

/// In seconds.
const MICROSECOND: f64 = 1e-6;

/// Bytes of a line of the L2.
const LINE: usize = 128;

/// The share of the rows of A and B, of `k` elements in as many bytes as TMA lets a row have at the least, that do not
/// begin where a line does: with rows of 2000 bytes 7/8, of 4000 bytes 3/4, of 8000 bytes half.
fn straddling(element: Element, k: usize) -> f64 {
    let unit = leading_dimension_unit(element);
    let (unit_bytes, units) = (unit * element.bytes(), k.div_ceil(unit));
    // The greatest power of two that divides a row and a line: rows begin at its multiples, at each as many.
    let step = unit_bytes << units.trailing_zeros().min((LINE / unit_bytes).trailing_zeros());
    1.0 - step as f64 / LINE as f64
}

/// Whether each row of A and B begins where a line does.
fn rows_fill_lines(element: Element, k: usize) -> bool {
    straddling(element, k) == 0.0
}

/// The model's time for C = A·Bᵀ of M×N×K with `config` (of one of [`KERNELS`]; of others it knows nothing), `band` rows
/// of tiles, or of clusters of them, in a band, and `parts` clusters that share each tile. Sizes of 0 count as 1.
pub fn predict(config: &Config, band: u32, parts: u32, [m, n, k]: [usize; 3]) -> Prediction {
    use constants::*;

    let [m, n, k] = [m, n, k].map(|size| size.max(1));
    if config.kernel == Kernel::Gemv {
        return predict_gemv(config, [m, n, k]);
    }
    let Config { tile, cluster, splits, stages, .. } = *config;
    let persistent = config.kernel.is_persistent();
    let bytes = config.element.bytes() as f64;
    let clock = 1.0 / (CLOCK * 1e6);

    let rows = m.div_ceil(tile.m * cluster.m) as f64;
    let columns = n.div_ceil(tile.n * cluster.n) as f64;
    let tiles = rows * columns;
    let clusters = tiles * f64::from(parts);
    let at_once = clusters_a_turn(config) as f64;
    let turns = (clusters / at_once).ceil();
    let steps = (k.div_ceil(tile.k).div_ceil(splits * parts as usize)) as f64;
    let resident = config.min_blocks() as f64;

    // An MMA of fewer than 64 columns takes as long as one of 64: it waits for its rows of A.
    let width = tile.mma_columns().max(64) as f64;
    let mmas = (tile.mma_rows() / 64 * tile.k / config.element.mma_k()) as f64;
    let tensor = mmas * width / 2.0 * (1.0 + NARROW * (256.0 / width - 1.0)) * clock;
    // Neighbours' requests for the same line are merged, which makes multicast no better; but not where most of those who
    // run at once have another K. Single blocks of one part lie side by side, and some of their requests are merged: as
    // many, it is assumed, as if the square root of those who share a tile did.
    let row_bytes = tile.k as f64 * bytes;
    let share_straddling = straddling(config.element, k);
    let aligned = share_straddling == 0.0;
    let together = rows.min(columns) >= TOGETHER && turns > 1.0;
    let merged = if aligned && stages <= 3 && together { 1.0 - SHORT_RING } else { 1.0 };
    let side_by_side = |tiles: f64| tiles.min(SIDE_BY_SIDE).sqrt();
    let own_rows = (config.a_box()[1] + config.b_box()[1]) as f64;
    let loaded = if config.kernel != Kernel::Parts {
        (tile.m + tile.n) as f64 * row_bytes
    } else if cluster == Cluster::ONE && parts > 1 {
        (tile.m as f64 / side_by_side(columns) + tile.n as f64 / side_by_side(rows)) * row_bytes
    } else {
        own_rows * row_bytes
    };
    let l2 = merged * loaded / L2 * clock;
    // Each such row is asked for twice, and multicast saves that.
    let straddling = own_rows * share_straddling * STRADDLING * clock;
    let busy = [tensor, l2, straddling].map(|time| time.powf(SHARPNESS)).iter().sum::<f64>().powf(1.0 / SHARPNESS);

    let outside = (tile.m.saturating_sub(m) + tile.n.saturating_sub(n)) as f64 / (tile.m + tile.n) as f64;

    let [m, n, k] = [m, n, k].map(|size| size as f64);
    let band = f64::from(band.max(1)).min(rows);
    let b_bytes = n * k * bytes;
    // Half of the L2: A and C need room too.
    let passes = if b_bytes > L2_BYTES / 2.0 { (rows / band).ceil() } else { 1.0 };
    let c_bytes = m * n * bytes;
    let dram_bytes = m * k * bytes + passes * b_bytes + c_bytes;
    let dram = (1.0 + OUTSIDE * outside) * (dram_bytes + SCATTER * band.log2() * c_bytes) / (DRAM * 1e12);

    let load = dram / (dram + turns * steps * busy);
    // The stage that is being multiplied is not on its way.
    let in_flight = (stages - 1).max(1) as f64 * turns.min(resident);
    let latency =
        merged * (1.0 + share_straddling * STRADDLING_LATENCY) * (LATENCY + LATENCY_LOADED * load) * MICROSECOND
            / in_flight;
    let step = busy.max(latency);

    // Wider ones measured no faster.
    let slab = slab_columns(tile.mma_columns() / splits).min(64);
    let store =
        EPILOGUE * MICROSECOND * (tile.m * tile.n) as f64 / (128.0 * 256.0) * (1.0 + SLAB * (64.0 / slab as f64 - 1.0));
    let neighbours = CLUSTER * (cluster.blocks() as f64).log2();
    let (fills, stores, meeting) = if persistent {
        let exposed = match config.kernel {
            // Without a producer nothing is loaded meanwhile.
            Kernel::Wide => 1.0,
            // The other warpgroup multiplies meanwhile.
            Kernel::PingPong => 0.0,
            _ => EXPOSED,
        };
        (1.0, 1.0 + exposed * (turns - 1.0), neighbours)
    } else {
        ((turns / resident).ceil(), turns / splits as f64, neighbours + REDUCTION * (splits as f64).log2())
    };
    let meeting = meeting + if parts > 1 { global_meeting(config, tiles, f64::from(parts)) } else { 0.0 };
    let (launch, fill, epilogue, meeting) =
        (LAUNCH * MICROSECOND, fills * FILL * MICROSECOND, stores * store, meeting * MICROSECOND);

    let on_chip = fill + turns * steps * step + epilogue + meeting;
    let seconds = launch + (on_chip.powi(4) + dram.powi(4)).sqrt().sqrt();
    let last_turn = (clusters - (turns - 1.0) * at_once) / at_once;
    Prediction {
        seconds,
        launch,
        fill,
        clusters,
        turns,
        last_turn,
        steps,
        step,
        tensor,
        l2,
        straddling,
        latency,
        epilogue,
        meeting,
        dram_bytes,
        dram,
    }
}

/// [`predict`], for gemv.
fn predict_gemv(config: &Config, [m, n, k]: [usize; 3]) -> Prediction {
    use constants::*;

    let clusters = config.blocks(m, n) as f64;
    let at_once = clusters_a_turn(config) as f64;
    let turns = (clusters / at_once).ceil();
    let steps = k.div_ceil(config.tile.k) as f64;
    let few = (256.0 / config.threads() as f64 - 1.0).max(0.0);
    let (launch, step) = (GEMV_START * MICROSECOND, GEMV_ROUND * MICROSECOND * (1.0 + GEMV_FEW_WARPS * few));
    let rows = m.div_ceil(config.tile.m) as f64;
    let [m, n, k] = [m, n, k].map(|size| size as f64);
    // B once for each row of tiles: nothing sees to it that the L2 still has it.
    let dram_bytes = (m * k + rows * n * k + m * n) * config.element.bytes() as f64;
    let dram = dram_bytes / (DRAM * 1e12);
    Prediction {
        seconds: launch + (turns * steps * step).hypot(dram),
        launch,
        fill: 0.0,
        clusters,
        turns,
        last_turn: (clusters - (turns - 1.0) * at_once) / at_once,
        steps,
        step,
        tensor: 0.0,
        l2: 0.0,
        straddling: 0.0,
        latency: step,
        epilogue: 0.0,
        meeting: 0.0,
        dram_bytes,
        dram,
    }
}

/// Microseconds that `parts` clusters of `config` take to add up each of `tiles` tiles through global memory: to meet;
/// for each of those who have a share, to read it; and for all of them, to go through the L2 and back.
fn global_meeting(config: &Config, tiles: f64, parts: f64) -> f64 {
    use constants::*;

    let Config { tile, splits, .. } = *config;
    let tiles = tiles * config.cluster.blocks() as f64;
    let tile_bytes = (tile.m * tile.n * size_of::<f32>()) as f64;
    let octets = (tile.mma_rows() / 64 / config.tile_warpgroups() * tile.mma_columns() / splits / 8) as u32;
    let loads = octets.div_ceil(workspace::shares(parts as u32, octets)) * parts as u32;
    let share = f64::from(loads.div_ceil(workspace::LOADS as u32)) * PARTIALS;
    let all = 2.0 * tiles * parts * tile_bytes / (PARTIALS_ALL * 1e6);
    GLOBAL_MEETING + share + all
}

/// A configuration with a band, and what the model says of it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Candidate {
    /// The row of the catalogue.
    pub config: &'static Config,
    /// Rows of tiles, or of clusters of them, that are taken together.
    pub band: u32,
    /// Clusters that share each tile.
    pub parts: u32,
    /// Its time.
    pub prediction: Prediction,
}

/// The kernels that the model knows.
pub const KERNELS: [Kernel; 6] =
    [Kernel::Gemv, Kernel::Split, Kernel::Parts, Kernel::Persistent, Kernel::Wide, Kernel::PingPong];

/// Tiles from which bands of half as many rows as usual are looked at too, which may be better where K is short.
const MANY_TILES: usize = 400;

/// Everything that the model has to choose from: the compiled configurations of `kernel`, or of all [`KERNELS`],
/// for elements of type `element`.
fn candidates(element: Element, kernel: Option<Kernel>, sizes: [usize; 3]) -> impl Iterator<Item = Candidate> {
    let wanted = move |config: &&Config| {
        config.element == element
            && KERNELS.contains(&config.kernel)
            && kernel.is_none_or(|kernel| kernel == config.kernel)
            // Tiles of few rows are for a C of few: of others nothing was measured.
            // Gemv has no other.
            && (!config.tile.is_swapped() || sizes[0] <= 2 * config.tile.m || kernel == Some(Kernel::Gemv))
    };
    COMPILED.iter().filter(wanted).flat_map(move |config| {
        let [m, n, _] = sizes;
        let tiles = m.div_ceil(config.tile.m).saturating_mul(n.div_ceil(config.tile.n));
        let band = config.band() as u32;
        let halves = if tiles > MANY_TILES && config.kernel != Kernel::Gemv { 2 } else { 1 };
        let candidate =
            move |(band, parts)| Candidate { config, band, parts, prediction: predict(config, band, parts, sizes) };
        [band, band / 2]
            .into_iter()
            .take(halves)
            .flat_map(move |band| parts(config, sizes).map(move |parts| (band, parts)))
            .map(candidate)
    })
}

/// Stages of K that a block has at the least where clusters share a tile: with fewer, it does little but meet.
const LEAST_STEPS: usize = 4;

/// How many clusters may share a tile of `config`, for a product of M×N×K: one; and where the tiles take no more than
/// half of the device, as many as take one turn and have enough K each, and half as many.
pub fn parts(config: &Config, [m, n, k]: [usize; 3]) -> impl Iterator<Item = u32> + use<> {
    let Config { tile, cluster, .. } = *config;
    let tiles = m.div_ceil(tile.m * cluster.m).saturating_mul(n.div_ceil(tile.n * cluster.n)).max(1);
    let at_once = clusters_at_once(config.cluster_blocks()) * config.min_blocks();
    let by_k = k.div_ceil(config.tile.k) / (config.splits * LEAST_STEPS);
    let most = if config.kernel.takes_parts() { (at_once / tiles).min(by_k) as u32 } else { 1 };
    [1, most / 2, most].into_iter().enumerate().filter(|&(i, parts)| i == 0 || parts > 1).map(|(_, parts)| parts)
}

/// All candidates, the fastest first; at equal times in the order of the catalogue.
pub fn ranked(element: Element, kernel: Option<Kernel>, sizes: [usize; 3]) -> Vec<Candidate> {
    let mut all: Vec<Candidate> = candidates(element, kernel, sizes).collect();
    all.sort_by(|a, b| a.prediction.seconds.total_cmp(&b.prediction.seconds));
    all
}

/// What to launch, and whether it was measured to be better than what the model would choose.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Pick {
    /// The configuration and its band.
    pub candidate: Candidate,
    /// The measurement that overrules the model.
    pub exception: Option<&'static Exception>,
}

/// The fastest configuration of `kernel`, or of all [`KERNELS`], for C = A·Bᵀ of M×N×K: that of the nearest exception
/// that covers the sizes, where one does, else the model's. `None` where the model knows none of the kernel.
pub fn choose(element: Element, kernel: Option<Kernel>, sizes: [usize; 3]) -> Option<Pick> {
    let of_kernel = |_: &Exception, config: &Config| kernel.is_none_or(|kernel| kernel == config.kernel);
    if let Some(pick) = excepted(element, sizes, of_kernel) {
        return Some(pick);
    }
    let faster = |a: &Candidate, b: &Candidate| a.prediction.seconds.total_cmp(&b.prediction.seconds);
    candidates(element, kernel, sizes).min_by(faster).map(|candidate| Pick { candidate, exception: None })
}

/// What the nearest exception says that covers the sizes, of those that are `wanted`.
fn excepted(element: Element, sizes: [usize; 3], wanted: impl Fn(&Exception, &Config) -> bool) -> Option<Pick> {
    let covering = EXCEPTIONS.iter().filter(|exception| exception.covers(element, sizes)).filter_map(|exception| {
        let config = exception.config(element)?;
        wanted(exception, config).then_some((exception, config))
    });
    let (exception, config) = covering.min_by(|(a, _), (b, _)| a.distance(sizes).total_cmp(&b.distance(sizes)))?;
    let Exception { band, parts, .. } = *exception;
    let candidate = Candidate { config, band, parts, prediction: predict(config, band, parts, sizes) };
    Some(Pick { candidate, exception: Some(exception) })
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;
    use std::time::{Duration, Instant};

    use super::*;

    fn entry(name: &str) -> &'static Config {
        kernels::catalogue::by_entry(name).unwrap()
    }

    #[test]
    fn a_prediction_counts_turns_and_bytes() {
        let config = entry("persistent_f16_128x256x64_s4_c1x1");
        let found = predict(config, 16, 1, [4096, 4096, 4096]);
        assert_eq!((found.clusters, found.turns, found.steps), (512.0, 4.0, 64.0));
        assert!((found.last_turn - 116.0 / 132.0).abs() < 1e-12);
        // 33 MB an operand, of which B is read again for each of two bands, and C.
        assert_eq!(found.dram_bytes, 4.0 * 4096.0 * 4096.0 * 2.0);
        assert_eq!(found.bound(), Bound::TensorCores);
        // 16 MMAs of 128 clocks on two fragments of rows, at least.
        assert!(found.tensor >= 4.0 * 2.0 * 128.0 / 1755e6);
        let parts = found.fill + found.main_loop() + found.epilogue + found.meeting;
        assert!(found.seconds >= found.launch + parts.max(found.dram));

        let split = predict(entry("split_f16_64x128x64_s8_k4"), 16, 1, [64, 4096, 4096]);
        assert_eq!((split.clusters, split.turns, split.steps), (32.0, 2.0, 16.0));
        assert!(split.meeting > 0.0);
        // Three clusters share each of them: a third of the steps, and a longer meeting.
        let shared = predict(entry("split_f16_64x128x64_s8_k4"), 16, 3, [64, 4096, 4096]);
        assert_eq!((shared.clusters, shared.turns, shared.steps), (96.0, 4.0, 6.0));
        assert!(shared.meeting > split.meeting + 2.5e-6);
    }

    #[test]
    fn tiles_are_shared_where_they_leave_the_device_idle() {
        let parts = |name, sizes| parts(entry(name), sizes).collect::<Vec<_>>();
        // One tile, and 14 clusters of eight blocks at once; of single blocks 132, half of which is 66. Twice as many
        // where a multiprocessor has room for two.
        assert_eq!(parts("split_f16_128x128x64_s6_k8", [128, 128, 131072]), [1, 7, 14]);
        assert_eq!(parts("split_f16_128x128x64_s6_k1", [128, 128, 131072]), [1, 66, 132]);
        assert_eq!(parts("split_f16_128x128x64_s3_k1", [128, 128, 131072]), [1, 132, 264]);
        // 40 stages of K are enough for ten blocks, and nine stages for two.
        assert_eq!(parts("split_f16_128x128x64_s6_k1", [128, 128, 2560]), [1, 5, 10]);
        assert_eq!(parts("split_f16_128x128x64_s6_k1", [128, 128, 576]), [1, 2]);
        // 64 tiles leave room for as many again, 81 for none.
        assert_eq!(parts("split_f16_128x128x64_s6_k1", [1024, 1024, 8192]), [1, 2]);
        assert_eq!(parts("split_f16_128x128x64_s6_k1", [1152, 1152, 8192]), [1]);
        assert_eq!(parts("persistent_f16_128x128x64_s6_c1x1", [128, 128, 131072]), [1]);
    }

    #[test]
    fn what_bounds_follows_the_form_of_the_product() {
        let bound = |sizes| choose(Element::F16, None, sizes).unwrap().candidate.prediction.bound();
        assert_eq!(bound([8192; 3]), Bound::TensorCores);
        assert_eq!(bound([1, 28672, 8192]), Bound::Dram);
        assert_eq!(bound([128; 3]), Bound::Fixed);
    }

    #[test]
    fn every_size_has_a_choice_that_takes_time() {
        for element in Element::ALL {
            for sizes in [[0; 3], [1; 3], [1, 1 << 31, 1], [1 << 31; 3], [usize::MAX; 3], [1797, 10, 64]] {
                let all = ranked(element, None, sizes);
                assert!(all.iter().all(|candidate| candidate.prediction.seconds > 0.0), "{sizes:?}");
                assert!(all.is_sorted_by(|a, b| a.prediction.seconds <= b.prediction.seconds), "{sizes:?}");
                assert_eq!(choose(element, None, sizes).unwrap().candidate.config.element, element);
            }
        }
        assert_eq!(choose(Element::F16, Some(Kernel::V3), [4096; 3]), None);
    }

    #[test]
    fn rows_straddle_lines_as_often_as_their_length_says() {
        for element in Element::ALL {
            for k in (1..=300usize).chain([1000, 2000, 3000, 4000, 4096, 5000]) {
                let row_bytes = k.div_ceil(8) * 8 * element.bytes();
                let straddling_rows = (0..LINE).filter(|row| row * row_bytes % LINE != 0).count();
                assert_eq!(straddling(element, k), straddling_rows as f64 / LINE as f64, "{k}");
            }
        }
    }

    /// Of several that cover a shape, its own; and of few rows, those of as few.
    #[test]
    fn the_nearest_exception_counts() {
        for exception in EXCEPTIONS {
            let Pick { exception: found, .. } = choose(Element::F16, None, exception.measured).unwrap();
            assert_eq!(found, Some(exception));
        }
    }

    #[test]
    fn exceptions_hold_for_their_neighbourhood_and_both_types() {
        for exception in EXCEPTIONS {
            let [m, n, k] = exception.measured;
            for element in Element::ALL {
                let config = exception.config(element).unwrap();
                assert_eq!((config.element, config.tile), (element, entry(exception.entry).tile));
                assert!(exception.covers(element, [m, n, k]));
                for other in [[2 * m + 64, n, k], [m, 2 * n + 64, k], [m, n, 2 * k], [m, n, k / 2]] {
                    assert!(!exception.covers(element, other), "{exception:?} {other:?}");
                }
                // Rows of C that TMA can store, and rows of A and B that it loads by whole lines.
                assert_eq!(exception.covers(element, [m, n + 1, k]), n % 8 != 0 && (n + 1) % 8 != 0, "{exception:?}");
                assert!(k % 64 != 0 || !exception.covers(element, [m, n, k - 8]), "{exception:?}");
            }
        }
    }

    /// It is on the way to every product of a shape that is new.
    #[test]
    fn a_choice_takes_microseconds() {
        let time = || {
            let start = Instant::now();
            black_box(choose(black_box(Element::F16), None, black_box([4096, 14336, 4096])));
            start.elapsed()
        };
        let least = (0..50).map(|_| time()).min().unwrap();
        println!("a choice takes {least:?}");
        // A build without optimisation may take twenty times as long.
        assert!(least < Duration::from_micros(if cfg!(debug_assertions) { 1000 } else { 50 }), "{least:?}");
    }
}
