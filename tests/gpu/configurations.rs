//! Every compiled configuration on ragged shapes.

use hopper_gemm::Element;
use hopper_gemm::cuda::{Gemm, Origin, Prefer};
use kernels::catalogue::{Config, Kernel};

use crate::support::{Failure, Gpu, Shape, Test, ensure, for_element, multiplying, test};

/// Shapes that are ragged in every dimension, alone and together; K shorter than the ring, and longer; rows that lie
/// further apart than they are long; C at an odd element, with odd rows, with rows that end within a slab, and as TMA takes
/// it; for kernels whose blocks walk over tiles, more tiles than there are blocks, and a K that is long enough for patches.
fn shapes(config: &Config) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for edge in [1, 7, 63, 64, 65, 127, 128, 129, 255, 257] {
        shapes.push(Shape::new(edge, 66, 72));
        shapes.push(Shape::new(70, edge, 72));
    }
    for k in [1, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 129, 192, 320, 511, 513, 1000] {
        shapes.push(Shape::new(129, 70, k));
    }
    // Rows of C that end within a slab, at a multiple of 16 bytes.
    for columns in [8, 72, 136, 200] {
        shapes.push(Shape::new(129, columns, 72));
        shapes.push(Shape::new(70, columns, 72).padded(0, 0, 8, 0));
    }
    shapes.extend([
        Shape::new(1, 1, 1),
        Shape::new(257, 255, 65),
        Shape::new(129, 257, 200).padded(8, 16, 0, 0),
        Shape::new(130, 130, 40).padded(24, 8, 1, 0),
        Shape::new(130, 130, 40).padded(0, 0, 1, 1),
        Shape::new(65, 129, 96).padded(64, 64, 2, 1),
        Shape::new(65, 130, 96).padded(0, 0, 6, 0),
        Shape::new(513, 385, 384),
    ]);
    for k in [1, 64, 65, 513] {
        shapes.push(Shape::new(129, 70, k).padded(0, 0, 2, 0));
    }
    if config.kernel == Kernel::Gemv {
        // Several rounds of K, the last of them ragged; for few rows, and with no more than there are of A.
        shapes.extend([
            Shape::new(1, 300, 4104),
            Shape::new(8, 130, 5003),
            Shape::new(16, 66, 6152),
            Shape::new(3, 70, 2047),
        ]);
        shapes.push(Shape::new(5, 1001, 4090).padded(8, 16, 3, 1));
    }
    if config.kernel.is_persistent() {
        shapes.extend([Shape::new(2100, 3000, 72), Shape::new(2049, 2305, 200).padded(0, 0, 7, 0)]);
        // Long enough for patches; a band of A that the L2 cache is told to keep.
        shapes.extend([Shape::new(509, 2040, 8200), Shape::new(2041, 2312, 3208)]);
    }
    shapes
}

pub fn tests() -> Vec<Test> {
    let mut tests: Vec<Test> = multiplying()
        .map(|config| {
            test(format!("product::{}", config.entry), move |gpu| for_element!(config.element, product(gpu, config)))
        })
        .collect();
    for kernel in Kernel::ALL {
        for element in kernels::catalogue::Element::ALL {
            // The first configuration stands for the kernel; HOPPER_GEMM_JIT=1 runs all of them so.
            if let Some(config) = multiplying().find(|config| config.kernel == kernel && config.element == element) {
                tests.push(test(format!("jit::{}", config.entry), move |gpu| {
                    for_element!(config.element, jit(gpu, config))
                }));
            }
        }
    }
    tests
}

/// Right within the bound, the same bits twice, nothing written outside C.
fn product<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let usage = gpu.gemm.kernels().get(config.entry)?.usage();
    ensure!(usage.local_bytes == 0, "{} spills {} bytes a thread", config.entry, usage.local_bytes);
    ensure!(usage.blocks_per_multiprocessor >= 1, "no block of {} fits on a multiprocessor", config.entry);
    let stream = gpu.device.stream()?;
    for shape in shapes(config) {
        let case = gpu.case::<T>(shape)?;
        let first = case.run(gpu, &stream, config)?;
        let second = case.run(gpu, &stream, config)?;
        ensure!(first == second, "{} on {shape:?} gave different bits the second time", config.entry);
    }
    Ok(())
}

/// Cubin and JIT give the same bits.
fn jit<T: Element>(gpu: &Gpu, config: &'static Config) -> Result<(), Failure> {
    let mut jit = gpu.clone();
    jit.gemm = Gemm::with_preference(&gpu.device, Prefer::Jit)?.into();
    let kernel = jit.gemm.kernels().get(config.entry)?;
    ensure!(kernel.origin() == Origin::Jit, "the JIT was asked for and {} came", kernel.origin());
    let stream = gpu.device.stream()?;
    for shape in [Shape::new(129, 70, 65), Shape::new(257, 255, 513)] {
        let case = gpu.case::<T>(shape)?;
        let (cubin, jit) = (case.run(gpu, &stream, config)?, case.run(&jit, &stream, config)?);
        ensure!(cubin == jit, "{} on {shape:?}: cubin and JIT differ", config.entry);
    }
    Ok(())
}
