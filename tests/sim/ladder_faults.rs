//! Faults planted in the kernels before V3, whose threads all meet at block barriers, and in the one whose blocks
//! share K.

use sim::Kind;

use crate::edit::{Text, operand};
use crate::plant::Plant;

const V0: Plant = Plant { entry: "v0_f16_128x64x64_s1", size: [100, 60, 200], multiprocessors: 132, parts: 1 };
const V1: Plant = Plant { entry: "v1_f16_128x64x64_s1", size: [100, 60, 200], multiprocessors: 132, parts: 1 };
const V2: Plant = Plant { entry: "v2_f16_128x64x64_s3", size: [100, 60, 400], multiprocessors: 132, parts: 1 };
/// Both blocks of a cluster go around their ring.
const SPLIT: Plant = Plant { entry: "split_f16_64x128x64_s4_k2", size: [60, 120, 700], multiprocessors: 132, parts: 1 };

/// Its MMAs compute the transpose of its tiles.
const SWAPPED: Plant = Plant { entry: "split_f16_32x64x64_s9_k2", size: [30, 60, 900], multiprocessors: 132, parts: 1 };

#[test]
fn the_kernels_without_a_fault() {
    for plant in [V0, V1, V2, SPLIT, SWAPPED] {
        plant.is_clean();
    }
}

fn skip_waits(t: &mut Text) {
    for at in t.all("mbarrier.try_wait") {
        t.skip_wait(at);
    }
}

#[test]
fn tiles_loaded_into_registers_before_they_have_landed() {
    let kinds = [Kind::ReadBeforeLanded, Kind::UninitialisedRead, Kind::DoubleArrival];
    V0.finds(&kinds, "an ordinary load reads", skip_waits);
}

#[test]
fn tiles_multiplied_before_they_have_landed() {
    let kinds = [Kind::ReadBeforeLanded, Kind::UninitialisedRead, Kind::DoubleArrival];
    V1.finds(&kinds, "a wgmma", skip_waits);
    V2.finds(&kinds, "a wgmma", skip_waits);
}

#[test]
fn tiles_replaced_before_all_warps_have_read_them() {
    V0.finds(&[Kind::Race], "while another thread may still read it", |t| {
        // The first block barrier follows the initialisation.
        for at in t.all("bar.sync").into_iter().skip(1) {
            t.remove(at);
        }
    });
}

#[test]
fn tiles_replaced_while_a_group_is_in_flight() {
    for plant in [V1, V2] {
        let kinds = [Kind::OverwriteWhileRead, Kind::RegisterInFlight];
        plant.finds(&kinds, "a bulk load overwrites", |t| {
            for at in t.all("wgmma.wait_group") {
                t.change(at, " 0;", " 1;");
            }
        });
    }
}

#[test]
fn rows_stored_before_all_lanes_have_written_them() {
    for plant in [V0, V1, V2, SPLIT, SWAPPED] {
        plant.finds(&[Kind::Race], "another lane of the warp wrote, with no bar.warp.sync between", |t| {
            t.remove_all("bar.warp.sync");
        });
    }
}

#[test]
fn a_transposed_tile_stored_as_it_is() {
    SWAPPED.finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
        for at in t.all("stmatrix") {
            t.change(at, ".trans", "");
        }
    });
}

/// Takes away the cluster barrier that comes after `others` others.
fn skip_cluster_barrier(t: &mut Text, others: usize) {
    for part in ["barrier.cluster.arrive", "barrier.cluster.wait"] {
        let at = t.all(part)[others];
        t.remove(at);
    }
}

#[test]
fn partial_sums_read_before_the_peer_has_written_them() {
    let kinds = [Kind::Race, Kind::UninitialisedRead, Kind::ReadBeforeLanded];
    SPLIT.finds(&kinds, "an ordinary load reads", |t| skip_cluster_barrier(t, 0));
}

#[test]
fn peer_leaves_before_its_partial_sums_are_read() {
    SPLIT.finds(&[Kind::PeerExited], "", |t| skip_cluster_barrier(t, 1));
}

#[test]
fn partial_sums_of_one_block_twice() {
    SPLIT.finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
        for at in t.all("mapa.shared::cluster") {
            let rank = operand(&t.lines[at], 2);
            t.change(at, &format!(", {rank};"), ", 0;");
        }
    });
}
