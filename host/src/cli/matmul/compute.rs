//! The product itself, on each kind of device.

use std::time::Instant;

use hopper_gemm::tune::Choice;
use hopper_gemm::{Element, Matrix, cpu};

use super::summary::{Chosen, KernelSummary};
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

/// Puts A·Bᵀ into `c` with the kernel of `choice` in the simulator, under as many schedules as asked for.
pub fn in_simulator<T: Element>(
    choice: &Choice,
    schedules: u64,
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &mut Matrix<T>,
    progress: Progress,
) -> Result<Outcome, Failure> {
    use sim::{Control, Schedule};

    let simulation = hopper_gemm::simulator::Simulation::new(choice.config, a.view(), b.view())?;
    let schedules = schedules.max(1);
    let task = progress.task("simulating", Some(1000));
    let start = Instant::now();
    for i in 0..schedules {
        let schedule = if i == 0 { Schedule::Timed } else { Schedule::Random(i - 1) };
        let set = |done: u64, total: u64| task.set(((i * total + done) * 1000 / (schedules * total)) as usize);
        let control = Control { progress: Some(&set), ..Control::default() };
        *c = simulation.run::<T>(&schedule, control)?.0;
    }
    let seconds = start.elapsed().as_secs_f64() / schedules as f64;
    let device = "simulator of a Hopper GPU".to_owned();
    let (entry, chosen) = (choice.config.entry, Chosen::new(choice));
    let kernel = Some(KernelSummary { entry, code: "simulated", usage: None, chosen });
    Ok(Outcome { seconds, runs: schedules as usize, device, kernel })
}

/// Runs that the time of a product on a GPU is the median of, after one that is not timed.
#[cfg(feature = "cuda")]
const RUNS: usize = 10;

/// Puts A·Bᵀ into `c` on `device`, with the kernel of `choice`.
#[cfg(feature = "cuda")]
pub fn on_cuda<T: Element>(
    device: &hopper_gemm::cuda::Device,
    choice: &Choice,
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &mut Matrix<T>,
    progress: Progress,
) -> Result<Outcome, Failure> {
    use super::summary::Usage;
    use hopper_gemm::cuda::{self, DeviceMatrix, Event, Gemm};

    let _task = progress.task(&format!("multiplying on {}", device.info().name), None);
    let gemm = Gemm::new(device)?;
    let stream = device.stream()?;
    let device_a = DeviceMatrix::from_host(&stream, &a.view())?;
    let device_b = DeviceMatrix::from_host(&stream, &b.view())?;
    let mut device_c = DeviceMatrix::new(device, c.rows(), c.cols())?;
    let mut plan = gemm.plan(choice.config, &device_a, &device_b, &mut device_c)?;
    if let Some(band) = choice.band {
        plan = plan.with_band(band);
    }
    plan.run(&stream)?;
    let mut times = Vec::with_capacity(RUNS);
    for _ in 0..RUNS {
        let (start, end) = (Event::new(device)?, Event::new(device)?);
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
            entry: choice.config.entry,
            chosen: Chosen::new(choice),
            usage: Some(Usage {
                registers: usage.registers,
                blocks_per_multiprocessor: usage.blocks_per_multiprocessor,
            }),
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
