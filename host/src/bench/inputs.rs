//! The operands that all arms of a shape share.

use crate::cuda::{Device, DeviceMatrix, DeviceMatrixMut, Stream};
use crate::element::Element;
use crate::error::Result;
use crate::matrix::Matrix;
use crate::problem::Problem;
use crate::random;

/// Launches take their operands by turns from sets that together are at least so many times the L2 cache,
/// so that none finds its operands there from its own last turn.
const L2_MULTIPLE: usize = 3;
/// The most sets: a bound on what making them costs where the operands are tiny.
const MAX_SETS: usize = 512;

/// A, B and C of one shape, several times over where they are small, with standard normal A and B.
pub struct Inputs<T: Element> {
    /// A of the first set.
    pub host_a: Matrix<T>,
    /// B of the first set.
    pub host_b: Matrix<T>,
    problem: Problem,
    sets: Vec<Set<T>>,
}

struct Set<T: Element> {
    a: DeviceMatrix<T>,
    b: DeviceMatrix<T>,
    c: DeviceMatrix<T>,
}

impl<T: Element> Inputs<T> {
    /// Makes them for a product of M×N×K `sizes` and copies them to the device of `stream`: so many sets that
    /// they do not stay in the L2 cache, each with numbers of its own.
    pub fn new(stream: &Stream, sizes: (usize, usize, usize), seed: u64) -> Result<Inputs<T>> {
        Self::with_sets(stream, sizes, seed, set_count::<T>(stream.device(), sizes))
    }

    /// As [`Inputs::new`], with one set.
    pub fn single(stream: &Stream, sizes: (usize, usize, usize), seed: u64) -> Result<Inputs<T>> {
        Self::with_sets(stream, sizes, seed, 1)
    }

    fn with_sets(stream: &Stream, sizes: (usize, usize, usize), seed: u64, count: usize) -> Result<Inputs<T>> {
        let (m, n, k) = sizes;
        // Different seeds, one beside the other, give unrelated numbers.
        let operands = |set: usize| -> Result<(Matrix<T>, Matrix<T>)> {
            let seed = seed.wrapping_add(set as u64);
            Ok((random::normal(m, k, seed, random::A)?, random::normal(n, k, seed, random::B)?))
        };
        let upload = |(a, b): &(Matrix<T>, Matrix<T>)| -> Result<Set<T>> {
            Ok(Set {
                a: DeviceMatrix::from_host(stream, &a.view())?,
                b: DeviceMatrix::from_host(stream, &b.view())?,
                c: DeviceMatrix::new(stream.device(), m, n)?,
            })
        };
        let first = operands(0)?;
        let mut sets = vec![upload(&first)?];
        for set in 1..count {
            sets.push(upload(&operands(set)?)?);
        }
        let Set { a, b, c } = &sets[0];
        let problem = Problem::with_leading_dimensions(T::KIND, sizes, a.ld(), b.ld(), c.ld())?;
        let (host_a, host_b) = first;
        Ok(Inputs { host_a, host_b, problem, sets })
    }

    /// The product, with the leading dimensions that the operands have.
    pub fn problem(&self) -> &Problem {
        &self.problem
    }

    /// How many sets there are.
    pub fn sets(&self) -> usize {
        self.sets.len()
    }

    /// A of set `set`.
    pub fn a(&self, set: usize) -> &DeviceMatrix<T> {
        &self.sets[set].a
    }

    /// B of set `set`.
    pub fn b(&self, set: usize) -> &DeviceMatrix<T> {
        &self.sets[set].b
    }

    /// C of set `set`.
    pub fn c(&self, set: usize) -> &DeviceMatrix<T> {
        &self.sets[set].c
    }

    /// C of set `set`, to be written. All arms write the same C; the stream puts them in order.
    pub fn c_mut(&self, set: usize) -> DeviceMatrixMut<'_, T> {
        let c = &self.sets[set].c;
        // SAFETY: the memory is this set's own and lives as long as the borrow. Arms of one shape run on
        // one stream, so no two products write it at once, and it is read only after the stream is
        // synchronised.
        unsafe { DeviceMatrixMut::from_raw(c.device(), c.address(), c.rows(), c.cols(), c.ld()) }
    }
}

fn set_count<T: Element>(device: &Device, (m, n, k): (usize, usize, usize)) -> usize {
    let bytes = (m * k + n * k + m * n).max(1) * size_of::<T>();
    (L2_MULTIPLE * device.info().l2_bytes).div_ceil(bytes).clamp(1, MAX_SETS)
}
