//! The product itself, on each kind of device.

use std::time::Instant;

use hopper_gemm::{Element, Matrix, cpu};

use super::summary::KernelSummary;
use crate::cli::failure::Failure;
use crate::cli::progress::Progress;

/// A product and how it came about.
pub struct Outcome {
    /// Of one product, without copies between host and device.
    pub seconds: f64,
    /// Runs of which `seconds` is the median.
    pub runs: usize,
    /// Name of the device.
    pub device: String,
    /// The kernel, where one ran.
    pub kernel: Option<KernelSummary>,
}

/// Puts A·Bᵀ into `c` on all cores.
pub fn on_cpu<T: Element>(
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &mut Matrix<T>,
    progress: Progress,
) -> Result<Outcome, Failure> {
    let task = progress.task("multiplying on the CPU", Some(a.rows()));
    let start = Instant::now();
    cpu::multiply(a.view(), b.view(), &mut c.view_mut(), &mut |rows| task.set(rows))?;
    let seconds = start.elapsed().as_secs_f64();
    let threads = rayon::current_num_threads();
    let device = if threads == 1 { "CPU, 1 thread".to_owned() } else { format!("CPU, {threads} threads") };
    Ok(Outcome { seconds, runs: 1, device, kernel: None })
}

/// Runs that the time of a product on a GPU is the median of, after one that is not timed.
#[cfg(feature = "cuda")]
const RUNS: usize = 10;

/// Puts A·Bᵀ into `c` with the kernel of `config` on CUDA device `index`.
#[cfg(feature = "cuda")]
pub fn on_cuda<T: Element>(
    index: u32,
    config: &'static kernels::catalogue::Config,
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &mut Matrix<T>,
    progress: Progress,
) -> Result<Outcome, Failure> {
    use hopper_gemm::cuda::{self, DeviceMatrix, Event, Gemm};

    let device = cuda::Device::open(index)?;
    let _task = progress.task(&format!("multiplying on {}", device.info().name), None);
    let gemm = Gemm::new(&device)?;
    let stream = device.stream()?;
    let device_a = DeviceMatrix::from_host(&stream, &a.view())?;
    let device_b = DeviceMatrix::from_host(&stream, &b.view())?;
    let mut device_c = DeviceMatrix::new(&device, c.rows(), c.cols())?;
    let plan = gemm.plan(config, &device_a, &device_b, &mut device_c)?;
    plan.run(&stream)?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let (start, end) = (Event::new(&device)?, Event::new(&device)?);
        start.record(&stream)?;
        plan.run(&stream)?;
        end.record(&stream)?;
        end.synchronize()?;
        times.push(end.seconds_since(&start)?);
    }
    times.sort_by(f64::total_cmp);
    let kernel = plan.kernel().map(|kernel| {
        let usage = kernel.usage();
        KernelSummary {
            entry: config.entry,
            registers: usage.registers,
            blocks_per_multiprocessor: usage.blocks_per_multiprocessor,
            code: match kernel.origin() {
                cuda::Origin::Cubin => "assembled by ptxas",
                cuda::Origin::Jit => "compiled by the driver",
            },
        }
    });
    drop(plan);
    device_c.download(&stream, &mut c.view_mut())?;
    Ok(Outcome { seconds: times[RUNS / 2], runs: RUNS, device: device.info().name.clone(), kernel })
}
