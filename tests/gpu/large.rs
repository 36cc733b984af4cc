//! Matrices of more elements than 32 bits can count.

use half::f16;
use hopper_gemm::cuda::DeviceMatrix;
use hopper_gemm::{MatMut, MatRef, Matrix, check, random};
use kernels::catalogue::{Config, Element, Kernel};

use crate::support::{Failure, Gpu, Outcome, Test, ensure, multiplying, wait};

pub fn tests() -> Vec<Test> {
    Kernel::ALL
        .into_iter()
        .filter(|kernel| kernel.loads())
        .flat_map(|kernel| {
            let name = kernel.name();
            [
                (format!("large::c::{name}"), large(kernel, (65_600, 65_544, 24))),
                (format!("large::a::{name}"), large(kernel, (65_600, 72, 65_544))),
                (format!("large::b::{name}"), large(kernel, (72, 65_600, 65_544))),
            ]
        })
        .collect()
}

type Run = Box<dyn FnOnce(&Gpu) -> Result<Outcome, Failure> + Send>;

/// A product with one matrix of more than 2³² elements, checked in the rows and columns where 31 and 32
/// bits run out, and at the corners.
fn large(kernel: Kernel, (m, n, k): (usize, usize, usize)) -> Run {
    Box::new(move |gpu| {
        let bytes = 2 * (m * k + n * k + m * n);
        let (free, _) = gpu.device.memory()?;
        if free < bytes + (1 << 30) {
            return Ok(Outcome::Skipped(format!("skipped: needs {bytes} bytes, {free} are free")));
        }
        let config = largest_tile(kernel);
        let stream = gpu.device.stream()?;
        let (mut a, mut b) = (DeviceMatrix::new(&gpu.device, m, k)?, DeviceMatrix::new(&gpu.device, n, k)?);
        let mut c = DeviceMatrix::new(&gpu.device, m, n)?;
        // Ones everywhere but in the rows that are looked at.
        a.fill(&stream, f16::ONE)?;
        b.fill(&stream, f16::ONE)?;
        c.fill(&stream, f16::NAN)?;
        let rows = landmarks(m, n.max(k));
        let columns = landmarks(n, k);
        let upload = |matrix: &mut DeviceMatrix<f16>, which: &[usize], values: &Matrix<f16>| -> Result<(), Failure> {
            for (i, &row) in which.iter().enumerate() {
                matrix.view_mut().row_range(row..row + 1)?.upload(&stream, &values.view().row_range(i, 1))?;
            }
            Ok(())
        };
        let host_a = random::normal::<f16>(rows.len(), k, 1, random::A)?;
        let host_b = random::normal::<f16>(columns.len(), k, 1, random::B)?;
        upload(&mut a, &rows, &host_a)?;
        upload(&mut b, &columns, &host_b)?;
        gpu.gemm.plan(config, &a, &b, &mut c)?.run(&stream)?;
        wait(&stream, || format!("{} on {m}×{n}×{k}", config.entry))?;
        let mut seen = Vec::with_capacity(rows.len() * columns.len());
        for &row in &rows {
            let mut result = vec![f16::ZERO; n];
            c.view().row_range(row..row + 1)?.download(&stream, &mut MatMut::new(&mut result, 1, n, n)?)?;
            ensure!(!result.iter().any(|value| value.is_nan()), "row {row} of {m}×{n}×{k} was not all written");
            seen.extend(columns.iter().map(|&column| result[column]));
        }
        let seen = MatRef::new(&seen, rows.len(), columns.len(), columns.len())?;
        let report = check::compare::<f16, f64>(host_a.view(), host_b.view(), seen, &mut |_| ())?;
        ensure!(report.passed(), "{} on {m}×{n}×{k}, rows {rows:?}, columns {columns:?}: {report:?}", config.entry);
        Ok(Outcome::Passed)
    })
}

fn largest_tile(kernel: Kernel) -> &'static Config {
    multiplying()
        .filter(|config| config.kernel == kernel && config.element == Element::F16)
        .max_by_key(|config| (config.tile.m * config.tile.n, config.tile.k))
        .expect("every kernel has an f16 configuration")
}

/// Of `rows` rows of `length` elements: the first and last, and those where element counts pass 2³¹ and
/// 2³².
fn landmarks(rows: usize, length: usize) -> Vec<usize> {
    let mut found = vec![0, rows - 1];
    for limit in [1usize << 31, 1 << 32] {
        let row = limit / length;
        found.extend([row.saturating_sub(1), row, row + 1].into_iter().filter(|&row| row < rows));
    }
    found.sort_unstable();
    found.dedup();
    found
}
