//! Tests on a GPU. They run where a device is and say that they are skipped where none is.
//!
//! The program needs neither cargo nor the source tree at run time, so it can be carried to a machine
//! that has a GPU and no Rust. It takes the options of `cargo test`: a filter, `--list`,
//! `--test-threads`.

mod bench;
mod chains;
mod configurations;
mod context;
mod large;
mod parts;
mod refusals;
mod support;
mod tune;
mod values;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Completion, Trial};

use support::{Gpu, Outcome};

fn main() -> ExitCode {
    if context::is_child() {
        return context::child_main();
    }
    let arguments = Arguments::from_args();
    let gpu = Gpu::find();
    let mut tests = Vec::new();
    tests.extend(configurations::tests());
    tests.extend(chains::tests());
    tests.extend(values::tests());
    tests.extend(refusals::tests());
    tests.extend(context::tests());
    tests.extend(large::tests());
    tests.extend(parts::tests());
    tests.extend(bench::tests());
    tests.extend(tune::tests());
    let trials = tests
        .into_iter()
        .map(|(name, test)| {
            let gpu = gpu.clone();
            Trial::ignorable_test(name, move || match gpu {
                Ok(gpu) => test(&gpu).map(|outcome| match outcome {
                    Outcome::Passed => Completion::Completed,
                    Outcome::Skipped(reason) => Completion::ignored_with(reason),
                }),
                Err(reason) => Ok(Completion::ignored_with(format!("skipped: {reason}"))),
            })
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}
