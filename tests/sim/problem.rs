//! Products with random operands.

use hopper_gemm::modules;
use kernels::catalogue::{Config, by_entry};
use sim::Program;
use sim::gemm::Product;
use sim::schedule::Random;

/// Operands of a product and what it must give.
pub struct Problem {
    pub config: &'static Config,
    pub size: [usize; 3],
    pub multiprocessors: usize,
    pub parts: u32,
    a: Vec<u16>,
    b: Vec<u16>,
    pub reference: Vec<u16>,
}

impl Problem {
    /// Random operands, of both signs and about eight binary orders of magnitude, for kernel `entry`.
    pub fn new(entry: &str, size: [usize; 3]) -> Problem {
        Problem::with(entry, size, |bits| bits & 0x8fff | 0x3000)
    }

    /// Operands made from random bits by `element`.
    pub fn with(entry: &str, [m, n, k]: [usize; 3], element: impl Fn(u16) -> u16) -> Problem {
        let mut random = Random::new(m as u64 ^ (n as u64) << 20 ^ (k as u64) << 40);
        let leading = k.next_multiple_of(8);
        let mut fill = |len: usize| (0..len).map(|_| element(random.bits() as u16)).collect::<Vec<u16>>();
        let (a, b) = (fill(m * leading), fill(n * leading));
        Problem::of(entry, [m, n, k], a, b)
    }

    /// As [`Problem::new`], but rows of A and B are zero except a few, which lie irregularly, and the last.
    pub fn sparse(entry: &str, [m, n, k]: [usize; 3]) -> Problem {
        let mut problem = Problem::new(entry, [m, n, k]);
        let leading = k.next_multiple_of(8);
        for (matrix, rows, distance) in [(&mut problem.a, m, 13), (&mut problem.b, n, 11)] {
            for (row, elements) in matrix.chunks_exact_mut(leading).enumerate() {
                if row % distance != 0 && row + 1 != rows {
                    elements.fill(0);
                }
            }
        }
        Problem::of(entry, [m, n, k], problem.a, problem.b)
    }

    /// The given operands, whose rows start at multiples of 8 elements.
    pub fn of(entry: &str, size: [usize; 3], a: Vec<u16>, b: Vec<u16>) -> Problem {
        let config = config(entry);
        let mut problem = Problem { config, size, multiprocessors: 132, parts: 1, a, b, reference: Vec::new() };
        problem.reference = problem.product().reference(config);
        problem
    }

    /// The same with each tile shared by `parts` clusters.
    pub fn shared(self, parts: u32) -> Problem {
        let mut problem = Problem { parts, ..self };
        problem.reference = problem.product().reference(problem.config);
        problem
    }

    pub fn product(&self) -> Product<'_> {
        let [m, n, k] = self.size;
        let leading = k.next_multiple_of(8);
        Product {
            m,
            n,
            k,
            a: &self.a,
            lda: leading,
            b: &self.b,
            ldb: leading,
            ldc: n,
            multiprocessors: self.multiprocessors,
            parts: self.parts,
        }
    }
}

fn config(entry: &str) -> &'static Config {
    by_entry(entry).unwrap_or_else(|| panic!("no kernel {entry}"))
}

/// The finished PTX of a kernel.
pub fn text(entry: &str) -> &'static str {
    modules::by_entry(entry).unwrap_or_else(|| panic!("no module {entry}")).ptx
}

/// A kernel, ready to run.
pub fn program(entry: &str) -> Program {
    Program::load(text(entry), entry).unwrap_or_else(|error| panic!("{entry}: {error}"))
}
