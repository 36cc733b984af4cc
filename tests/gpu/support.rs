//! What the tests share: the device, random operands, their exact product, and one checked run.

use std::any::Any;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use hopper_gemm::cuda::{Device, DeviceMatrix, DeviceMatrixMut, Event, Gemm, Prefer, Stream};
use hopper_gemm::{Element, MatMut, MatRef};
use kernels::catalogue::Config;

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
        if !$condition {
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

/// Seeded numbers that are close to normal: the sum of four uniform ones, of variance 1.
pub fn random<T: Element>(seed: u64, count: usize) -> Vec<T> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x2545_f491_4f6c_dd1d;
    (0..count)
        .map(|_| {
            // SplitMix64.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut bits = state;
            bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            bits ^= bits >> 31;
            let sum: i32 = (0..4).map(|i| (bits >> (16 * i) & 0xffff) as i32 - 0x8000).sum();
            T::from_f32(sum as f32 * (3f32.sqrt() / 65536.0))
        })
        .collect()
}

/// A and B of one shape on the device and on the host, and what their product must be.
pub struct Case<T: Element> {
    pub shape: Shape,
    pub a: DeviceMatrix<T>,
    pub b: DeviceMatrix<T>,
    pub host_a: Vec<T>,
    pub host_b: Vec<T>,
    expected: Vec<Expected>,
}

/// An element of the product in f64, and how far from it a right result may be.
#[derive(Clone, Copy)]
pub struct Expected {
    pub value: f64,
    pub tolerance: f64,
}

/// The element whose rows of A and B are `a` and `b`.
///
/// A tensor core adds 16 products to the accumulator at a time and drops what lies 25 bits below the
/// largest of the 17 terms, then truncates to f32: at most 2⁻²¹ of the sum of all magnitudes per step.
/// The result is then rounded once to the element type.
pub fn expected<T: Element>(a: &[T], b: &[T]) -> Expected {
    let (mut value, mut magnitude) = (0f64, 0f64);
    for (&x, &y) in a.iter().zip(b) {
        let product = f64::from(x.to_f32()) * f64::from(y.to_f32());
        value += product;
        magnitude += product.abs();
    }
    let steps = a.len().div_ceil(16) as f64;
    let accumulation = steps * magnitude * 2f64.powi(-21);
    Expected { value, tolerance: accumulation + 0.5 * T::ulp(value.abs() + accumulation) }
}

impl Expected {
    /// Whether `result` is within the tolerance.
    pub fn admits<T: Element>(&self, result: T) -> bool {
        // False for NaN.
        (f64::from(result.to_f32()) - self.value).abs() <= self.tolerance
    }
}

impl<T: Element> Case<T> {
    fn new(device: &Device, shape: Shape) -> Result<Case<T>, Failure> {
        let Shape { m, n, k, pad_a, pad_b, .. } = shape;
        let host_a = random::<T>(1 + (m * 31 + k) as u64, m * k);
        let host_b = random::<T>(2 + (n * 37 + k) as u64, n * k);
        let stream = device.stream()?;
        let mut a = DeviceMatrix::with_ld(device, m, k, k.next_multiple_of(8) + pad_a)?;
        let mut b = DeviceMatrix::with_ld(device, n, k, k.next_multiple_of(8) + pad_b)?;
        // What lies between the rows must not reach the product.
        fill_all(&mut a, &stream, T::from_f32(f32::NAN))?;
        fill_all(&mut b, &stream, T::from_f32(f32::NAN))?;
        a.upload(&stream, &MatRef::new(&host_a, m, k, k)?)?;
        b.upload(&stream, &MatRef::new(&host_b, n, k, k)?)?;
        let expected = (0..m * n).map(|i| expected(&host_a[i / n * k..][..k], &host_b[i % n * k..][..k])).collect();
        Ok(Case { shape, a, b, host_a, host_b, expected })
    }

    /// Runs `config`, checks the result and what surrounds it, and returns the result's bits.
    pub fn run(&self, gpu: &Gpu, stream: &Stream, config: &'static Config) -> Result<Vec<u16>, Failure> {
        let mut output = Output::<T>::new(&gpu.device, stream, self.shape)?;
        gpu.gemm.plan(config, &self.a, &self.b, output.view(&gpu.device))?.run(stream)?;
        wait(stream, || format!("{} on {:?}", config.entry, self.shape))?;
        let bits = output.read(stream).map_err(|failure| self.explain(config, failure))?;
        let wrong = |&(_, (&bits, expected)): &(usize, (&u16, &Expected))| !expected.admits(T::from_bits(bits));
        let mut all_wrong = bits.iter().zip(&self.expected).enumerate().filter(wrong);
        if let Some((i, (&bits, Expected { value, tolerance }))) = all_wrong.next() {
            let (row, column) = (i / self.shape.n, i % self.shape.n);
            let (result, others) = (T::from_bits(bits), all_wrong.count());
            let message = format!(
                "C[{row}, {column}] is {result:?}, should be {value} within {tolerance:e}; {others} others are wrong"
            );
            return Err(self.explain(config, message.into()));
        }
        Ok(bits)
    }

    fn explain(&self, config: &Config, failure: Failure) -> Failure {
        format!("{} on {:?}: {}", config.entry, self.shape, failure.message().unwrap_or("failed")).into()
    }
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
    let event = Event::new(stream.device())?;
    event.record(stream)?;
    let start = Instant::now();
    while !event.is_complete()? {
        if start.elapsed() > LIMIT {
            eprintln!("{} has not finished after {} s: it hangs", what(), LIMIT.as_secs());
            std::process::exit(101);
        }
        if start.elapsed() > Duration::from_millis(5) {
            std::thread::sleep(Duration::from_micros(200));
        }
    }
    Ok(())
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
