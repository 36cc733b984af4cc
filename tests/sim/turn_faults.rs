//! Faults planted in a kernel whose warpgroups take turns.

use sim::Kind;

use crate::edit::{Role, Text};
use crate::plant::Plant;

/// Two clusters of two blocks, each of which walks over several pairs of tiles, with K of fewer stages than the ring and a
/// rest.
const PLANT: Plant =
    Plant { entry: "pingpong_f16_128x192x64_s4_c2x1", size: [300, 700, 328], multiprocessors: 4, parts: 1 };

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    PLANT.finds(kinds, word, change);
}

#[test]
fn the_kernel_without_a_fault() {
    PLANT.is_clean();
}

#[test]
fn turns_not_given() {
    finds(&[Kind::Deadlock], "", |t| t.remove_all("bar.arrive"));
}

#[test]
fn turns_not_awaited() {
    // The parity of a barrier does not tell a filling from the one two laps later.
    finds(&[Kind::ReadBeforeLanded, Kind::UninitialisedRead, Kind::Race, Kind::OverwriteWhileRead], "", |t| {
        t.remove_all("bar.sync 3, ");
        t.remove_all("bar.sync 4, ");
    });
}

#[test]
fn a_stage_filled_again_before_it_was_read() {
    finds(&[Kind::OverwriteWhileRead, Kind::Race, Kind::WrongExpectTx, Kind::DoubleArrival], "", |t| {
        for at in t.waits(Role::Producer) {
            t.skip_wait(at);
        }
    });
}
