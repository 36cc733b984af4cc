//! The benchmark itself, in its shortest form, and cuBLAS as its baseline.

use hopper_gemm::bench::arm::ArmSpec;
use hopper_gemm::bench::results::{Check, Settings};
use hopper_gemm::bench::table::Regime;
use hopper_gemm::bench::{Options, Shape, run};
use hopper_gemm::select::Request;
use kernels::catalogue::Element;

use crate::support::{Failure, Gpu, Test, ensure, test};

pub fn tests() -> Vec<Test> {
    [test("bench::measures", measures)].into_iter().chain(cublas::tests()).collect()
}

fn options(kernels: &str, element: Element) -> Result<Options, Failure> {
    Ok(Options {
        device: 0,
        element,
        shapes: vec![
            Shape::from((512, 256, 256)),
            Shape { sizes: (129, 200, 65), group: Some(String::from("ragged")) },
        ],
        arms: ArmSpec::parse_list(kernels, element, &Request::default())?,
        regimes: Regime::ALL.to_vec(),
        settings: Settings {
            rested_rounds: 3,
            pause_s: 0.0,
            burst_s: 0.001,
            warm_s: 0.05,
            sustained_rounds: 2,
            slot_s: 0.1,
            settle_s: 0.03,
            ..Settings::THOROUGH
        },
        proposals: 8,
        budget: None,
        shape_budget: None,
        command: String::from("hopper-gemm bench"),
        progress: indicatif::ProgressBar::hidden(),
    })
}

/// Every arm is right, and measured in both regimes beside the baseline.
fn measures(_: &Gpu) -> Result<(), Failure> {
    check(&options("auto,v3,v3_f16_128x64x64_s*", Element::F16)?)
}

fn check(options: &Options) -> Result<(), Failure> {
    let mut seen = 0;
    let results = run(options, |results| {
        seen = results.shapes.len();
        Ok(())
    })?;
    ensure!(seen == options.shapes.len(), "{seen} of {} shapes: {:?}", options.shapes.len(), results.incomplete);
    for (shape, asked) in results.shapes.iter().zip(&options.shapes) {
        ensure!(shape.group == asked.group, "{} is of {:?}", shape.size(), shape.group);
        // Rows of 65 elements are padded to 72 and rows of 200 are not.
        let expected = if shape.k == 65 { [72, 72, 200] } else { [256, 256, 256] };
        ensure!(shape.leading_dimensions == Some(expected), "{:?}", shape.leading_dimensions);
        ensure!(shape.input_sets > 1, "{} fits in the L2 cache and has one set of inputs", shape.size());
        ensure!(shape.arms.len() == options.arms.len(), "{} has {} arms", shape.size(), shape.arms.len());
        for arm in &shape.arms {
            ensure!(matches!(arm.check, Check::Passed { .. }), "{}: {:?}", arm.name, arm.check);
            for regime in Regime::ALL {
                let Some(measured) = regime.of(arm) else {
                    return Err(format!("{} was not measured {}", arm.name, regime.name()).into());
                };
                ensure!(measured.seconds.median > 0.0, "{} took {:?}", arm.name, measured.seconds);
                ensure!(measured.ratio.is_some(), "{} has no ratio {}", arm.name, regime.name());
                ensure!(measured.samples.iter().all(|sample| sample.products > 0), "{}", arm.name);
            }
        }
    }
    Ok(())
}

#[cfg(not(feature = "cublas"))]
mod cublas {
    pub fn tests() -> Vec<super::Test> {
        Vec::new()
    }
}

#[cfg(feature = "cublas")]
mod cublas {
    use hopper_gemm::Error;

    use super::*;
    use crate::support::Outcome;

    pub fn tests() -> Vec<Test> {
        Element::ALL
            .into_iter()
            .map(|element| -> Test {
                let name = format!("bench::cublas::{}", element.name());
                (name, Box::new(move |gpu| beside_cublas(gpu, element)))
            })
            .collect()
    }

    /// Both calls of cuBLAS agree with the CPU, and the kernels with them.
    fn beside_cublas(gpu: &Gpu, element: Element) -> Result<Outcome, Failure> {
        match hopper_gemm::cublas::Cublas::new(&gpu.device) {
            Ok(_) => {}
            Err(error @ Error::Library { .. }) => return Ok(Outcome::Skipped(format!("skipped: {error}"))),
            Err(error) => return Err(error.into()),
        }
        check(&options("v3,cublas,gemmex", element)?)?;
        Ok(Outcome::Passed)
    }
}
