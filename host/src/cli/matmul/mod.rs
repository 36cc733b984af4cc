//! `hopper-gemm matmul`: one product, from files or from random numbers.

mod compute;
mod summary;

use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::{Args, ValueEnum};
use half::{bf16, f16};
use hopper_gemm::check;
use hopper_gemm::matrix::check_memory;
use hopper_gemm::npy::{self, Loaded};
use hopper_gemm::problem;
use hopper_gemm::select::{
    self, LARGE, Request, Selection, parse_cluster, parse_element, parse_kernel, parse_sizes, parse_tile,
};
use hopper_gemm::tune::Choice;
use hopper_gemm::{Element, Error, Matrix, Problem, random};
use kernels::catalogue::{self, Cluster, Kernel, Tile};
use sim::Schedule;

use super::device::{self, Device, Place};
use super::failure::Failure;
use super::output;
use super::progress::Progress;
use super::{parse_schedule, said};
use summary::{CheckSummary, DeviceSummary, Source, Summary, Written};

const USAGE: &str = "\
hopper-gemm matmul --a A.npy --b B.npy [--out C.npy] [OPTIONS]
       hopper-gemm matmul --random MxNxK [--out C.npy] [OPTIONS]";

/// Multiply two matrices, C = A·Bᵀ.
///
/// A holds M rows of K elements, B holds N rows of K elements: row j of B is what column j of the second
/// factor would be. C gets M rows of N elements. Give files with --a and --b, or sizes with --random.
///
/// Matrices are .npy files of f16, f32 or f64 (converted to the element type), in C or Fortran order.
#[derive(Args)]
#[command(override_usage = USAGE)]
pub struct Arguments {
    /// A, M×K
    #[arg(long, value_name = "FILE", required_unless_present = "random", requires = "b", help_heading = "Input")]
    a: Option<PathBuf>,
    /// B, N×K
    #[arg(long, value_name = "FILE", required_unless_present = "random", requires = "a", help_heading = "Input")]
    b: Option<PathBuf>,
    /// How the file of B holds it: nk as N×K, or kn as K×N, for a product that NumPy would write A @ B
    #[arg(long, value_name = "nk|kn", default_value = "nk", hide_possible_values = true, help_heading = "Input")]
    b_layout: Layout,
    /// Random normal matrices of these sizes in place of files: MxNxK, or one number for a square product
    #[arg(long, value_name = "MxNxK", value_parser = |text: &str| said(parse_sizes(text)), conflicts_with_all = ["a", "b", "b_layout"], help_heading = "Input")]
    random: Option<(usize, usize, usize)>,
    /// Seed of the random matrices, and of the simulator's first random schedule
    #[arg(long, value_name = "S", default_value_t = 0, help_heading = "Input")]
    seed: u64,
    /// Element type to compute with [default: f16, or bf16 with --bf16-as-u16]
    #[arg(long = "type", value_name = "f16|bf16", value_parser = |text: &str| said(parse_element(text)), help_heading = "Input")]
    element: Option<catalogue::Element>,
    /// 16-bit words in the files are the bits of bf16, for .npy has no such type; C is written so too
    #[arg(long, help_heading = "Input")]
    bf16_as_u16: bool,

