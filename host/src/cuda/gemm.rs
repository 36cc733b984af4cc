//! The matrix product on a device.

use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use kernels::catalogue::{Config, Element as Kind};
use smallvec::SmallVec;

use super::driver::{Device, Stream};
use super::matrix::{self, DeviceMatrix, DeviceMatrixMut, DeviceMatrixRef};
use super::module::{INLINE_PARAMETERS, Kernel, Kernels, Parameter, Prefer};
use super::tensor_map::Encoded;
use super::workspace::{Addresses as WorkspaceAddresses, Workspaces};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::matrix::{MatMut, MatRef};
use crate::problem::{self, Addresses, Problem, Work};
use crate::select::{self, Request, Selection};
use crate::tensor_map::{self, TiledMatrix};

/// C = A·Bᵀ on one device: A is M×K, B is N×K, C is M×N, all row-major, products accumulated in f32.
///
/// Kernels are loaded when they are first used and kept, and so is what was chosen for a shape, what was made ready for
/// matrices at an address, and the memory through which clusters share tiles ([`Plan::with_parts`]). One value serves any
/// number of threads.
///
/// ```no_run
/// use half::f16;
/// use hopper_gemm::cuda::{Device, DeviceMatrix, Gemm};
///
/// # fn main() -> hopper_gemm::Result<()> {
/// let device = Device::open(0)?;
/// let gemm = Gemm::new(&device)?;
/// let stream = device.stream()?;
/// let a = DeviceMatrix::<f16>::new(&device, 1797, 64)?;
/// let b = DeviceMatrix::<f16>::new(&device, 10, 64)?;
/// let mut c = DeviceMatrix::<f16>::new(&device, 1797, 10)?;
/// gemm.run(&stream, &a, &b, &mut c)?;
/// stream.synchronize()?;
/// # Ok(())
/// # }
/// ```
pub struct Gemm {
    kernels: Kernels,
    /// By M, N, K and the element type.
    selections: Mutex<HashMap<([usize; 3], Kind), Selection>>,
    /// By what they are for.
    launches: Mutex<HashMap<Operands, Arc<Launch>>>,
    /// For plans whose tiles are shared by several clusters.
    workspaces: Arc<Workspaces>,
}

/// Shapes for which the choice is kept; with more of them all are forgotten, and chosen again.
const MOST_SELECTIONS: usize = 1024;
/// Operands for which the launch is kept, with its tensor maps; likewise.
const MOST_LAUNCHES: usize = 1024;

/// What a launch is for: all that it depends on, besides the device.
///
/// A tensor map holds an address, sizes and leading dimensions, and nothing of who owns the memory. So what was made ready
/// for matrices that have been dropped is right for others of the same shape that come to lie at the same addresses.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Operands {
    problem: Problem,
    addresses: Addresses,
}

impl Gemm {
    /// For `device`. Machine code comes from the embedded cubins where the driver accepts them, unless
    /// the environment says `HOPPER_GEMM_JIT=1`.
    ///
    /// # Errors
    /// When the device is not of compute capability 9.0.
    pub fn new(device: &Device) -> Result<Gemm> {
        Gemm::with_preference(device, Prefer::from_environment())
    }

    /// For `device`, with machine code from where `prefer` says.
    pub fn with_preference(device: &Device, prefer: Prefer) -> Result<Gemm> {
        Ok(Gemm {
            kernels: Kernels::new(device, prefer)?,
            selections: Mutex::default(),
            launches: Mutex::default(),
            workspaces: Arc::default(),
        })
    }

    /// The device.
    pub fn device(&self) -> &Device {
        self.kernels.device()
    }

    /// The kernels, to load one or to ask what it takes.
    pub fn kernels(&self) -> &Kernels {
        &self.kernels
    }

