//! Faults planted in a kernel that has none: each is found, and named.

use sim::{Kind, Schedule};

use crate::edit::{Role, Text, operand};
use crate::plant::Plant;

/// Two tiles each way and five tiles of K on a ring of two.
const PLANT: Plant = Plant { entry: "v3_f16_128x64x64_s2", size: [200, 100, 320], multiprocessors: 132, parts: 1 };

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    PLANT.finds(kinds, word, change);
}

#[test]
fn the_kernel_without_a_fault() {
    PLANT.is_clean();
}

#[test]
fn producer_starts_with_phase_0() {
    finds(&[Kind::Deadlock], "nobody arrives on empty[0] in phase 0", |t| {
        for at in t.waits(Role::Producer) {
            t.flip_parity(at);
        }
    });
}

#[test]
fn consumer_starts_with_phase_1() {
    finds(&[Kind::UninitialisedRead, Kind::ReadBeforeLanded], "A", |t| {
        for at in t.waits(Role::Consumer) {
            t.flip_parity(at);
        }
    });
}

#[test]
fn empty_expects_127() {
    finds(&[Kind::DoubleArrival, Kind::ExitOutstanding, Kind::Deadlock], "empty", |t| set_count(t, 128, 127));
}

#[test]
fn empty_expects_129() {
    finds(&[Kind::Deadlock], "lacks 1 of its 129 arrivals", |t| set_count(t, 128, 129));
}

#[test]
fn full_expects_2() {
    finds(&[Kind::Deadlock], "lacks 1 of its 2 arrivals", |t| set_count(t, 1, 2));
}

/// Changes the count of every barrier that is initialised with `from`.
fn set_count(t: &mut Text, from: u32, to: u32) {
    let mut changed = 0;
    for at in t.all("mbarrier.init") {
        let register = operand(&t.lines[at], -1);
        let set = (0..at).rev().find(|&i| t.lines[i].contains(&format!("mov.b32 \t{register}, "))).expect("a count");
        if operand(&t.lines[set], -1) == from.to_string() {
            t.change(at, &format!(", {register};"), &format!(", {to};"));
            changed += 1;
        }
    }
    assert_eq!(changed, 2, "two stages");
}

/// Changes the bytes that each expect_tx announces.
fn set_bytes(t: &mut Text, to: u32) {
    for at in t.all("expect_tx") {
        let register = operand(&t.lines[at], -1);
        t.change(at, &format!(", {register};"), &format!(", {to};"));
    }
}

#[test]
fn bytes_short_by_one_tile() {
    finds(&[Kind::WrongExpectTx, Kind::ReadBeforeLanded, Kind::UninitialisedRead], "expect_tx", |t| {
        set_bytes(t, 16384)
    });
}

#[test]
fn bytes_too_many() {
    finds(&[Kind::Deadlock], "its expect_tx was too large", |t| set_bytes(t, 16384 + 8192 + 16));
}

#[test]
fn bytes_not_announced() {
    finds(&[Kind::WrongExpectTx, Kind::ReadBeforeLanded, Kind::UninitialisedRead], "full[0]", |t| {
        for at in t.all("mbarrier.arrive.expect_tx") {
            let barrier = operand(&t.lines[at], 1);
            t.lines[at] = format!("mbarrier.arrive.shared::cta.b64 _, {barrier};");
        }
    });
}

#[test]
fn consumer_does_not_wait() {
    finds(&[Kind::ReadBeforeLanded, Kind::UninitialisedRead], "bulk load", |t| {
        for at in t.waits(Role::Consumer) {
            t.skip_wait(at);
        }
    });
}

#[test]
fn producer_does_not_wait() {
    finds(&[Kind::OverwriteWhileRead, Kind::Race, Kind::DoubleArrival], "a wgmma may still read it", |t| {
        for at in t.waits(Role::Producer) {
            t.skip_wait(at);
        }
    });
}

#[test]
fn release_before_the_wait() {
    finds(&[Kind::OverwriteWhileRead], "a wgmma may still read it", |t| {
        for at in t.all("wgmma.wait_group") {
            let arrive = (at..t.lines.len()).find(|&i| t.lines[i].contains("mbarrier.arrive")).expect("an arrival");
            t.swap(at, arrive);
        }
    });
}

#[test]
fn one_group_left_in_flight() {
    finds(&[Kind::OverwriteWhileRead, Kind::RegisterInFlight], "a wgmma may still read it", |t| {
        for at in t.all("wgmma.wait_group") {
            t.change(at, " 0;", " 1;");
        }
    });
}

#[test]
fn wait_group_missing() {
    finds(&[Kind::OverwriteWhileRead, Kind::RegisterInFlight], "a wgmma may still read it", |t| {
        t.remove_all("wgmma.wait_group");
    });
}