    /// Where to compute: auto, cpu, sim, or cuda:N; sim runs the kernel's PTX on a model of the GPU; auto takes the first Hopper GPU if there is one, else the CPU
    #[arg(long, value_name = "DEVICE", default_value_t = Device::Auto, value_parser = |text: &str| said(text.parse::<Device>()), help_heading = "Computation")]
    device: Device,
    /// Kernel of the GPU; `hopper-gemm kernels` lists them [default: by shape]
    #[arg(long, value_name = "NAME", value_parser = |text: &str| said(parse_kernel(text)), help_heading = "Computation")]
    kernel: Option<Kernel>,
    /// Tile of one block of the GPU, such as 128x128x64 [default: by shape]
    #[arg(long, value_name = "MxNxK", value_parser = |text: &str| said(parse_tile(text)), help_heading = "Computation")]
    tile: Option<Tile>,
    /// Stages of the ring in shared memory [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Computation")]
    stages: Option<usize>,
    /// Tiles of a cluster, such as 2x1, for kernels that have clusters [default: none]
    #[arg(long, value_name = "MxN", value_parser = |text: &str| said(parse_cluster(text)), help_heading = "Computation")]
    cluster: Option<Cluster>,
    /// Blocks of a cluster that share the K of a tile, for kernels that split K [default: 1]
    #[arg(long, value_name = "N", help_heading = "Computation")]
    splits: Option<usize>,
    /// Clusters that share the K of a tile, for kernels that split K [default: 1]
    #[arg(long, value_name = "N", help_heading = "Computation")]
    parts: Option<u32>,
    /// The file of tuned answers, which a GPU uses where no tile, stages or cluster are given [default: that of
    /// `hopper-gemm tune`]
    #[arg(long, value_name = "FILE", help_heading = "Computation")]
    cache: Option<PathBuf>,
    /// Schedules that the simulator runs: the timing model's, then random ones
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Computation")]
    schedules: u64,
    /// The only schedule that the simulator runs, as a finding names it
    #[arg(long, value_name = "SCHEDULE", conflicts_with = "schedules", value_parser = parse_schedule, help_heading = "Computation")]
    schedule: Option<Schedule>,
    /// Compare the whole of C with a product by the CPU; exit with 1 if it is off by more than rounding
    /// explains
    #[arg(long, help_heading = "Computation")]
    check: bool,

    /// Write C to this .npy file: f16 as it is, bf16 as f32 unless --bf16-as-u16
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Print nothing but errors, and JSON where asked for
    #[arg(long, short, help_heading = "Output")]
    quiet: bool,
}

/// How a file holds B.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Layout {
    /// As N×K.
    Nk,
    /// As K×N.
    Kn,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let default = if arguments.bf16_as_u16 { catalogue::Element::Bf16 } else { catalogue::Element::F16 };
    match arguments.element.unwrap_or(default) {
        catalogue::Element::F16 => multiply::<f16>(arguments),
        catalogue::Element::Bf16 => multiply::<bf16>(arguments),
    }
}

