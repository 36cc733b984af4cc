//! What the library refuses, and that its message names the argument, its value and the rule.

use half::{bf16, f16};
use hopper_gemm::cuda::module::Parameter;
use hopper_gemm::cuda::{Device, DeviceMatrix, DeviceMatrixMut, DeviceMatrixRef, Kernel, Prefer};
use hopper_gemm::modules::{self, Module};
use hopper_gemm::{Error, MatRef, Matrix, Result};
use kernels::catalogue::{COMPILED, Config, Element};

use crate::support::{Failure, Gpu, Test, ensure, test};

pub fn tests() -> Vec<Test> {
    vec![
        test("refuses::shapes", shapes),
        test("refuses::leading_dimensions", leading_dimensions),
        test("refuses::addresses", addresses),
        test("refuses::sizes", sizes),
        test("refuses::element_type", element_type),
        test("refuses::unknown_entry", unknown_entry),
        test("refuses::memory", memory),
        test("refuses::launches", launches),
        test("refuses::ptx", ptx),
        test("refuses::devices", devices),
        test("refuses::copies", copies),
        test("refuses::no_product", no_product),
        test("refuses::parts", parts),
    ]
}

fn config() -> &'static Config {
    COMPILED.iter().find(|config| config.element == Element::F16).expect("there are f16 kernels")
}

/// Fails unless `result` is an error that says every one of `words`.
fn refused<T>(result: Result<T>, words: &[&str]) -> std::result::Result<Error, Failure> {
    let Err(error) = result else { return Err(format!("was not refused; expected {words:?}").into()) };
    let message = error.to_string();
    for word in words {
        ensure!(message.contains(word), "the message lacks `{word}`: {message}");
    }
    Ok(error)
}

/// Views of `rows`×`cols` whose memory nobody may touch: the call must refuse them first.
fn view(gpu: &Gpu, address: u64, rows: usize, cols: usize, ld: usize) -> DeviceMatrixRef<'static, f16> {
    // SAFETY: used only in calls that refuse it.
    unsafe { DeviceMatrixRef::from_raw(&gpu.device, address, rows, cols, ld) }
}

/// The same, to be written.
fn view_mut(gpu: &Gpu, address: u64, rows: usize, cols: usize, ld: usize) -> DeviceMatrixMut<'static, f16> {
    // SAFETY: used only in calls that refuse it.
    unsafe { DeviceMatrixMut::from_raw(&gpu.device, address, rows, cols, ld) }
}

/// An address that is aligned and not mapped.
const SOMEWHERE: u64 = 0x1000;

fn plan(
    gpu: &Gpu,
    a: DeviceMatrixRef<'_, f16>,
    b: DeviceMatrixRef<'_, f16>,
    c: DeviceMatrixMut<'_, f16>,
) -> Result<()> {
    gpu.gemm.plan(config(), a, b, c).map(drop)
}

fn shapes(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let at = SOMEWHERE;
    let (a, b) = (view(gpu, at, 3, 8, 8), view(gpu, at, 4, 16, 16));
    refused(plan(gpu, a, b, view_mut(gpu, at, 3, 4, 4)), &["A is 3×8", "B is 4×16", "same K"])?;
    let b = view(gpu, at, 4, 8, 8);
    refused(plan(gpu, a, b, view_mut(gpu, at, 4, 3, 3)), &["C is 4×3", "A·Bᵀ is 3×4"])?;
    Ok(())
}

fn leading_dimensions(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let at = SOMEWHERE;
    let (a, b, c) = (|ld| view(gpu, at, 3, 9, ld), |ld| view(gpu, at, 4, 9, ld), |ld| view_mut(gpu, at, 3, 4, ld));
    refused(plan(gpu, a(8), b(16), c(4)), &["leading dimension of A is 8", "length of a row, 9"])?;
    refused(plan(gpu, a(16), b(8), c(4)), &["leading dimension of B is 8", "length of a row, 9"])?;
    refused(plan(gpu, a(16), b(16), c(3)), &["leading dimension of C is 3", "length of a row, 4"])?;
    refused(plan(gpu, a(9), b(16), c(4)), &["leading dimension of A is 9", "multiple of 8"])?;
    refused(plan(gpu, a(16), b(12), c(4)), &["leading dimension of B is 12", "multiple of 8"])?;
    refused(plan(gpu, a(1 << 39), b(16), c(4)), &["leading dimension of A is 549755813888"])?;
    Ok(())
}

