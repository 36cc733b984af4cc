//! Faults planted in a kernel without a producer: what its consumers do in the producer's place.

use sim::Kind;

use crate::edit::{Role, Text, operand};
use crate::plant::Plant;

/// Two clusters of two blocks, each of which walks over three pairs of tiles.
const PLANT: Plant =
    Plant { entry: "wide_f16_256x160x64_s4_c1x2", size: [300, 900, 328], multiprocessors: 4, parts: 1 };

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    PLANT.finds(kinds, word, change);
}

#[test]
fn the_kernel_without_a_fault() {
    PLANT.is_clean();
}

#[test]
fn a_stage_filled_again_before_all_have_read_it() {
    finds(&[Kind::OverwriteWhileRead, Kind::Race, Kind::WrongExpectTx, Kind::DoubleArrival], "", |t| {
        for at in t.waits(Role::Producer) {
            t.skip_wait(at);
        }
    });
}

#[test]
fn stages_released_to_one_block_only() {
    finds(&[Kind::Deadlock, Kind::DoubleArrival, Kind::OverwriteWhileRead, Kind::Race], "empty", |t| {
        for at in t.all("mapa.shared::cluster") {
            let rank = operand(&t.lines[at], 2);
            t.change(at, &format!(", {rank};"), ", 0;");
        }
    });
}

#[test]
fn stages_not_released() {
    finds(&[Kind::Deadlock], "empty", |t| t.remove_all("mbarrier.arrive.shared::cluster"));
}

#[test]
fn multicast_leaves_the_peer_out() {
    finds(&[Kind::Deadlock], "bytes that no copy will bring", Text::multicast_to_rank_0);
}

#[test]
fn peer_not_awaited_at_the_end() {
    finds(&[Kind::PeerExited, Kind::ExitOutstanding], "", |t| {
        let (arrive, wait) = (t.all("barrier.cluster.arrive"), t.all("barrier.cluster.wait"));
        t.remove(arrive[1]);
        t.remove(wait[1]);
    });
}