fn multiply<T: Element>(arguments: &Arguments) -> Result<(), Failure> {
    let progress = Progress::new(arguments.quiet);
    let Arguments { kernel, tile, stages, cluster, splits, parts, .. } = *arguments;
    let request = Request { kernel, tile, stages, cluster, splits, parts };
    // What is wrong with the request is said before anything is read or computed.
    if request != Request::default() {
        let Selection { config, .. } = select::select(T::KIND, LARGE, &request)?;
        if !config.kernel.loads() {
            return Err(Error::NoProduct { kernel: config.kernel.name() }.into());
        }
    }
    let (place, why) = device::resolve(arguments.device)?;
    if let Some(path) = &arguments.out {
        check_writable(path)?;
    }
    if let (Place::Sim, Some((m, n, k))) = (place, arguments.random) {
        hopper_gemm::simulator::check_size([m, n, k])?;
    }

    let [(a, a_source), (b, b_source)] = inputs::<T>(arguments, progress)?;
    let problem = problem(arguments, &a, &b)?;
    let choice = Choice::untuned(&problem, &request)?;
    check_memory_for(&problem, 0)?;
    let mut c = Matrix::<T>::zeros(problem.m(), problem.n())?;
    let mut notes = Vec::new();
    let outcome = match place {
        Place::Cpu => {
            if request != Request::default() {
                notes.push(format!("{} was not used: kernels run on a GPU", choice.config.entry));
            }
            compute::on_cpu(&a, &b, &mut c, progress)?
        }
        Place::Sim if problem.work() != problem::Work::Product => compute::on_cpu(&a, &b, &mut c, progress)?,
        Place::Sim => compute::in_simulator(&choice, &schedules(arguments), &a, &b, &mut c, progress)?,
        #[cfg(feature = "cuda")]
        Place::Cuda(index) => {
            let device = hopper_gemm::cuda::Device::open(index)?;
            let choice = tuned(&device, &problem, &request, arguments.cache.as_deref(), &mut notes)?;
            compute::on_cuda(&device, &choice, &a, &b, &mut c, progress)?
        }
    };
    let check = arguments.check.then(|| compare(place, &a, &b, &c, progress)).transpose()?;
    let out = match &arguments.out {
        Some(path) => {
            let _task = progress.task("writing C", None);
            let options = npy::Options { bf16_as_u16: arguments.bf16_as_u16, transposed: false };
            let stored = npy::write(path, c.view(), options)?;
            Some(Written { path: path.clone(), stored: stored.to_string() })
        }
        None => None,
    };

    let summary = Summary {
        m: problem.m(),
        n: problem.n(),
        k: problem.k(),
        element: T::KIND.name(),
        a: a_source,
        b: b_source,
        device: DeviceSummary { option: option_of(place), name: outcome.device, why },
        kernel: outcome.kernel,
        simulation: outcome.simulation,
        seconds: outcome.seconds,
        runs: outcome.runs,
        flops_per_second: if outcome.seconds > 0.0 { problem.flops() / outcome.seconds } else { 0.0 },
        check,
        out,
        notes,
    };
    if arguments.json {
        output::json(&summary)?;
    } else if !arguments.quiet {
        output::print(&summary.text(problem.work()))?;
    }
    match summary.check.as_ref().and_then(CheckSummary::fault) {
        Some(fault) => {
            output::complain("error", &fault);
            Err(Failure::Check)
        }
        None => Ok(()),
    }
}

/// What to launch on `device`: with what the cache of tuned answers says, if it says anything. What is wrong with
/// the user's own cache is a note, for the product does not need it.
#[cfg(feature = "cuda")]
fn tuned(
    device: &hopper_gemm::cuda::Device,
    problem: &Problem,
    request: &Request,
    cache: Option<&Path>,
    notes: &mut Vec<String>,
) -> Result<Choice, Error> {
    use hopper_gemm::cuda::Prefer;
    use hopper_gemm::tune::{Cache, Target, choose};

    let (cache, notice) = match (cache, Cache::default_path()) {
        (Some(path), _) => Cache::read(path)?,
        (None, Ok(path)) => Cache::read(&path).unwrap_or_else(|error| {
            notes.push(error.to_string());
            (Cache::default(), None)
        }),
        // A user without a cache folder has no cache.
        (None, Err(_)) => (Cache::default(), None),
    };
    notes.extend(notice.map(|notice| notice.to_string()));
    choose(&cache, &Target::of(device.info(), Prefer::from_environment()), problem, request)
}

/// The schedules that the simulator runs.
fn schedules(arguments: &Arguments) -> Vec<Schedule> {
    if let Some(schedule) = &arguments.schedule {
        return vec![schedule.clone()];
    }
    let random = (1..arguments.schedules).map(|i| Schedule::Random(arguments.seed.wrapping_add(i - 1)));
    std::iter::once(Schedule::Timed).chain(random).collect()
}

