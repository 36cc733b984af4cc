//! Criterion benchmarks: every kernel with its default configuration, and cuBLAS, a group for each shape.
//!
//! `cargo bench --features cuda,cublas [-- FILTER]`. Throughput is in floating-point operations, so
//! criterion's Gelem/s and Telem/s are GFLOPS and TFLOPS. Times are those of CUDA events, back to back. For
//! ratios that hold against the heat of the chip use `hopper-gemm bench`.

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use half::{bf16, f16};
use hopper_gemm::bench::arm::{ArmSpec, Tools};
use hopper_gemm::bench::results::Check;
use hopper_gemm::bench::{Inputs, Verifier, burst};
#[cfg(feature = "cublas")]
use hopper_gemm::cublas::Cublas;
use hopper_gemm::cuda::{Device, Event, Gemm};
use hopper_gemm::select::Request;
use hopper_gemm::{Element, Result};
use kernels::catalogue::Kernel;

/// M, N and K: two squares, the feed-forward layer of a language model, and one ragged in every dimension.
const SHAPES: [(usize, usize, usize); 4] =
    [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 4096, 14336), (2047, 4095, 1023)];
/// Seed of the operands.
const SEED: u64 = 1;
/// How many of cuBLASLt's proposals are tried.
const PROPOSALS: usize = 8;

/// The arms by name: all kernels, then cuBLAS.
fn arms() -> String {
    let kernels = Kernel::ALL.iter().map(|kernel| kernel.name());
    let libraries: &[&str] = if cfg!(feature = "cublas") { &["cublas", "gemmex"] } else { &[] };
    kernels.chain(libraries.iter().copied()).collect::<Vec<_>>().join(",")
}

fn shapes<T: Element>(criterion: &mut Criterion) -> Result<()> {
    let device = Device::open(0)?;
    let gemm = Gemm::new(&device)?;
    let stream = device.stream()?;
    #[cfg(feature = "cublas")]
    let cublas = Cublas::new(&device)?;
    let tools = Tools {
        gemm: &gemm,
        stream: &stream,
        #[cfg(feature = "cublas")]
        cublas: Some(&cublas),
        proposals: PROPOSALS,
    };
    let specs = ArmSpec::parse_list(&arms(), T::KIND, &Request::default())?;
    for (m, n, k) in SHAPES {
        let inputs = Inputs::<T>::new(&stream, (m, n, k), SEED)?;
        let mut verifier = Verifier::new();
        let mut group = criterion.benchmark_group(format!("{}/{m}x{n}x{k}", T::KIND.name()));
        group.throughput(Throughput::Elements(inputs.problem().flops() as u64));
        group.warm_up_time(Duration::from_millis(500)).measurement_time(Duration::from_secs(2)).sample_size(20);
        for spec in &specs {
            let mut arm = spec.prepare(&tools, &inputs)?;
            if let Check::Failed { reason } = verifier.check(arm.as_mut(), &stream, &inputs)? {
                eprintln!("{} on {m}×{n}×{k} is wrong and not timed: {reason}", spec.name());
                continue;
            }
            let events = (Event::new(&device)?, Event::new(&device)?);
            let mut set = 0;
            group.bench_function(BenchmarkId::from_parameter(spec.name()), |bencher| {
                bencher.iter_custom(|iterations| {
                    let timed = burst(&stream, &events, iterations as usize, || {
                        set = (set + 1) % inputs.sets();
                        arm.launch(&stream, set)
                    });
                    // Criterion has no other way to hear of it.
                    let seconds = timed.expect("an arm that was right a moment ago").seconds;
                    Duration::from_secs_f64(seconds * iterations as f64)
                });
            });
        }
        group.finish();
    }
    Ok(())
}

fn gemm(criterion: &mut Criterion) {
    match Device::count() {
        Ok(1..) => {}
        Ok(0) => return eprintln!("skipped: no CUDA device"),
        Err(error) => return eprintln!("skipped: {error}"),
    }
    for result in [shapes::<f16>(criterion), shapes::<bf16>(criterion)] {
        if let Err(error) = result {
            eprintln!("error: {error}");
            std::process::exit(1);
        }
    }
}

criterion_group!(benches, gemm);
criterion_main!(benches);
