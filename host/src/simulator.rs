//! The compiled kernels in the simulator: what [`sim`] does, on the matrices of this library.

use kernels::catalogue::Config;
use sim::gemm::{self, Product};
use sim::{Control, Explored, Outcome, Program, Schedule};

use crate::element::Element;
use crate::matrix::{MatRef, Matrix};
use crate::modules;

/// Multiply-adds that a simulation may have: minutes on a few cores.
pub const MOST_WORK: u64 = 1 << 35;

/// Refuses products that would take too long: M, N and K.
///
/// # Errors
/// When it has more than [`MOST_WORK`] multiply-adds.
pub fn check_size([m, n, k]: [usize; 3]) -> Result<(), gemm::Error> {
    let work = m as f64 * n as f64 * k as f64;
    if work <= MOST_WORK as f64 {
        return Ok(());
    }
    Err(gemm::Error::Argument(format!(
        "{m}×{n}×{k} is {work:.1e} multiply-adds: the simulator takes up to {:.1e}; the CPU or a GPU is the better \
         choice for more",
        MOST_WORK as f64
    )))
}

/// A kernel of the catalogue, loaded, and the product that it is to compute.
pub struct Simulation {
    config: &'static Config,
    program: Program,
    parts: u32,
    size: [usize; 3],
    leading: usize,
    a: Vec<u16>,
    b: Vec<u16>,
}

impl Simulation {
    /// Prepares C = A·Bᵀ with the kernel of `config`, each tile shared by `parts` clusters. The operands are copied, their rows padded to the
    /// multiples of eight elements that TMA needs.
    ///
    /// # Errors
    /// When the program cannot be loaded, the shapes do not fit, or the product is larger than
    /// [`MOST_WORK`].
    pub fn new<T: Element>(
        config: &'static Config,
        parts: u32,
        a: MatRef<'_, T>,
        b: MatRef<'_, T>,
    ) -> Result<Simulation, gemm::Error> {
        let argument = |message: String| Err(gemm::Error::Argument(message));
        if a.cols() != b.cols() {
            return argument(format!("A has {} columns and B {}: both must be K", a.cols(), b.cols()));
        }
        let (m, n, k) = (a.rows(), b.rows(), a.cols());
        check_size([m, n, k])?;
        let Some(module) = modules::by_entry(config.entry) else {
            return argument(format!("there is no module for {}", config.entry));
        };
        let program = Program::load(module.ptx, config.entry)?;
        let leading = k.next_multiple_of(8);
        let bits = |matrix: MatRef<'_, T>| {
            let mut out = vec![0; matrix.rows() * leading];
            for (row, out) in out.chunks_exact_mut(leading.max(1)).enumerate() {
                for (to, from) in out.iter_mut().zip(matrix.row(row)) {
                    *to = from.to_bits();
                }
            }
            out
        };
        Ok(Simulation { config, program, parts, size: [m, n, k], leading, a: bits(a), b: bits(b) })
    }

    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The configuration.
    pub fn config(&self) -> &'static Config {
        self.config
    }

    /// The product, as the simulator takes it.
    pub fn product(&self) -> Product<'_> {
        let [m, n, k] = self.size;
        Product {
            m,
            n,
            k,
            a: &self.a,
            lda: self.leading,
            b: &self.b,
            ldb: self.leading,
            ldc: n,
            multiprocessors: 132,
            parts: self.parts,
        }
    }

    /// Computes C under `schedule`.
    ///
    /// # Errors
    /// What the kernel does wrong.
    pub fn run<T: Element>(
        &self,
        schedule: &Schedule,
        control: Control<'_>,
    ) -> Result<(Matrix<T>, Outcome), gemm::Error> {
        let (c, outcome) = gemm::gemm(&self.program, self.config, &self.product(), schedule, control)?;
        let data = c.into_iter().map(T::from_bits).collect();
        let [m, n, _] = self.size;
        let matrix = Matrix::from_vec(data, m, n).map_err(|error| gemm::Error::Argument(error.to_string()))?;
        Ok((matrix, outcome))
    }

    /// C as the kernel must compute it, bit for bit.
    pub fn reference(&self) -> Vec<u16> {
        self.product().reference(self.config)
    }

    /// Runs under `schedule` and compares C with `reference`, bit for bit.
    ///
    /// # Errors
    /// What the kernel does wrong, a wrong result included.
    pub fn check(&self, reference: &[u16], schedule: &Schedule, control: Control<'_>) -> Result<Outcome, gemm::Error> {
        gemm::checked_gemm(&self.program, self.config, &self.product(), reference, schedule, control)
    }

    /// Tries every order of events, up to `most`: see [`gemm::explore_gemm`].
    ///
    /// # Errors
    /// As [`Simulation::check`].
    pub fn explore(&self, reference: &[u16], most: usize) -> Result<Explored, gemm::Error> {
        gemm::explore_gemm(&self.program, self.config, &self.product(), reference, most)
    }

    /// Warps of a cluster, for [`Schedule::extremes`].
    pub fn warps(&self) -> u32 {
        (self.config.threads() / kernels::catalogue::WARP * self.config.cluster_blocks()) as u32
    }
}