fn addresses(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let (a, b) = (|at| view(gpu, at, 3, 8, 8), |at| view(gpu, at, 4, 8, 8));
    let c = |at| view_mut(gpu, at, 3, 4, 4);
    let at = SOMEWHERE;
    refused(plan(gpu, a(at + 2), b(at), c(at)), &["A begins at address 0x1002", "16 bytes"])?;
    refused(plan(gpu, a(at), b(at + 8), c(at)), &["B begins at address 0x1008", "16 bytes"])?;
    refused(plan(gpu, a(at), b(at), c(at + 1)), &["C begins at address 0x1001", "2 bytes"])?;
    Ok(())
}

fn sizes(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let (at, large) = (SOMEWHERE, (1usize << 31) + 8);
    let small = view(gpu, at, 1, 8, 8);
    refused(plan(gpu, view(gpu, at, large, 8, 8), small, view_mut(gpu, at, large, 1, 1)), &["M is 2147483656"])?;
    refused(plan(gpu, small, view(gpu, at, large, 8, 8), view_mut(gpu, at, 1, large, large)), &["N is 2147483656"])?;
    let long = view(gpu, at, 1, large, large);
    refused(plan(gpu, long, long, view_mut(gpu, at, 1, 1, 1)), &["K is 2147483656"])?;
    // Each size is in range, their grid is not.
    let many = 1usize << 31;
    let (a, b) = (view(gpu, at, many, 8, 8), view(gpu, at, many, 8, 8));
    refused(plan(gpu, a, b, view_mut(gpu, at, many, many, many)), &["tiles", "2^31-1"])?;
    Ok(())
}

fn element_type(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let matrix = || DeviceMatrix::<bf16>::new(&gpu.device, 8, 8);
    let (a, b, mut c) = (matrix()?, matrix()?, matrix()?);
    refused(gpu.gemm.plan(config(), &a, &b, &mut c), &[config().entry, "f16", "bf16"])?;
    Ok(())
}

fn unknown_entry(gpu: &Gpu) -> std::result::Result<(), Failure> {
    refused(gpu.gemm.kernels().get("v3_f16_1x1x1_s1"), &["v3_f16_1x1x1_s1"])?;
    Ok(())
}

fn memory(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let total = gpu.device.info().memory_bytes;
    let rows = 2 * total / 16;
    let error = refused(DeviceMatrix::<f16>::new(&gpu.device, rows, 8), &["free", &(rows * 16).to_string()])?;
    ensure!(matches!(error, Error::DeviceMemory { wanted, total, .. } if wanted > total), "{error:?}");
    refused(DeviceMatrix::<f16>::new(&gpu.device, usize::MAX, 8), &["free"])?;
    refused(DeviceMatrix::<f16>::with_ld(&gpu.device, 4, 8, 7), &["7", "8"])?;
    // The device goes on working.
    DeviceMatrix::<f16>::new(&gpu.device, 8, 8)?;
    Ok(())
}

fn launches(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let kernel = gpu.gemm.kernels().get(config().entry)?;
    let stream = gpu.device.stream()?;
    let (word, long) = (0u32, 0u64);
    let launch = |parameters: &[Parameter<'_>]| {
        // SAFETY: none of these lists is the kernel's, so each is refused before anything is launched.
        unsafe { kernel.launch(&stream, 1, parameters) }
    };
    let count = kernel.module().params.len();
    let takes = format!("takes {count} parameters");
    // SAFETY: refused for its grid before anything is launched.
    refused(unsafe { kernel.launch(&stream, 1 << 31, &[]) }, &[config().entry])?;
    refused(launch(&[]), &[config().entry, &takes, "got 0"])?;
    refused(launch(&vec![Parameter::of(&long); count]), &["parameter 0 has 128 bytes", "got 8"])?;
    refused(launch(&vec![Parameter::of(&word); count + 1]), &[&takes, &format!("got {}", count + 1)])?;
    Ok(())
}