#[test]
fn commit_missing() {
    finds(&[Kind::OverwriteWhileRead, Kind::RegisterInFlight], "a wgmma may still read it", |t| {
        t.remove_all("wgmma.commit_group");
    });
}

#[test]
fn fence_missing() {
    finds(&[Kind::MissingWgmmaFence], "wgmma.fence", |t| t.remove_all("wgmma.fence"));
}

#[test]
fn accumulator_read_early() {
    finds(&[Kind::RegisterInFlight], "no wgmma.wait_group lies between", |t| {
        let mma = t.first("wgmma.mma_async");
        let registers = operand(&t.lines[mma], 0);
        let first = registers.trim_start_matches('{').split(',').next().expect("an accumulator").trim().to_string();
        let wait = t.first("wgmma.wait_group");
        t.lines[wait].insert_str(0, &format!("{{ .reg .b32 early; mov.b32 early, {first}; }} "));
    });
}

#[test]
fn accumulator_written_after_the_fence() {
    finds(&[Kind::MissingWgmmaFence], "was written after the last wgmma.fence", |t| {
        let mma = t.first("wgmma.mma_async");
        let registers = operand(&t.lines[mma], 0);
        let first = registers.trim_start_matches('{').split(',').next().expect("an accumulator").trim().to_string();
        t.lines[mma].insert_str(0, &format!("mov.b32 {first}, {first}; "));
    });
}

#[test]
fn drain_missing() {
    finds(&[Kind::ExitOutstanding], "the drain is missing", |t| {
        for at in t.waits(Role::Drain) {
            t.skip_wait(at);
        }
    });
}

#[test]
fn block_barrier_after_init_missing() {
    finds(&[Kind::UninitialisedBarrier], "[0]", |t| t.remove_all("bar.sync"));
}

#[test]
fn init_fence_missing() {
    finds(&[Kind::UninitialisedBarrier], "no fence.mbarrier_init", |t| t.remove_all("fence.mbarrier_init"));
}

#[test]
fn barrier_not_initialised() {
    finds(&[Kind::UninitialisedBarrier], "there is no initialised mbarrier", |t| {
        let last = *t.all("mbarrier.init").last().expect("an init");
        t.remove(last);
    });
}

#[test]
fn barrier_initialised_twice() {
    finds(&[Kind::BarrierOverflow], "initialised again", |t| {
        let first = t.first("mbarrier.init");
        t.lines[first] = t.lines[first].repeat(2);
    });
}

#[test]
fn double_arrival() {
    finds(&[Kind::DoubleArrival], "arrives twice on empty[0]", |t| {
        let first = t.first("mbarrier.arrive.shared::cta");
        t.lines[first] = t.lines[first].repeat(2);
    });
}

#[test]
fn only_warp_0_arrives() {
    finds(&[Kind::Deadlock], "lacks 96 of its 128 arrivals", |t| {
        for at in t.all("mbarrier.arrive.shared::cta") {
            let line = t.lines[at].trim().to_string();
            t.lines[at] = format!(
                "{{ .reg .b32 id; .reg .pred others; mov.u32 id, %tid.x; setp.gt.u32 others, id, 31; @!others {line} }}"
            );
        }
    });
}

/// Changes the coordinates of the load from parameter `which` (0: A, 1: B) in every stage.
fn change_coordinates(t: &mut Text, which: usize, change: impl Fn(&str, &str) -> (String, String)) {
    for (i, at) in t.all("cp.async.bulk.tensor.2d").into_iter().enumerate() {
        if i % 2 == which {
            let source = operand(&t.lines[at], 1);
            let (x, y) = source
                .split_once('{')
                .and_then(|s| s.1.split_once('}'))
                .and_then(|s| s.0.split_once(", "))
                .expect("two");
            let (new_x, new_y) = change(x, y);
            t.change(at, &format!("{{{x}, {y}}}"), &format!("{{{new_x}, {new_y}}}"));
        }
    }
}

#[test]
fn coordinates_swapped() {
    finds(&[Kind::WrongTile], "are coordinates swapped", |t| {
        change_coordinates(t, 0, |x, y| (y.to_string(), x.to_string()));
    });
}

#[test]
fn rows_of_another_tile() {
    finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
        change_coordinates(t, 0, |x, _| (x.to_string(), "0".to_string()));
    });
}

#[test]
fn wrong_results_name_who_stored_them() {
    let finding = PLANT.run(&|t| change_coordinates(t, 0, |x, _| (x.to_string(), "0".to_string())), &Schedule::Timed);
    let report = finding.expect("a finding").to_string();
    for part in ["C[128, 0]", "block (1,0,0), warp 0 (consumer)", "st.global", "source   kernels/src/epilogue.rs"] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
}

