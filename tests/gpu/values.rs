//! What special values and sizes do.

use hopper_gemm::cuda::{DeviceMatrix, DeviceMatrixMut, DeviceMatrixRef, Gemm};
use hopper_gemm::{Element, MatMut, MatRef, check, random};
use kernels::catalogue::Config;

use crate::support::{
    Failure, Gpu, Output, Shape, Test, ensure, fill_all, for_element, multiplying, passed, test, wait,
};

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for config in multiplying() {
        tests.push(test(format!("special::{}", config.entry), move |gpu| {
            for_element!(config.element, special(gpu, config))
        }));
    }
    for element in kernels::catalogue::Element::ALL {
        let name = element.name();
        tests.push(test(format!("zero_sizes::{name}"), move |gpu| for_element!(element, zero_sizes(gpu))));
        tests.push(test(format!("host_slices::{name}"), move |gpu| for_element!(element, host_slices(gpu))));
        tests.push(test(format!("same_addresses::{name}"), move |gpu| for_element!(element, same_addresses(gpu))));
        tests.push(test(format!("copies::{name}"), move |gpu| for_element!(element, copies(gpu))));
    }
    tests
}

/// A NaN or infinity in A reaches its own row of C and nothing else, in B its own column; not by way of
/// the zeros that fill ragged tiles either.
fn special<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let shape = Shape::new(129, 70, 65);
    let Shape { n, k, .. } = shape;
    let case = gpu.case::<T>(shape)?;
    let stream = gpu.device.stream()?;
    let clean = case.run(gpu, &stream, config)?;
    for value in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        // First and last of a row, inside and at the ragged edge.
        for (row, column, at_k) in [(0, 69, 0), (128, 0, 64), (64, 63, 17)] {
            let (mut host_a, mut host_b) = (case.host_a.clone(), case.host_b.clone());
            host_a.data_mut()[row * k + at_k] = T::from_f32(value);
            host_b.data_mut()[column * k + at_k] = T::from_f32(value);
            let a = DeviceMatrix::from_host(&stream, &host_a.view())?;
            let b = DeviceMatrix::from_host(&stream, &host_b.view())?;
            let mut output = Output::<T>::new(&gpu.device, &stream, shape)?;
            gpu.gemm.plan(config, &a, &b, output.view(&gpu.device))?.run(&stream)?;
            wait(&stream, || format!("{} with {value}", config.entry))?;
            for (i, &bits) in output.read(&stream)?.iter().enumerate() {
                let (i, j) = (i / n, i % n);
                let result = T::from_bits(bits).to_f32();
                if i != row && j != column {
                    ensure!(
                        bits == clean[i * n + j],
                        "{value} in A[{row}, {at_k}] and B[{column}, {at_k}] changed C[{i}, {j}] to {result}"
                    );
                } else {
                    ensure!(!result.is_finite(), "{value} in row {row}, column {column} left C[{i}, {j}] at {result}");
                    if value.is_nan() {
                        ensure!(result.is_nan(), "NaN in row {row}, column {column} made C[{i}, {j}] {result}");
                    }
                }
            }
        }
    }
    Ok(())
}

/// What a call made ready for some addresses serves the next call with the same ones, whatever they hold by then, and no
/// call with other sizes or leading dimensions.
fn same_addresses<T: Element>(gpu: &Gpu) -> Result<(), Failure> {
    let gemm = Gemm::new(&gpu.device)?;
    let stream = gpu.device.stream()?;
    let [a, b, c] = [(); 3].map(|()| DeviceMatrix::<T>::new(&gpu.device, 256, 256));
    let (a, b, c) = (a?, b?, c?);
    for round in 0..3 {
        for [m, n, k, pad] in
            [[128, 64, 64, 0], [64, 128, 64, 0], [128, 64, 64, 8], [128, 64, 56, 0], [33, 17, 8, 0_usize]]
        {
            let what = format!("round {round}, {m}x{n}x{k}, rows {pad} elements longer");
            let (ld, ldc) = (k + pad, n.next_multiple_of(8) + pad);
            let host_a = random::normal::<T>(m, k, round, random::A)?;
            let host_b = random::normal::<T>(n, k, round, random::B)?;
            // SAFETY: each of the three has room for 256×256 elements, and nobody else uses them.
            let of = |matrix: &DeviceMatrix<T>, rows, cols, ld| unsafe {
                DeviceMatrixMut::<T>::from_raw(&gpu.device, matrix.address(), rows, cols, ld)
            };
            of(&a, m, k, ld).upload(&stream, &host_a.view())?;
            of(&b, n, k, ld).upload(&stream, &host_b.view())?;
            of(&c, m, n, ldc).fill(&stream, T::from_f32(f32::NAN))?;
            // SAFETY: as above.
            let [left, right] = [(&a, m), (&b, n)].map(|(matrix, rows)| unsafe {
                DeviceMatrixRef::<T>::from_raw(&gpu.device, matrix.address(), rows, k, ld)
            });
            gemm.run(&stream, left, right, of(&c, m, n, ldc))?;
            wait(&stream, || what.clone())?;
            let mut host_c = vec![T::default(); m * n];
            // SAFETY: as above.
            unsafe { DeviceMatrixRef::<T>::from_raw(&gpu.device, c.address(), m, n, ldc) }
                .download(&stream, &mut MatMut::new(&mut host_c, m, n, n)?)?;
            let c_view = MatRef::new(&host_c, m, n, n)?;
            let report = check::compare::<T, f64>(host_a.view(), host_b.view(), c_view, &mut |_| ())?;
            ensure!(report.passed(), "{what}: {report:?}");
        }
    }
    Ok(())
}

