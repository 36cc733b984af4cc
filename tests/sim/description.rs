//! PTX from elsewhere, with a launch description.

use std::path::Path;

use sim::description::{Description, Prepared};
use sim::{Control, Finding, Kind, Program, Schedule, run};

fn example() -> Prepared {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/check");
    let text = std::fs::read_to_string(folder.join("add-one.toml")).expect("the example's description");
    let description = Description::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    description.prepare(&folder).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the example with its text changed; returns what differs from what it expects.
fn differences(change: (&str, &str), schedule: &Schedule) -> Result<Vec<String>, Box<Finding>> {
    let prepared = example();
    assert!(change.0.is_empty() || prepared.text.contains(change.0), "{change:?}");
    let text = prepared.text.replacen(change.0, change.1, usize::from(!change.0.is_empty()));
    let program = Program::load(&text, prepared.entry()).unwrap_or_else(|error| panic!("{error}"));
    let (mut memory, launch) = prepared.launch().unwrap_or_else(|error| panic!("{error}"));
    run(&program, &launch, &mut memory, &prepared.options, schedule, Control::default())?;
    Ok(prepared.differences(&memory))
}

#[test]
fn the_example_is_right() {
    for schedule in [Schedule::Timed].into_iter().chain(Schedule::extremes(2)).chain((0..50).map(Schedule::Random)) {
        let found = differences(("", ""), &schedule).unwrap_or_else(|finding| panic!("{finding}"));
        assert!(found.is_empty(), "{schedule}: {found:?}");
    }
}

#[test]
fn its_faults_are_found() {
    for (change, kind) in [
        (("fence.proxy.async.shared::cta;", ""), Kind::MissingProxyFence),
        (("cp.async.bulk.wait_group 0;", ""), Kind::ExitOutstanding),
        (("_, [%barrier], 256;", "_, [%barrier], 128;"), Kind::WrongExpectTx),
        (("@!%done bra \tWAIT;", ""), Kind::UninitialisedRead),
        (("[%tile], [%in], 256,", "[%tile], [%in], 272,"), Kind::OutOfBounds),
    ] {
        // A wait that gives up early does so under some schedules only.
        let finding = (0..20).find_map(|seed| differences(change, &Schedule::Random(seed)).err());
        let finding = finding.unwrap_or_else(|| panic!("{change:?}: nothing found"));
        let alike = kind == Kind::UninitialisedRead && finding.kind == Kind::ReadBeforeLanded;
        assert!(finding.kind == kind || alike, "{change:?}: {finding}");
    }
    let found = differences(("add.u32 \t%value, %value, 1;", "add.u32 %value, %value, 2;"), &Schedule::Timed);
    assert!(found.expect("a run")[0].contains("differs from what is expected from byte 0 on"));
}
