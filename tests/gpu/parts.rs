//! Tiles that several clusters share, through a workspace in device memory.

use hopper_gemm::Element;
use hopper_gemm::cuda::Stream;
use hopper_gemm::select::Selection;
use kernels::catalogue::{COMPILED, Config, by_entry};

use crate::support::{Case, Failure, Gpu, Output, Shape, Test, ensure, for_element, test, wait};

pub fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for config in COMPILED.iter().filter(|config| config.kernel.takes_parts()) {
        tests.push(test(format!("parts::{}", config.entry), move |gpu| {
            for_element!(config.element, right(gpu, config))
        }));
    }
    for entry in [
        "split_f16_128x128x64_s3_k8",
        "split_f16_64x256x64_s5_k1",
        "split_bf16_64x64x64_s6_k2",
        "parts_f16_128x128x64_s6_c2x1",
        "parts_bf16_128x64x64_s9_c1x2",
    ] {
        let config = by_entry(entry).expect("it is compiled");
        tests.push(test(format!("parts_again::{entry}"), move |gpu| for_element!(config.element, again(gpu, config))));
        tests.push(test(format!("parts_on_streams::{entry}"), move |gpu| {
            for_element!(config.element, on_streams(gpu, config))
        }));
    }
    tests
}

/// Ragged each way, with more parts than tiles of K; a few tiles and a longer K; and rows of C that lie apart.
const SHAPES: [Shape; 4] = [
    Shape::new(129, 70, 65),
    Shape::new(130, 264, 4104),
    Shape::new(61, 33, 16384).padded(8, 16, 3, 1),
    Shape::new(256, 256, 9000),
];

/// Puts one product into `stream` with each tile shared by `parts` clusters.
fn launch<'a, T: Element>(
    gpu: &Gpu,
    stream: &Stream,
    case: &'a Case<T>,
    output: &'a mut Output<T>,
    config: &'static Config,
    parts: u32,
) -> Result<(), Failure> {
    let selection = Selection { parts, ..Selection::new(config) };
    Ok(gpu.gemm.plan_selected(selection, &case.a, &case.b, output.view(&gpu.device))?.run(stream)?)
}

/// The product is right, and nothing around C is written, whatever the number of clusters; and again in the same
/// stream, whose workspace has grown or been larger.
fn right<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let stream = gpu.device.stream()?;
    for shape in SHAPES {
        let case = gpu.case::<T>(shape)?;
        for parts in [2, 33, 3, 7] {
            let explain = |failure: Failure| {
                let reason = failure.message().unwrap_or("failed");
                Failure::from(format!("{} on {shape:?} with {parts} clusters a tile: {reason}", config.entry))
            };
            let mut runs = Vec::new();
            for _ in 0..2 {
                let mut output = Output::<T>::new(&gpu.device, &stream, shape)?;
                launch(gpu, &stream, &case, &mut output, config, parts)?;
                wait(&stream, || format!("{} on {shape:?} with {parts} clusters a tile", config.entry))?;
                let bits = output.read(&stream).map_err(explain)?;
                case.check(&bits).map_err(explain)?;
                runs.push(bits);
            }
            ensure!(
                runs[0] == runs[1],
                "{} on {shape:?} with {parts} clusters a tile: not the same twice",
                config.entry
            );
        }
    }
    Ok(())
}

/// Many launches that follow each other without a pause, of different sizes and parts, each into a C of its own: the
/// counters are at zero when the next begins, and nobody takes partial sums of another launch for its own.
fn again<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let stream = gpu.device.stream()?;
    let cases = SHAPES.map(|shape| gpu.case::<T>(shape));
    let [a, b, c, d] = cases;
    let cases = [a?, b?, c?, d?];
    let launches: Vec<(usize, u32)> = (0..48).map(|i| (i % cases.len(), [33, 2, 1, 7, 3][i % 5])).collect();
    let mut outputs = Vec::new();
    for (case, _) in &launches {
        outputs.push(Output::<T>::new(&gpu.device, &stream, cases[*case].shape)?);
    }
    for ((case, parts), output) in launches.iter().zip(&mut outputs) {
        launch(gpu, &stream, &cases[*case], output, config, *parts)?;
    }
    wait(&stream, || format!("{} many times", config.entry))?;
    let mut first = std::collections::HashMap::new();
    for (key, output) in launches.iter().zip(&outputs) {
        let bits = output.read(&stream)?;
        cases[key.0].check(&bits)?;
        let same = first.entry(*key).or_insert_with(|| bits.clone()) == &bits;
        ensure!(
            same,
            "{} on {:?} with {} clusters a tile: not the same again",
            config.entry,
            cases[key.0].shape,
            key.1
        );
    }
    Ok(())
}

/// Two streams at once, which must not share a workspace, from two threads.
fn on_streams<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    const LAUNCHES: usize = 40;
    let shape = SHAPES[3];
    let case = gpu.case::<T>(shape)?;
    let many = |parts: u32| -> Result<Vec<Vec<u16>>, Failure> {
        let stream = gpu.device.stream()?;
        let mut outputs = Vec::new();
        for _ in 0..LAUNCHES {
            outputs.push(Output::<T>::new(&gpu.device, &stream, shape)?);
        }
        for output in &mut outputs {
            launch(gpu, &stream, &case, output, config, parts)?;
        }
        wait(&stream, || format!("{} on two streams", config.entry))?;
        outputs.iter().map(|output| output.read(&stream)).collect()
    };
    let (one, other) = std::thread::scope(|scope| {
        let (one, other) = (scope.spawn(|| many(7)), scope.spawn(|| many(7)));
        (one.join(), other.join())
    });
    let panicked = |_| Failure::from("a thread panicked");
    let (one, other) = (one.map_err(panicked)??, other.map_err(panicked)??);
    case.check(&one[0])?;
    ensure!(one.iter().chain(&other).all(|bits| *bits == one[0]), "{}: two streams disturb each other", config.entry);
    Ok(())
}