/// PTX that is not PTX: the error carries what the compiler wrote.
fn ptx(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let module = modules::by_entry(config().entry).expect("every row has its module");
    let text = module.ptx.replacen("mbarrier.init", "mbarrier.begin", 1);
    ensure!(text != module.ptx, "the kernel has no mbarrier.init to spoil");
    // Modules are static; the test gives this one away.
    let spoiled: &'static Module = Box::leak(Box::new(Module { ptx: Box::leak(text.into_boxed_str()), ..*module }));
    let error = refused(Kernel::load(&gpu.device, spoiled, Prefer::Jit), &[config().entry])?;
    let Error::Jit { log, .. } = &error else { return Err(format!("not an error of the JIT: {error:?}").into()) };
    ensure!(log.contains("error"), "the log does not say what is wrong: {log}");
    Ok(())
}

fn devices(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let count = Device::count()?;
    let number = count.to_string();
    refused(Device::open(count), &["no CUDA device", &number])?;
    refused(Device::open(u32::MAX), &["no CUDA device 4294967295"])?;
    if count > 1 {
        let other = Device::open(1)?;
        let matrix = |device| DeviceMatrix::<f16>::new(device, 8, 8);
        let (a, b, mut c) = (matrix(&other)?, matrix(&gpu.device)?, matrix(&gpu.device)?);
        refused(gpu.gemm.plan(config(), &a, &b, &mut c), &["A is of device 1", "device 0"])?;
        let a = matrix(&gpu.device)?;
        let planned = gpu.gemm.plan(config(), &a, &b, &mut c)?;
        refused(planned.run(&other.stream()?), &["the stream is of device 1", "device 0"])?;
    }
    Ok(())
}

fn copies(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let stream = gpu.device.stream()?;
    let mut matrix = DeviceMatrix::<f16>::new(&gpu.device, 4, 8)?;
    let host = [f16::ZERO; 64];
    refused(matrix.upload(&stream, &MatRef::new(&host, 8, 8, 8)?), &["8×8", "4×8"])?;
    refused(matrix.view().row_range(3..5), &["3", "5", "4 rows"])?;
    Ok(())
}

/// A kernel that is there to be measured is not taken for a product.
fn no_product(gpu: &Gpu) -> std::result::Result<(), Failure> {
    let ceiling = COMPILED.iter().find(|config| config.element == Element::F16 && !config.kernel.loads());
    let ceiling = ceiling.ok_or_else(|| Failure::from("the catalogue has no such kernel"))?;
    let (a, b) = (Matrix::<f16>::zeros(3, 8)?, Matrix::<f16>::zeros(4, 8)?);
    let mut c = Matrix::<f16>::zeros(3, 4)?;
    refused(gpu.gemm.multiply_with(ceiling, &a.view(), &b.view(), &mut c.view_mut()), &[ceiling.kernel.name()])?;
    Ok(())
}

/// Tiles shared by no cluster, by several of a kernel that cannot, or by more than can be counted; and so many of them that a
/// grid has no room.
fn parts(gpu: &Gpu) -> Result<(), Failure> {
    let plan = |kernel: &str, parts| {
        let config = COMPILED.iter().find(|config| config.element == Element::F16 && config.kernel.name() == kernel);
        let config = config.expect("the kernel is compiled");
        let (a, b) = (view(gpu, SOMEWHERE, 64, 64, 64), view(gpu, SOMEWHERE, 64, 64, 64));
        gpu.gemm.plan(config, a, b, view_mut(gpu, SOMEWHERE, 64, 64, 64))?.with_parts(parts)
    };
    refused(plan("v3", 2), &["2 clusters", "v3", "split"])?;
    refused(plan("split", 0), &["0 clusters"])?;
    refused(plan("split", 65536), &["up to 65535", "65536 clusters"])?;
    plan("v3", 1)?;
    plan("split", 65535)?;
    // 2^16 tiles of 64 rows at the most.
    let rows = 1 << 22;
    let config = COMPILED.iter().find(|config| config.kernel.takes_parts() && config.element == Element::F16);
    let config = config.expect("one is compiled");
    let (a, b) = (view(gpu, SOMEWHERE, rows, 64, 64), view(gpu, SOMEWHERE, 64, 64, 64));
    let plan = gpu.gemm.plan(config, a, b, view_mut(gpu, SOMEWHERE, rows, 64, 64))?;
    refused(plan.with_parts(65535), &["2^31-1", "65535 clusters"])?;
    Ok(())
}