/// A and B, and where they came from.
fn inputs<T: Element>(arguments: &Arguments, progress: Progress) -> Result<[(Matrix<T>, Source); 2], Failure> {
    if let Some((m, n, k)) = arguments.random {
        check_memory_for(&Problem::new(T::KIND, m, n, k)?, m * k + n * k)?;
        let _task = progress.task("drawing random numbers", None);
        let seed = arguments.seed;
        let a = random::normal(m, k, seed, random::A)?;
        let b = random::normal(n, k, seed, random::B)?;
        return Ok([(a, Source::Random { seed }), (b, Source::Random { seed })]);
    }
    let read = |path: &Option<PathBuf>, transposed| -> Result<(Matrix<T>, Source), Failure> {
        // The parser asks for both.
        let path = path.as_deref().unwrap_or(Path::new(""));
        let _task = progress.task(&format!("reading {}", path.display()), None);
        let options = npy::Options { bf16_as_u16: arguments.bf16_as_u16, transposed };
        let Loaded { matrix, stored, overflowed } = npy::read::<T>(path, options)?;
        let exact = stored.is_exact_in(T::KIND);
        Ok((matrix, Source::File { path: path.to_owned(), stored: stored.to_string(), exact, overflowed }))
    };
    Ok([read(&arguments.a, false)?, read(&arguments.b, arguments.b_layout == Layout::Kn)?])
}

/// The problem, or an error that knows how B was read.
fn problem<T: Element>(arguments: &Arguments, a: &Matrix<T>, b: &Matrix<T>) -> Result<Problem, Failure> {
    match problem::sizes((a.rows(), a.cols()), (b.rows(), b.cols())) {
        Ok((m, n, k)) => Ok(Problem::new(T::KIND, m, n, k)?),
        Err(error) => {
            let other_way = a.cols() == b.rows();
            let hint = other_way.then(|| match arguments.b_layout {
                Layout::Nk => "the file of B seems to hold it as K×N: --b-layout kn reads it so".to_owned(),
                Layout::Kn => "the file of B seems to hold it as N×K: leave out --b-layout kn".to_owned(),
            });
            Err(Failure::Library { error, hint })
        }
    }
}

/// Refuses a product for which the host has not enough memory, before the work is done that would be lost:
/// C, the copy of B in f32 of the CPU's product, and `operands` elements of A and B.
fn check_memory_for(problem: &Problem, operands: usize) -> Result<(), Error> {
    let (m, n, k) = (problem.m() as u128, problem.n() as u128, problem.k() as u128);
    let elements = m * n + operands as u128;
    let bytes = elements * problem.element().bytes() as u128 + n * k * size_of::<f32>() as u128;
    check_memory(&format!("a product of {m}×{n}×{k}"), bytes)
}

/// Refuses a path that cannot be written, before the work is done that would be lost.
fn check_writable(path: &Path) -> Result<(), Error> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let source = if path.is_dir() {
        std::io::ErrorKind::IsADirectory.into()
    } else {
        match std::fs::metadata(folder) {
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(_) => std::io::ErrorKind::NotADirectory.into(),
            Err(error) => error,
        }
    };
    Err(Error::File { action: "create", path: path.to_owned(), source })
}

fn option_of(place: Place) -> String {
    let device = match place {
        Place::Cpu => Device::Cpu,
        Place::Sim => Device::Sim,
        #[cfg(feature = "cuda")]
        Place::Cuda(index) => Device::Cuda(index),
    };
    device.to_string()
}

/// Compares C with a product of another kind than the one that made it.
fn compare<T: Element>(
    place: Place,
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &Matrix<T>,
    progress: Progress,
) -> Result<CheckSummary, Failure> {
    let task = progress.task("checking", Some(a.rows()));
    let start = Instant::now();
    let set = &mut |rows| task.set(rows);
    let (report, reference) = match place {
        Place::Cpu => (check::compare::<T, f64>(a.view(), b.view(), c.view(), set)?, "dot products in f64"),
        Place::Sim => (check::compare::<T, f32>(a.view(), b.view(), c.view(), set)?, "CPU product in f32"),
        #[cfg(feature = "cuda")]
        Place::Cuda(_) => (check::compare::<T, f32>(a.view(), b.view(), c.view(), set)?, "CPU product in f32"),
    };
    Ok(CheckSummary::new(&report, reference, start.elapsed().as_secs_f64()))
}
