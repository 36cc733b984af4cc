//! The simulator's arithmetic against recorded results of an H200: the same bits.
//!
//! `tests/data/h200/make.py` made the operands and says which command recorded the products.

use std::path::PathBuf;

use half::{bf16, f16};
use hopper_gemm::{Element, npy};
use sim::gemm::gemm;
use sim::{Control, Schedule};

use crate::problem::{Problem, program};

/// Rows of the operands' files, and their columns.
const SIZE: [usize; 3] = [37, 26, 200];

fn read<T: Element>(case: &str, which: char) -> Vec<T> {
    let name = format!("{case}-{which}.npy");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data/h200").join(name);
    let options = npy::Options { bf16_as_u16: T::KIND == bf16::KIND, transposed: false };
    npy::read::<T>(&path, options).unwrap_or_else(|error| panic!("{}: {error}", path.display())).matrix.data().to_vec()
}

fn bits<T: Element>(values: &[T]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

fn check<T: Element>(case: &str) {
    let recorded = bits(&read::<T>(case, 'c'));
    assert!(recorded.iter().any(|&bits| bits & 0x7fff != 0), "{case}: nothing was recorded");
    for kernel in ["v3", "v4"] {
        let stages = if kernel == "v3" { 2 } else { 3 };
        let entry = format!("{kernel}_{}_128x64x64_s{stages}", T::KIND.name());
        let problem = Problem::of(&entry, SIZE, bits(&read::<T>(case, 'a')), bits(&read::<T>(case, 'b')));
        const CONTROL: Control<'static> = Control { trace: false, progress: None, threads: 1 };
        let schedule = Schedule::Timed;
        let (c, _) = gemm(&program(&entry), problem.config, &problem.product(), &schedule, CONTROL)
            .unwrap_or_else(|error| panic!("{case}, {entry}: {error}"));
        let different = (0..c.len()).filter(|&i| c[i] != recorded[i]).count();
        let first = (0..c.len()).find(|&i| c[i] != recorded[i]);
        assert!(
            different == 0,
            "{case}, {entry}: {different} of {} elements differ from the H200's; the first is {first:?}: {:04x} here, {:04x} there",
            c.len(),
            c[first.unwrap_or(0)],
            recorded[first.unwrap_or(0)]
        );
    }
}

#[test]
fn f16_products_are_the_bits_of_an_h200() {
    for case in ["f16-normal", "f16-wide", "f16-small", "f16-bits"] {
        check::<f16>(case);
    }
}

#[test]
fn bf16_products_are_the_bits_of_an_h200() {
    for case in ["bf16-normal", "bf16-wide", "bf16-small"] {
        check::<bf16>(case);
    }
}