#[test]
fn standstills_name_all_who_wait() {
    let fault = |t: &mut Text| set_count(t, 1, 2);
    let report = PLANT.run(&fault, &Schedule::Timed).expect("a finding").to_string();
    for part in [
        "block (0,0,0), warps 0–3 (consumer), lanes 0–31: waiting for phase 0 of full[0]",
        "block (0,0,0), warp 4 (producer), lane 0 (thread 128): waiting for phase 0 of empty[0]",
        "full[0] is in phase 0: 1 of 2 arrivals and 0 bytes are pending (24576 announced, 24576 landed)",
    ] {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
}

#[test]
fn maps_swapped() {
    finds(&[Kind::WrongExpectTx, Kind::WrongTile, Kind::Race, Kind::Deadlock, Kind::ReadBeforeLanded], "full", |t| {
        let loads = t.all("cp.async.bulk.tensor.2d");
        let (a, b) = (operand(&t.lines[loads[0]], 1), operand(&t.lines[loads[1]], 1));
        let (a, b) = (
            a[1..].split(',').next().expect("a map").to_string(),
            b[1..].split(',').next().expect("a map").to_string(),
        );
        for at in loads {
            let line = t.lines[at].replace(&format!("[{a},"), "[swap,").replace(&format!("[{b},"), &format!("[{a},"));
            t.lines[at] = line.replace("[swap,", &format!("[{b},"));
        }
    });
}

#[test]
fn wrong_swizzle_in_the_descriptor() {
    // Bit 62 is the 128-byte swizzle: with bit 63 instead it is the 64-byte one.
    finds(&[Kind::SwizzleMismatch], "swizzle", |t| {
        let mma = t.first("wgmma.mma_async");
        let descriptor = operand(&t.lines[mma], 1);
        t.lines[mma].insert_str(0, &format!("xor.b64 {descriptor}, {descriptor}, 0xC000000000000000; "));
    });
}

#[test]
fn stage_off_its_alignment() {
    finds(&[Kind::Misaligned], "not a multiple of 1024", |t| {
        let load = t.first("cp.async.bulk.tensor.2d");
        let dst = operand(&t.lines[load], 0);
        t.change(load, &dst, &format!("[{}+128]", &dst[1..dst.len() - 1]));
    });
}

#[test]
fn stage_outside_shared_memory() {
    finds(&[Kind::OutOfBounds], "outside the block's", |t| {
        let load = t.first("cp.async.bulk.tensor.2d");
        let dst = operand(&t.lines[load], 0);
        t.change(load, &dst, &format!("[{}+49152]", &dst[1..dst.len() - 1]));
    });
}

#[test]
fn part_of_a_warp_at_an_aligned_barrier() {
    finds(&[Kind::Divergence], "aligned", |t| {
        let at = t.first("bar.sync");
        t.lines[at] =
            "{ .reg .b32 id; .reg .pred some; mov.u32 id, %laneid; setp.gt.u32 some, id, 3; @some bar.sync 0; }"
                .to_string();
    });
}

#[test]
fn a_warp_missing_at_the_block_barrier() {
    finds(&[Kind::Deadlock, Kind::UninitialisedBarrier], "named barrier", |t| {
        let at = t.first("bar.sync");
        t.lines[at] =
            "{ .reg .b32 id; .reg .pred some; mov.u32 id, %tid.x; setp.lt.u32 some, id, 128; @some bar.sync 0, 160; }"
                .to_string();
    });
}

#[test]
fn rows_outside_c_are_stored() {
    finds(&[Kind::OutOfBounds, Kind::WrongResult], "C", |t| {
        // The parameter M, 1024 rows larger.
        let at = t.first("_param_3]");
        let register = operand(&t.lines[at], 0);
        t.lines[at].push_str(&format!(" add.s32 {register}, {register}, 1024;"));
    });
}

#[test]
fn trap() {
    finds(&[Kind::Trap], "traps", |t| {
        let at = t.first("wgmma.fence");
        t.lines[at].insert_str(0, "trap; ");
    });
}

#[test]
fn endless_loop() {
    finds(&[Kind::Livelock], "since anything visible happened", |t| {
        let at = t.first("wgmma.fence");
        t.lines[at].insert_str(0, "{ forever: bra.uni forever; } ");
    });
}

#[test]
fn reports_name_place_source_and_history() {
    let finding = PLANT
        .run(
            &|t| {
                for at in t.waits(Role::Producer) {
                    t.skip_wait(at);
                }
            },
            &Schedule::Random(1),
        )
        .expect("a finding");
    let report = finding.to_string();
    for part in
        [PLANT.entry, "thread 128", "producer", "ptx      line", "kernels/src/", "random:1", "history", "bulk load"]
    {
        assert!(report.contains(part), "no `{part}` in {report}");
    }
    // The same schedule gives the same report.
    let again = PLANT.run(
        &|t| {
            for at in t.waits(Role::Producer) {
                t.skip_wait(at);
            }
        },
        &"random:1".parse().expect("a schedule"),
    );
    assert_eq!(again.expect("a finding").to_string(), report);
}
