//! Faults planted in a persistent kernel with clusters, multicast, moved registers and TMA stores.

use sim::Kind;

use crate::edit::{Role, Text, operand};
use crate::plant::Plant;

/// Two clusters of two blocks, each of which walks over three pairs of tiles.
const PLANT: Plant =
    Plant { entry: "persistent_f16_128x128x64_s6_c2x1", size: [300, 264, 200], multiprocessors: 4, parts: 1 };

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    PLANT.finds(kinds, word, change);
}

#[test]
fn the_kernel_without_a_fault() {
    PLANT.is_clean();
}

#[test]
fn proxy_fence_missing() {
    finds(&[Kind::MissingProxyFence], "no fence.proxy.async between", |t| t.remove_all("fence.proxy.async"));
}

#[test]
fn staging_reused_without_waiting_for_the_store() {
    finds(&[Kind::OverwriteWhileRead], "a bulk store may still read it", |t| {
        t.remove_all("cp.async.bulk.wait_group.read");
    });
}

#[test]
fn only_one_thread_knows_that_the_store_has_read() {
    finds(&[Kind::OverwriteWhileRead, Kind::Race], "a bulk store may still read it", |t| {
        for wait in t.all("cp.async.bulk.wait_group.read") {
            remove_next_barriers(t, wait);
        }
    });
}

#[test]
fn store_issued_before_all_have_written() {
    finds(&[Kind::Race, Kind::UninitialisedRead], "nothing orders an earlier write", |t| {
        for fence in t.all("fence.proxy.async") {
            remove_next_barriers(t, fence);
        }
    });
}

/// Takes away the barrier of each warpgroup that follows line `at`.
fn remove_next_barriers(t: &mut Text, at: usize) {
    for barrier in ["bar.sync 1, ", "bar.sync 2, ", "bar.sync \t1, ", "bar.sync \t2, "] {
        if let Some(found) = (at..t.lines.len()).find(|&i| t.lines[i].contains(barrier)) {
            t.remove(found);
        }
    }
}

#[test]
fn stores_not_awaited_before_exit() {
    finds(&[Kind::ExitOutstanding], "bulk stores it issued", |t| t.remove_all("cp.async.bulk.wait_group 0"));
}

#[test]
fn peer_not_awaited_at_the_end() {
    // The drain awaits the peers too: only without both does a block leave early.
    finds(&[Kind::ExitOutstanding, Kind::PeerExited], "", |t| {
        for at in t.waits(Role::Drain) {
            t.skip_wait(at);
        }
        let (arrive, wait) = (t.all("barrier.cluster.arrive"), t.all("barrier.cluster.wait"));
        t.remove(arrive[1]);
        t.remove(wait[1]);
    });
}

#[test]
fn peer_not_awaited_after_init() {
    // By the schedule, the peer's init has not happened yet or is not ordered before the use.
    let words = [
        "of rank 1 is used, but nothing orders its init",
        "no initialised mbarrier at",
        "of rank 0 is used, but nothing orders its init",
    ];
    PLANT.finds_one_of(&[Kind::UninitialisedBarrier], &words, |t| {
        let (arrive, wait) = (t.first("barrier.cluster.arrive"), t.first("barrier.cluster.wait"));
        t.lines[arrive] = "bar.sync 0;".to_string();
        t.remove(wait);
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
fn mapa_outside_the_cluster() {
    finds(&[Kind::InvalidOperand], "the cluster has 2 blocks", |t| {
        for at in t.all("mapa.shared::cluster") {
            let rank = operand(&t.lines[at], 2);
            t.change(at, &format!(", {rank};"), ", 2;");
        }
    });
}

#[test]
fn multicast_leaves_the_peer_out() {
    finds(&[Kind::Deadlock], "bytes that no copy will bring", Text::multicast_to_rank_0);
}

#[test]
fn empty_counts_one_block_only() {
    let kinds = [Kind::OverwriteWhileRead, Kind::DoubleArrival, Kind::Race, Kind::WrongExpectTx, Kind::ExitOutstanding];
    finds(&kinds, "", |t| {
        for at in t.all("mbarrier.init").into_iter().skip(1).step_by(2) {
            let count = operand(&t.lines[at], -1);
            t.change(at, &format!(", {count};"), ", 2;");
        }
    });
}

#[test]
fn more_registers_taken_than_given() {
    finds(&[Kind::Deadlock], "setmaxnreg.inc asks for more registers", |t| {
        let at = t.first("setmaxnreg.inc");
        t.change(at, "232", "240");
    });
}

#[test]
fn registers_not_given() {
    finds(&[Kind::Deadlock], "setmaxnreg.inc asks for more registers", |t| t.remove_all("setmaxnreg.dec"));
}

#[test]
fn registers_given_by_one_warp_too_few() {
    finds(&[Kind::Deadlock, Kind::Registers], "setmaxnreg", |t| {
        let at = t.first("setmaxnreg.dec");
        let line = t.lines[at].trim().to_string();
        t.lines[at] =
            format!("{{ .reg .b32 id; .reg .pred q; mov.u32 id, %tid.x; setp.lt.u32 q, id, 352; @q {line} }}");
    });
}

#[test]
fn raise_that_lowers() {
    finds(&[Kind::Registers], "raises the registers of a thread from 168 to 160", |t| {
        let at = t.first("setmaxnreg.inc");
        t.change(at, "232", "160");
    });
}

#[test]
fn stmatrix_off_its_alignment() {
    finds(&[Kind::Misaligned], "is not a multiple of the access's 16 bytes", |t| {
        for at in t.all("stmatrix") {
            let address = operand(&t.lines[at], 0);
            t.change(at, &address, &format!("[{}+8]", &address[1..address.len() - 1]));
        }
    });
}

#[test]
fn staging_not_swizzled_like_the_map() {
    finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
        for at in t.all("stmatrix").chunks_exact(2) {
            let (first, second) = (operand(&t.lines[at[0]], 0), operand(&t.lines[at[1]], 0));
            t.change(at[0], &first, &second);
            t.change(at[1], &second, &first);
        }
    });
}

#[test]
fn named_barrier_for_other_threads() {
    finds(&[Kind::BarrierOverflow, Kind::Deadlock, Kind::InvalidOperand], "named barrier", |t| {
        let at = t.first("bar.sync 1, 128");
        t.lines[at] = "{ .reg .b32 id; .reg .pred q; mov.u32 id, %tid.x; setp.lt.u32 q, id, 32; \
                       @q bar.sync 1, 96; @!q bar.sync 1, 128; }"
            .to_string();
    });
}

#[test]
fn rows_of_c_and_columns_swapped() {
    finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
        for at in t.all("cp.async.bulk.tensor.2d.global") {
            let target = operand(&t.lines[at], 0);
            let (x, y) = target
                .split_once('{')
                .and_then(|s| s.1.split_once('}'))
                .and_then(|s| s.0.split_once(", "))
                .expect("two coordinates");
            t.change(at, &format!("{{{x}, {y}}}"), &format!("{{{y}, {x}}}"));
        }
    });
}

#[test]
fn tiles_computed_by_two_clusters() {
    // The result is right all the same.
    finds(&[Kind::Race], "a bulk store overwrites C+", |t| {
        let at = t.first("%nctaid.x");
        t.change(at, "%nctaid.x", "2");
    });
}
