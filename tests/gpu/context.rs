//! Threads, contexts, and what happens to work in flight and after a fault.

use std::process::Command;

use cust::context::legacy::{Context, ContextFlags, CurrentContext};
use half::f16;
use hopper_gemm::cuda::{Device, DeviceMatrix, Gemm, Kernel, Prefer};
use hopper_gemm::modules::Module;
use kernels::catalogue::{Config, Element};

use crate::support::{Failure, Gpu, Shape, Test, ensure, multiplying, test, wait};

pub fn tests() -> Vec<Test> {
    vec![
        test("context::threads", threads),
        test("context::of_another_library", foreign_context),
        test("context::drop_in_flight", drop_in_flight),
        test("context::trap", trap),
    ]
}

/// Configurations with the least and the most shared memory.
fn extremes() -> [&'static Config; 2] {
    let configs = || multiplying().filter(|config| config.element == Element::F16);
    let by_shared = |config: &&Config| config.shared_bytes();
    [
        configs().min_by_key(by_shared).expect("there are f16 kernels"),
        configs().max_by_key(by_shared).expect("there are f16 kernels"),
    ]
}

/// One `Gemm` on many threads, each on a stream of its own, small and large launches by turns; a kernel
/// that several threads ask for at once is loaded once and right for all.
fn threads(gpu: &Gpu) -> Result<(), Failure> {
    let mut fresh = gpu.clone();
    fresh.gemm = Gemm::new(&gpu.device)?.into();
    let shape = Shape::new(257, 255, 65);
    let case = gpu.case::<f16>(shape)?;
    let stream = gpu.device.stream()?;
    let expected = extremes().map(|config| case.run(gpu, &stream, config));
    let [small, large] = expected;
    let (small, large) = (small?, large?);
    let run = |worker: usize| -> Result<(), Failure> {
        let stream = fresh.device.stream()?;
        for round in 0..25 {
            let which = (worker + round) % 2;
            let bits = case.run(&fresh, &stream, extremes()[which])?;
            ensure!(bits == *[&small, &large][which], "thread {worker}, round {round}: other bits");
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..8).map(|worker| scope.spawn(move || run(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().map_err(|_| Failure::from("a thread panicked"))?)
    })
}

/// A thread that works in a context of its own gets it back after each call.
fn foreign_context(gpu: &Gpu) -> Result<(), Failure> {
    let gpu = gpu.clone();
    let work = move || -> Result<(), Failure> {
        let raw = cust::device::Device::get_device(0)?;
        let foreign = Context::create_and_push(ContextFlags::SCHED_AUTO, raw)?;
        let ours = || -> Result<bool, Failure> {
            CurrentContext::set_current(&foreign.get_unowned())?;
            let case = gpu.case::<f16>(Shape::new(129, 70, 65))?;
            let stream = gpu.device.stream()?;
            case.run(&gpu, &stream, extremes()[0])?;
            // A context is known by what it can see: an allocation made now is its own.
            Ok(current() == foreign_handle(&foreign))
        };
        ensure!(ours()?, "the thread's own context was not current afterwards");
        Ok(())
    };
    std::thread::spawn(work).join().map_err(|_| Failure::from("the thread panicked"))?
}

fn current() -> usize {
    let mut context = std::ptr::null_mut();
    // SAFETY: stores the thread's current context.
    unsafe { cust::sys::cuCtxGetCurrent(&mut context) };
    context as usize
}

fn foreign_handle(context: &Context) -> usize {
    use cust::context::ContextHandle;
    context.get_inner() as usize
}

/// Dropping matrices, kernels and streams while a kernel runs on them is safe.
fn drop_in_flight(gpu: &Gpu) -> Result<(), Failure> {
    for dropped in 0..4 {
        let gemm = Gemm::new(&gpu.device)?;
        let stream = gpu.device.stream()?;
        let (a, b) = (DeviceMatrix::<f16>::new(&gpu.device, 8192, 4096)?, DeviceMatrix::new(&gpu.device, 8192, 4096)?);
        let mut c = DeviceMatrix::new(&gpu.device, 8192, 8192)?;
        let plan = gemm.plan(extremes()[1], &a, &b, &mut c)?;
        for _ in 0..3 {
            plan.run(&stream)?;
        }
        drop(plan);
        // Each in turn goes first; the rest follow at the end of the turn, in the order of their making.
        match dropped {
            0 => drop(c),
            1 => drop(a),
            2 => drop(gemm),
            _ => drop(stream),
        }
        gpu.device.synchronize()?;
    }
    Ok(())
}

/// Tells the program that it is the child that provokes a fault.
const CHILD: &str = "HOPPER_GEMM_TEST_TRAP";

/// Whether this process is that child.
pub fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// A kernel that traps makes the context unusable for good, so a process of its own provokes it: every
/// later call must return an error, and nothing may panic or crash on the way out.
fn trap(_: &Gpu) -> Result<(), Failure> {
    let output = Command::new(std::env::current_exe()?).env(CHILD, "1").output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "the process that provoked a trap ended with {}: {said}", output.status);
    Ok(())
}

/// What the child does.
pub fn child_main() -> std::process::ExitCode {
    match provoke() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{}", failure.message().unwrap_or("failed"));
            std::process::ExitCode::FAILURE
        }
    }
}

fn provoke() -> Result<(), Failure> {
    static TRAP: Module = Module {
        entry: "trap_at_once",
        ptx: ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry trap_at_once()\n{\n\ttrap;\n\tret;\n}\n",
        cubin: None,
        params: &[],
        threads: 32,
        shared_bytes: 0,
        cluster: 1,
        min_blocks: 1,
        registers: None,
        mma: None,
    };
    let device = Device::open(0)?;
    let stream = device.stream()?;
    let gemm = Gemm::new(&device)?;
    let (a, b) = (DeviceMatrix::<f16>::new(&device, 64, 64)?, DeviceMatrix::<f16>::new(&device, 64, 64)?);
    let mut c = DeviceMatrix::<f16>::new(&device, 64, 64)?;
    gemm.run(&stream, &a, &b, &mut c)?;
    wait(&stream, || String::from("the product before the trap"))?;
    let kernel = Kernel::load(&device, &TRAP, Prefer::Jit)?;
    // SAFETY: the kernel has no parameters and touches no memory.
    unsafe { kernel.launch(&stream, 1, &[])? };
    ensure!(stream.synchronize().is_err(), "a trap went unnoticed");
    let later = gemm.run(&stream, &a, &b, &mut c).and_then(|()| stream.synchronize());
    ensure!(later.is_err(), "a product after the trap claims to have worked");
    ensure!(DeviceMatrix::<f16>::new(&device, 64, 64).is_err(), "memory could be had after the trap");
    Ok(())
}
