//! What the tests share: the device, random operands, their exact product, and one checked run.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hopper_gemm::check::{Comparison, Report};
use hopper_gemm::cuda::{Device, DeviceMatrix, DeviceMatrixMut, Gemm, Prefer, Stream};
use hopper_gemm::{Element, Error, MatMut, MatRef, Matrix, cpu, random};
use kernels::catalogue::{COMPILED, Config};

/// What went wrong, in words.
pub type Failure = libtest_mimic::Failed;

/// How a test that did not fail ended.
pub enum Outcome {
    Passed,
    Skipped(String),
}

/// A test: its name and what it does.
pub type Test = (String, Box<dyn FnOnce(&Gpu) -> Result<Outcome, Failure> + Send>);

/// A named test from a function that passes or fails.
pub fn test(name: impl Into<String>, run: impl FnOnce(&Gpu) -> Result<(), Failure> + Send + 'static) -> Test {
    (name.into(), Box::new(move |gpu| run(gpu).map(|()| Outcome::Passed)))
}

/// Fails the test with a message unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        // Not `!$condition`: a comparison with NaN must fail.
        if $condition {
        } else {
            return Err(format!($($message)*).into());
        }
    };
}
pub(crate) use ensure;

/// The device under test. Clones share it, and tests run on several threads at once.
#[derive(Clone)]
pub struct Gpu {
    pub device: Device,
    pub gemm: Arc<Gemm>,
    cases: Arc<Mutex<Cases>>,
}

/// Each a `Case` of the element type that the key names.
type Cases = HashMap<(&'static str, Shape), Arc<dyn Any + Send + Sync>>;

impl Gpu {
    /// The first device, or why there is none to test on.
    pub fn find() -> Result<Gpu, String> {
        match Device::count() {
            Ok(0) => return Err("no CUDA device".to_string()),
            Ok(_) => {}
            Err(error) => return Err(error.to_string()),
        }
        let device = Device::open(0).map_err(|error| error.to_string())?;
        let gemm = Gemm::with_preference(&device, Prefer::from_environment()).map_err(|error| error.to_string())?;
        Ok(Gpu { device, gemm: Arc::new(gemm), cases: Arc::default() })
    }

    /// Operands and exact product of a shape, made once and shared by all tests.
    pub fn case<T: Element>(&self, shape: Shape) -> Result<Arc<Case<T>>, Failure> {
        let key = (T::KIND.name(), shape);
        if let Some(case) = self.cases.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(case.clone().downcast::<Case<T>>().expect("the key names the element type"));
        }
        // Two threads may both make it; either result will do.
        let case = Arc::new(Case::<T>::new(&self.device, shape)?);
        self.cases.lock().unwrap_or_else(PoisonError::into_inner).insert(key, case.clone());
        Ok(case)
    }
}

/// Sizes of a product and how its matrices lie in memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Shape {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Elements that a row of A has beyond the next multiple of 8; a multiple of 8.
    pub pad_a: usize,
    /// The same for B.
    pub pad_b: usize,
    /// Elements between the end of a row of C and the start of the next.
    pub pad_c: usize,
    /// Where C starts in its buffer, in elements beyond a multiple of 16 bytes.
    pub offset_c: usize,
}

impl Shape {
    pub const fn new(m: usize, n: usize, k: usize) -> Shape {
        Shape { m, n, k, pad_a: 0, pad_b: 0, pad_c: 0, offset_c: 0 }
    }

    pub const fn padded(self, pad_a: usize, pad_b: usize, pad_c: usize, offset_c: usize) -> Shape {
        Shape { pad_a, pad_b, pad_c, offset_c, ..self }
    }
}

/// A and B of one shape on the device and on the host, and what their product must be.
pub struct Case<T: Element> {
    pub shape: Shape,
    pub a: DeviceMatrix<T>,
    pub b: DeviceMatrix<T>,
    pub host_a: Matrix<T>,
    pub host_b: Matrix<T>,
    /// The product, row by row, summed in f64.
    reference: Vec<f64>,
}