    /// Puts C = A·Bᵀ into `stream` with the kernel that [`select::select`] chooses. What it makes ready for the operands, tensor
    /// maps among it, is kept for the next call with the same ones.
    ///
    /// M or N of 0 does nothing; K of 0 writes zeros.
    ///
    /// # Errors
    /// When the shapes do not fit, when TMA cannot read A or B ([`Problem::check_tma`]), when a matrix
    /// or the stream is of another device, or when there is no memory for clusters to share tiles. What goes wrong while the kernel runs is returned by the
    /// stream's next synchronisation.
    pub fn run<'a, T: Element>(
        &self,
        stream: &Stream,
        a: impl Into<DeviceMatrixRef<'a, T>>,
        b: impl Into<DeviceMatrixRef<'a, T>>,
        c: impl Into<DeviceMatrixMut<'a, T>>,
    ) -> Result<()> {
        let (a, b, c) = (a.into(), b.into(), c.into());
        let problem = problem_of(&a, &b, &c)?;
        self.check_devices(&a, &b, &c)?;
        let operands = Operands { problem, addresses: addresses_of(&a, &b, &c) };
        // A thread that panicked has left a map that is still true.
        let known = self.launches.lock().unwrap_or_else(PoisonError::into_inner).get(&operands).cloned();
        if let Some(launch) = known {
            return launch.run(stream);
        }
        let plan = self.plan_selected(self.selected(&problem)?, a, b, c)?;
        let Action::Launch(launch) = plan.action else { return plan.run(stream) };
        let launch: Arc<Launch> = launch.into();
        let mut launches = self.launches.lock().unwrap_or_else(PoisonError::into_inner);
        if launches.len() >= MOST_LAUNCHES {
            launches.clear();
        }
        launches.insert(operands, Arc::clone(&launch));
        drop(launches);
        launch.run(stream)
    }

    /// Prepares C = A·Bᵀ with the kernel of `config`: checks everything, loads the kernel and encodes the
    /// tensor maps, so that [`Plan::run`] only launches.
    ///
    /// # Errors
    /// As [`Gemm::run`], and when `config` is for another element type.
    pub fn plan<'a, T: Element>(
        &self,
        config: &'static Config,
        a: impl Into<DeviceMatrixRef<'a, T>>,
        b: impl Into<DeviceMatrixRef<'a, T>>,
        c: impl Into<DeviceMatrixMut<'a, T>>,
    ) -> Result<Plan<'a>> {
        let (a, b, c) = (a.into(), b.into(), c.into());
        let problem = problem_of(&a, &b, &c)?;
        if config.element != T::KIND {
            return Err(Error::ElementType { entry: config.entry, kernel: config.element.name(), got: T::KIND.name() });
        }
        self.check_devices(&a, &b, &c)?;
        let addresses = addresses_of(&a, &b, &c);
        let action = match problem.work() {
            Work::Nothing => Action::Nothing,
            Work::Zeros => Action::Zeros { c: addresses.c },
            Work::Product => {
                let device = self.device();
                let operands = tensor_map::operands(&problem, config, addresses)?;
                let c_map = tensor_map::output(&problem, config, addresses);
                let tiles = config.blocks(problem.m(), problem.n());
                if tiles > i32::MAX as u64 {
                    let reason = format!("C has {tiles} tiles; it may have 2^31-1");
                    return Err(Error::Launch { entry: config.entry, reason });
                }
                let encode = |map: Option<TiledMatrix>| map.map_or(Ok(Encoded::UNUSED), |map| map.encode(device));
                Action::Launch(Box::new(Launch {
                    problem,
                    addresses,
                    kernel: self.kernels.get(config.entry)?,
                    config,
                    a_map: encode(operands.map(|[a, _]| a))?,
                    b_map: encode(operands.map(|[_, b]| b))?,
                    c_map: encode(c_map)?,
                    blocks: config.grid(problem.m(), problem.n(), device.info().multiprocessors as usize),
                    band: band_of(config, &problem, config.band()),
                    parts: 1,
                    workspaces: Arc::clone(&self.workspaces),
                }))
            }
        };
        Ok(Plan { problem, action, _matrices: PhantomData })
    }

    /// C = A·Bᵀ of matrices in host memory: copies A and B to the device, runs, and copies C back. Leading
    /// dimensions may be anything, since the copies are padded as TMA asks.
    ///
    /// # Errors
    /// When the shapes do not fit, when the device has not enough memory, or when anything fails on it.
    pub fn multiply<T: Element>(&self, a: &MatRef<'_, T>, b: &MatRef<'_, T>, c: &mut MatMut<'_, T>) -> Result<()> {
        let problem = Problem::of(a, b, c)?;
        self.multiply_selected(self.selected(&problem)?, a, b, c)
    }

    /// As [`Gemm::multiply`], with the kernel of `config`.
    ///
    /// # Errors
    /// As [`Gemm::multiply`]; and when the kernel computes no product (the ceiling of the benchmarks).
    pub fn multiply_with<T: Element>(
        &self,
        config: &'static Config,
        a: &MatRef<'_, T>,
        b: &MatRef<'_, T>,
        c: &mut MatMut<'_, T>,
    ) -> Result<()> {
        // Before anything is allocated.
        if !config.kernel.loads() {
            return Err(Error::NoProduct { kernel: config.kernel.name() });
        }
        Problem::of(a, b, c)?;
        self.multiply_selected(Selection::new(config), a, b, c)
    }

    fn multiply_selected<T: Element>(
        &self,
        selection: Selection,
        a: &MatRef<'_, T>,
        b: &MatRef<'_, T>,
        c: &mut MatMut<'_, T>,
    ) -> Result<()> {
        let stream = self.device().stream()?;
        let device_a = DeviceMatrix::from_host(&stream, a)?;
        let device_b = DeviceMatrix::from_host(&stream, b)?;
        let mut device_c = DeviceMatrix::new(self.device(), c.rows(), c.cols())?;
        self.plan_selected(selection, &device_a, &device_b, &mut device_c)?.run(&stream)?;
        device_c.download(&stream, c)
    }

    /// As [`Gemm::plan`], with the band and the parts of `selection` too.
    ///
    /// # Errors
    /// As [`Gemm::plan`] and [`Plan::with_parts`].
    pub fn plan_selected<'a, T: Element>(
        &self,
        Selection { config, band, parts }: Selection,
        a: impl Into<DeviceMatrixRef<'a, T>>,
        b: impl Into<DeviceMatrixRef<'a, T>>,
        c: impl Into<DeviceMatrixMut<'a, T>>,
    ) -> Result<Plan<'a>> {
        select::check_parts(config.kernel, parts)?;
        let plan = self.plan(config, a, b, c)?.with_parts(parts)?;
        Ok(match band {
            Some(band) => plan.with_band(band),
            None => plan,
        })
    }

    /// Refuses matrices of another device.
    fn check_devices<T>(
        &self,
        a: &DeviceMatrixRef<'_, T>,
        b: &DeviceMatrixRef<'_, T>,
        c: &DeviceMatrixMut<'_, T>,
    ) -> Result<()> {
        let expected = self.device().index();
        for (what, device) in [("A", a.0.device), ("B", b.0.device), ("C", c.0.device)] {
            if device != expected {
                return Err(Error::WrongDevice { what, device, expected });
            }
        }
        Ok(())
    }

    /// What [`select::select`] chooses for `problem`. Choosing takes longer than looking up what was chosen.
    fn selected(&self, problem: &Problem) -> Result<Selection> {
        let sizes = [problem.m(), problem.n(), problem.k()];
        // A thread that panicked has left a map that is still true.
        let mut selections = self.selections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(selection) = selections.get(&(sizes, problem.element())) {
            return Ok(*selection);
        }
        let selection = select::select(problem.element(), sizes, &Request::default())?;
        if selections.len() >= MOST_SELECTIONS {
            selections.clear();
        }
        selections.insert((sizes, problem.element()), selection);
        Ok(selection)
    }
}