/// M or N of 0 does nothing; K of 0 writes zeros, and only into C.
fn zero_sizes<T: Element>(gpu: &Gpu) -> Result<(), Failure> {
    let stream = gpu.device.stream()?;
    for (shape, zeros) in [
        (Shape::new(0, 5, 8), false),
        (Shape::new(5, 0, 8), false),
        (Shape::new(0, 0, 0), false),
        (Shape::new(5, 7, 0), true),
        (Shape::new(130, 66, 0).padded(0, 0, 3, 1), true),
        (Shape::new(1, 70000, 0), true),
    ] {
        let Shape { m, n, k, .. } = shape;
        let a = DeviceMatrix::<T>::new(&gpu.device, m, k)?;
        let b = DeviceMatrix::<T>::new(&gpu.device, n, k)?;
        let mut output = Output::<T>::new(&gpu.device, &stream, shape)?;
        gpu.gemm.run(&stream, &a, &b, output.view(&gpu.device))?;
        let bits = output.read(&stream)?;
        ensure!(bits.len() == if zeros { m * n } else { 0 }, "{shape:?} has {} elements", bits.len());
        ensure!(bits.iter().all(|&bits| bits == 0), "{shape:?} did not become zero");
    }
    // Operands without elements have no address; they are not looked at.
    let (a, b, mut c) = ([], [], [T::from_f32(1.0); 6]);
    gpu.gemm.multiply::<T>(
        &MatRef::new(&a, 2, 0, 0)?,
        &MatRef::new(&b, 3, 0, 0)?,
        &mut MatMut::new(&mut c, 2, 3, 3)?,
    )?;
    ensure!(c.iter().all(|value| value.to_bits() == 0), "K of 0 on host slices left {c:?}");
    Ok(())
}

/// The one-call form takes any leading dimension and leaves what lies between the rows of C.
fn host_slices<T: Element>(gpu: &Gpu) -> Result<(), Failure> {
    for (m, n, k, lda, ldb, ldc) in [(33, 17, 65, 65, 67, 17), (130, 129, 7, 9, 7, 131), (1, 1, 1, 1, 1, 1)] {
        let (a, b) = (random::normal::<T>(m, lda, 11, random::A)?, random::normal::<T>(n, ldb, 11, random::B)?);
        let (a, b) = (MatRef::new(a.data(), m, k, lda)?, MatRef::new(b.data(), n, k, ldb)?);
        let untouched = T::from_f32(3.0);
        let mut c = vec![untouched; m * ldc];
        gpu.gemm.multiply(&a, &b, &mut MatMut::new(&mut c, m, n, ldc)?)?;
        passed(&check::compare::<T, f64>(a, b, MatRef::new(&c, m, n, ldc)?, &mut |_| ())?)?;
        let between = c.chunks(ldc).flat_map(|row| &row[n.min(row.len())..]);
        ensure!({ between }.all(|&value| value == untouched), "multiply wrote between the rows of C");
    }
    Ok(())
}

/// What is uploaded is what is downloaded, whole or by rows, whatever the leading dimensions.
fn copies<T: Element>(gpu: &Gpu) -> Result<(), Failure> {
    let stream = gpu.device.stream()?;
    for (rows, cols, host_ld, device_ld) in [(1, 1, 1, 1), (5, 7, 7, 7), (5, 7, 9, 8), (64, 33, 33, 40), (3, 0, 4, 4)] {
        let host = random::normal::<T>(rows, host_ld, 5, random::A)?;
        let host = host.data();
        let mut matrix = DeviceMatrix::<T>::with_ld(&gpu.device, rows, cols, device_ld)?;
        fill_all(&mut matrix, &stream, T::from_f32(-1.0))?;
        matrix.upload(&stream, &MatRef::new(host, rows, cols, host_ld)?)?;
        let mut back = vec![T::default(); rows * cols];
        matrix.download(&stream, &mut MatMut::new(&mut back, rows, cols, cols)?)?;
        for (i, &value) in back.iter().enumerate() {
            ensure!(
                value == host[i / cols * host_ld + i % cols],
                "element {i} of {rows}×{cols} came back as {value:?}"
            );
        }
        let mut last = vec![T::default(); cols];
        let view = matrix.view().row_range(rows - 1..rows)?;
        view.download(&stream, &mut MatMut::new(&mut last, 1, cols, cols)?)?;
        ensure!(last == host[(rows - 1) * host_ld..][..cols], "the last row of {rows}×{cols} came back as {last:?}");
    }
    Ok(())
}