impl<T: Element> Case<T> {
    fn new(device: &Device, shape: Shape) -> Result<Case<T>, Failure> {
        let Shape { m, n, k, pad_a, pad_b, .. } = shape;
        let host_a = random::normal::<T>(m, k, 1, random::A)?;
        let host_b = random::normal::<T>(n, k, 1, random::B)?;
        let stream = device.stream()?;
        let mut a = DeviceMatrix::with_ld(device, m, k, k.next_multiple_of(8) + pad_a)?;
        let mut b = DeviceMatrix::with_ld(device, n, k, k.next_multiple_of(8) + pad_b)?;
        // What lies between the rows must not reach the product.
        fill_all(&mut a, &stream, T::from_f32(f32::NAN))?;
        fill_all(&mut b, &stream, T::from_f32(f32::NAN))?;
        a.upload(&stream, &host_a.view())?;
        b.upload(&stream, &host_b.view())?;
        let mut reference = Vec::with_capacity(m * n);
        cpu::panels(host_a.view(), host_b.view(), |_, panel: MatRef<'_, f64>| reference.extend(panel.data()))?;
        Ok(Case { shape, a, b, host_a, host_b, reference })
    }

    /// Runs `config`, checks the result and what surrounds it, and returns the result's bits.
    pub fn run(&self, gpu: &Gpu, stream: &Stream, config: &'static Config) -> Result<Vec<u16>, Failure> {
        let explain = |reason: &str| Failure::from(format!("{} on {:?}: {reason}", config.entry, self.shape));
        let mut output = Output::<T>::new(&gpu.device, stream, self.shape)?;
        gpu.gemm.plan(config, &self.a, &self.b, output.view(&gpu.device))?.run(stream)?;
        wait(stream, || format!("{} on {:?}", config.entry, self.shape))?;
        let bits = output.read(stream).map_err(|failure| explain(failure.message().unwrap_or("failed")))?;
        self.check(&bits).map_err(|failure| explain(failure.message().unwrap_or("failed")))?;
        Ok(bits)
    }

    /// Fails unless `bits` are the bits of a right product.
    pub fn check(&self, bits: &[u16]) -> Result<(), Failure> {
        let Shape { m, n, .. } = self.shape;
        let c: Vec<T> = bits.iter().map(|&bits| T::from_bits(bits)).collect();
        let mut comparison = Comparison::new(self.host_a.view(), self.host_b.view(), MatRef::new(&c, m, n, n)?)?;
        comparison.add(0, MatRef::new(&self.reference, m, n, n)?);
        passed(&comparison.report())
    }
}

/// Fails with what is wrong unless the report is good.
pub fn passed(report: &Report) -> Result<(), Failure> {
    ensure!(report.passed(), "wrong: {report:?}");
    Ok(())
}

/// Fills rows and padding alike.
pub fn fill_all<T: Element>(matrix: &mut DeviceMatrix<T>, stream: &Stream, value: T) -> Result<(), Failure> {
    let (address, rows, ld) = (matrix.address(), matrix.rows(), matrix.ld());
    if rows * ld > 0 && matrix.cols() > 0 {
        // SAFETY: the matrix owns rows·ld elements, and is borrowed.
        unsafe { DeviceMatrixMut::from_raw(matrix.device(), address, rows, ld, ld) }.fill(stream, value)?;
    }
    Ok(())
}

/// Elements before and after C that nothing may write.
const GUARD: usize = 512;

/// A C that starts as NaN, between guards that are NaN too.
pub struct Output<T: Element> {
    buffer: DeviceMatrix<T>,
    shape: Shape,
    poison: u16,
}

impl<T: Element> Output<T> {
    pub fn new(device: &Device, stream: &Stream, shape: Shape) -> Result<Output<T>, Failure> {
        let ldc = shape.n + shape.pad_c;
        let mut buffer = DeviceMatrix::new(device, 1, 2 * GUARD + shape.m * ldc + shape.offset_c)?;
        // A NaN with a payload that no arithmetic produces.
        let poison = T::from_f32(f32::NAN).to_bits() ^ 0x15;
        buffer.fill(stream, T::from_bits(poison))?;
        Ok(Output { buffer, shape, poison })
    }

    fn start(&self) -> usize {
        GUARD + self.shape.offset_c
    }

    /// C, to be written.
    pub fn view(&mut self, device: &Device) -> DeviceMatrixMut<'_, T> {
        let Shape { m, n, pad_c, .. } = self.shape;
        let address = self.buffer.address() + (self.start() * size_of::<T>()) as u64;
        // SAFETY: the buffer holds it, and is borrowed.
        unsafe { DeviceMatrixMut::from_raw(device, address, m, n, n + pad_c) }
    }

    /// The bits of C, after checking that all around it is as it was.
    pub fn read(&self, stream: &Stream) -> Result<Vec<u16>, Failure> {
        let Shape { m, n, pad_c, .. } = self.shape;
        let mut host = vec![T::default(); self.buffer.cols()];
        let length = host.len();
        self.buffer.download(stream, &mut MatMut::new(&mut host, 1, length, length)?)?;
        let (start, ldc) = (self.start(), n + pad_c);
        let mut bits = Vec::with_capacity(m * n);
        for (i, value) in host.iter().enumerate() {
            let inside = i >= start && i < start + m * ldc && (i - start) % ldc < n;
            if inside {
                bits.push(value.to_bits());
            } else if value.to_bits() != self.poison {
                return Err(format!(
                    "wrote outside C: element {} after its first, where it has {m} rows of {n}, {ldc} apart",
                    i as i64 - start as i64
                )
                .into());
            }
        }
        Ok(bits)
    }
}

/// Waits for the stream; a kernel that hangs ends the program with its name, since nothing else can stop
/// it.
pub fn wait(stream: &Stream, what: impl FnOnce() -> String) -> Result<(), Failure> {
    const LIMIT: Duration = Duration::from_secs(30);
    if let Err(error @ Error::Hang { .. }) = stream.synchronize_within(LIMIT) {
        eprintln!("{}: {error}", what());
        std::process::exit(101);
    }
    Ok(stream.synchronize()?)
}

/// The configurations that are meant to multiply.
pub fn multiplying() -> impl Iterator<Item = &'static Config> {
    COMPILED.iter().filter(|config| config.kernel.loads())
}

/// Calls `$function::<T>($arguments)` for the type of `$element`.
macro_rules! for_element {
    ($element:expr, $function:ident($($argument:expr),*)) => {
        match $element {
            kernels::catalogue::Element::F16 => $function::<half::f16>($($argument),*),
            kernels::catalogue::Element::Bf16 => $function::<half::bf16>($($argument),*),
        }
    };
}
pub(crate) use for_element;