fn problem_of<T: Element>(
    a: &DeviceMatrixRef<'_, T>,
    b: &DeviceMatrixRef<'_, T>,
    c: &DeviceMatrixMut<'_, T>,
) -> Result<Problem> {
    let (a, b, c) = (&a.0, &b.0, &c.0);
    let (m, n, k) = problem::sizes((a.rows, a.cols), (b.rows, b.cols))?;
    problem::check_output((c.rows, c.cols), (m, n))?;
    Problem::with_leading_dimensions(T::KIND, (m, n, k), a.ld, b.ld, c.ld)
}

fn addresses_of<T>(a: &DeviceMatrixRef<'_, T>, b: &DeviceMatrixRef<'_, T>, c: &DeviceMatrixMut<'_, T>) -> Addresses {
    Addresses { a: a.0.address, b: b.0.address, c: c.0.address }
}

/// A product that is ready to run, any number of times, on the matrices it was made for.
pub struct Plan<'a> {
    problem: Problem,
    action: Action,
    _matrices: PhantomData<&'a mut ()>,
}

enum Action {
    Nothing,
    /// Writes zeros to C, which begins at `c`.
    Zeros {
        c: u64,
    },
    Launch(Box<Launch>),
}

struct Launch {
    problem: Problem,
    addresses: Addresses,
    kernel: Arc<Kernel>,
    config: &'static Config,
    /// Passed to kernels that read by TMA; to others the addresses and leading dimensions.
    a_map: Encoded,
    b_map: Encoded,
    /// Passed to kernels that store by TMA; they look at it where C takes TMA.
    c_map: Encoded,
    blocks: u64,
    band: u32,
    /// Passed to kernels that take it, with a workspace where it is above 1.
    parts: u32,
    workspaces: Arc<Workspaces>,
}

/// `band` rows of tiles, or as many as C has: the kernels multiply it with the columns, in 32 bits.
fn band_of(config: &Config, problem: &Problem, band: usize) -> u32 {
    band.clamp(1, problem.m().div_ceil(config.tile.m * config.cluster.m).max(1)) as u32
}

