//! The product itself, on each kind of device.

use std::time::Instant;

use hopper_gemm::simulator::Simulation;
use hopper_gemm::tune::Choice;
use hopper_gemm::{Element, Matrix, cpu};
use sim::{Control, Schedule};

use super::summary::{Chosen, KernelSummary, SimulationSummary};
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
    /// What the simulator did, where it ran the kernel.
    pub simulation: Option<SimulationSummary>,
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
    Ok(Outcome { seconds, runs: 1, device, kernel: None, simulation: None })
}

/// Puts A·Bᵀ into `c` with the kernel of `choice` in the simulator, under each of `schedules`.
pub fn in_simulator<T: Element>(
    choice: &Choice,
    schedules: &[Schedule],
    a: &Matrix<T>,
    b: &Matrix<T>,
    c: &mut Matrix<T>,
    progress: Progress,
) -> Result<Outcome, Failure> {
    let simulation = Simulation::new(choice.config, choice.parts, a.view(), b.view())?;
    let count = schedules.len() as u64;
    let task = progress.task("simulating", Some(1000));
    let start = Instant::now();
    let mut instructions = 0;
    for (i, schedule) in schedules.iter().enumerate() {
        let set = |done: u64, total: u64| task.set(((i as u64 * total + done) * 1000 / (count * total)) as usize);
        let control = Control { progress: Some(&set), ..Control::default() };
        let outcome;
        (*c, outcome) = simulation.run::<T>(schedule, control)?;
        instructions += outcome.instructions;
    }
    let total = start.elapsed().as_secs_f64();
    let (entry, chosen) = (choice.config.entry, Chosen::new(choice));
    Ok(Outcome {
        seconds: total / count as f64,
        runs: 1,
        device: "simulator of a Hopper GPU".to_owned(),
        kernel: Some(KernelSummary { entry, code: "simulated", usage: None, chosen }),
        simulation: Some(SimulationSummary {
            schedules: schedules.len(),
            instructions,
            instructions_per_second: instructions as f64 / total,
        }),
    })
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
    let plan = gemm.plan_selected(choice.selection(), &device_a, &device_b, &mut device_c)?;
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
    let (seconds, device) = (times[RUNS / 2], device.info().name.clone());
    Ok(Outcome { seconds, runs: RUNS, device, kernel, simulation: None })
}
