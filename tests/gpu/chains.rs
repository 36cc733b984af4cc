//! Products that follow each other in a stream without a pause, each of what the one before it has written.
//!
//! Grids overlap there: one is set up, and asks the L2 for what it will read, while the one before still writes it. What was
//! read too early, or kept by a cache from before, would be the product before last's.

use hopper_gemm::cuda::{DeviceMatrix, DeviceMatrixMut};
use hopper_gemm::select::{Request, select};
use hopper_gemm::{Element, MatMut, random};
use kernels::catalogue::Config;

use crate::support::{Failure, Gpu, Test, ensure, for_element, multiplying, test, wait};

/// Of the last product; its B is the C of the one before, 1200 rows of 1160.
const ROWS: usize = 5;
const COLUMNS: usize = 1200;
const DEPTH: usize = 1160;
/// What the B before is multiplied from.
const INNER: usize = 72;
/// Products that write B and products that read it, in turn.
const TURNS: usize = 60;

pub fn tests() -> Vec<Test> {
    multiplying()
        .map(|config| {
            test(format!("chain::{}", config.entry), move |gpu| for_element!(config.element, chain(gpu, config)))
        })
        .collect()
}

fn chain<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let stream = gpu.device.stream()?;
    let matrix = |rows, columns, seed| -> Result<DeviceMatrix<T>, Failure> {
        let host = random::normal::<T>(rows, columns, seed, random::A)?;
        Ok(DeviceMatrix::from_host(&stream, &host.view())?)
    };
    let (a, right) = (matrix(ROWS, DEPTH, 1)?, matrix(DEPTH, INNER, 2)?);
    let lefts = [matrix(COLUMNS, INNER, 3)?, matrix(COLUMNS, INNER, 4)?];
    let b = DeviceMatrix::<T>::new(&gpu.device, COLUMNS, DEPTH)?;
    // SAFETY: `b` owns the memory. One grid writes it and the next reads it, in the order of the stream.
    let written = || unsafe { DeviceMatrixMut::<T>::from_raw(&gpu.device, b.address(), COLUMNS, DEPTH, b.ld()) };
    // What writes it, whatever the library takes for that.
    let writers = {
        let selected = select(T::KIND, [COLUMNS, DEPTH, INNER], &Request::default())?;
        let writer = |left| gpu.gemm.plan_selected(selected, left, &right, written());
        [writer(&lefts[0])?, writer(&lefts[1])?]
    };
    let what = || format!("{} in a chain", config.entry);
    let bits = |c: &DeviceMatrix<T>| -> Result<Vec<u16>, Failure> {
        let mut host = vec![T::default(); ROWS * COLUMNS];
        c.download(&stream, &mut MatMut::new(&mut host, ROWS, COLUMNS, COLUMNS)?)?;
        Ok(host.into_iter().map(T::to_bits).collect())
    };

    let mut alone = Vec::new();
    for writer in &writers {
        let mut c = DeviceMatrix::<T>::new(&gpu.device, ROWS, COLUMNS)?;
        writer.run(&stream)?;
        wait(&stream, what)?;
        gpu.gemm.plan(config, &a, &b, &mut c)?.run(&stream)?;
        wait(&stream, what)?;
        alone.push(bits(&c)?);
    }
    ensure!(alone[0] != alone[1], "{}: the two products are alike", config.entry);

    let mut results = Vec::new();
    for _ in 0..TURNS {
        results.push(DeviceMatrix::<T>::new(&gpu.device, ROWS, COLUMNS)?);
    }
    // All is made ready before, so that launches follow each other closely.
    let mut readers = Vec::new();
    for c in &mut results {
        readers.push(gpu.gemm.plan(config, &a, &b, c)?);
    }
    for (turn, reader) in readers.iter().enumerate() {
        writers[turn % 2].run(&stream)?;
        reader.run(&stream)?;
    }
    drop(readers);
    wait(&stream, what)?;
    for (turn, c) in results.iter().enumerate() {
        ensure!(bits(c)? == alone[turn % 2], "{}: turn {turn} of a chain has other bits than alone", config.entry);
    }
    Ok(())
}