impl Plan<'_> {
    /// What it computes.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// The kernel it launches; `None` where M, N or K is 0.
    pub fn kernel(&self) -> Option<&Kernel> {
        match &self.action {
            Action::Launch(launch) => Some(&launch.kernel),
            Action::Nothing | Action::Zeros { .. } => None,
        }
    }

    /// Takes the tiles of C in bands of `band` rows of tiles (at least 1) in place of the kernel's own.
    pub fn with_band(mut self, band: u32) -> Self {
        if let Action::Launch(launch) = &mut self.action {
            launch.band = band_of(launch.config, &self.problem, band as usize);
        }
        self
    }

    /// Has the K of each tile of C shared by `parts` clusters (1 where this is not called), which add up through
    /// device memory: for a C of fewer tiles than the device has multiprocessors. The result depends on `parts`, for
    /// sums are rounded in another order, but not on the run.
    ///
    /// The memory is `parts` times that of C in f32, in whole tiles. It is allocated when the plan first runs in a
    /// stream that has not had as much, which waits for the device and cannot be captured into a graph; and it is kept
    /// for what runs in the stream later, until the [`Gemm`] and its plans are dropped.
    ///
    /// # Errors
    /// When `parts` is 0 or above [`MOST_PARTS`](kernels::workspace::MOST_PARTS), or above 1 for a kernel that takes only 1
    /// ([`Error::Parts`]), or when the grid would have
    /// more blocks than a launch may have.
    pub fn with_parts(mut self, parts: u32) -> Result<Self> {
        if let Action::Launch(launch) = &mut self.action {
            let config = launch.config;
            select::check_parts(config.kernel, parts)?;
            let blocks = launch.blocks / u64::from(launch.parts) * u64::from(parts);
            if blocks > i32::MAX as u64 {
                let reason = format!("with {parts} clusters a tile it has {blocks} blocks; it may have 2^31-1");
                return Err(Error::Launch { entry: config.entry, reason });
            }
            (launch.blocks, launch.parts) = (blocks, parts);
        }
        Ok(self)
    }

    /// Puts the product into `stream` and returns at once, but for the first time that a tile is shared by several
    /// clusters ([`Plan::with_parts`]).
    ///
    /// # Errors
    /// When the stream is of another device, when there is no memory for the workspace, or when the driver refuses
    /// the launch.
    pub fn run(&self, stream: &Stream) -> Result<()> {
        match &self.action {
            Action::Nothing => Ok(()),
            // SAFETY: the plan borrows C, which has that shape.
            Action::Zeros { c } => unsafe {
                matrix::fill(stream, *c, 0, self.problem.m(), self.problem.n(), self.problem.ldc())
            },
            Action::Launch(launch) => launch.run(stream),
        }
    }
}

impl Launch {
    /// Puts the product into `stream`, for [`Plan::run`] and [`Gemm::run`], which hold views of the matrices that it is for.
    fn run(&self, stream: &Stream) -> Result<()> {
        let (problem, kernel) = (&self.problem, self.config.kernel);
        // Problem keeps them at most 2³¹.
        let [m, n, k] = [problem.m(), problem.n(), problem.k()].map(|size| size as u32);
        let [lda, ldb, ldc] = [problem.lda(), problem.ldb(), problem.ldc()].map(|ld| ld as u64);
        let Addresses { a, b, c } = self.addresses;
        // Before anything is allocated on its device.
        self.kernel.check_stream(stream)?;
        let workspace = self.config.workspace(problem.m(), problem.n(), self.parts);
        self.workspaces.with(stream, workspace, |WorkspaceAddresses { meetings, partials }| {
            let maps = [&self.a_map, &self.b_map, &self.c_map].map(Parameter::of);
            let sizes = [
                Parameter::of(&c),
                Parameter::of(&m),
                Parameter::of(&n),
                Parameter::of(&k),
                Parameter::of(&ldc),
                Parameter::of(&self.band),
            ];
            let shared = [Parameter::of(&self.parts), Parameter::of(&meetings), Parameter::of(&partials)];
            let direct = [Parameter::of(&a), Parameter::of(&lda), Parameter::of(&b), Parameter::of(&ldb)];
            let (maps, direct) = match (kernel.reads_by_tma(), kernel.stores_by_tma()) {
                (false, _) => (&[][..], &direct[..]),
                (true, false) => (&maps[..2], &[][..]),
                (true, true) => (&maps[..], &[][..]),
            };
            let shared = if kernel.takes_parts() { &shared[..] } else { &[] };
            let parameters: SmallVec<[Parameter<'_>; INLINE_PARAMETERS]> =
                maps.iter().chain(&sizes).chain(direct).chain(shared).copied().collect();
            // SAFETY: the parameters are those of the catalogue's kernels; maps and pointer describe
            // the matrices of which the caller holds views. A matrix that is dropped while the kernel runs
            // waits for it, and for views of foreign memory their maker has promised as much. The workspace
            // is as large as the launch needs and the stream's own; its meetings are zero, for launches
            // leave them so.
            unsafe { self.kernel.launch(stream, self.blocks, &parameters) }
        })
    }
}
