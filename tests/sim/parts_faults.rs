//! Faults planted where clusters that share a tile meet through global memory.

use sim::Kind;

use crate::edit::{Text, operand};
use crate::plant::{Plant, schedules};

const ADD: &str = "atom.acq_rel.gpu.global.add.u64";
const LOOK: &str = "ld.acquire.gpu.global.u64";

/// Blocks on their own, of which three share a tile.
const BLOCKS: Plant =
    Plant { entry: "split_f16_64x128x64_s4_k1", size: [60, 120, 500], multiprocessors: 132, parts: 3 };
/// Clusters of two blocks, of which three share a tile.
const CLUSTERS: Plant =
    Plant { entry: "split_f16_64x128x64_s4_k2", size: [60, 120, 900], multiprocessors: 132, parts: 3 };
/// Clusters of two tiles, of which three share both.
const NEIGHBOURS: Plant =
    Plant { entry: "parts_f16_128x64x64_s9_c1x2", size: [120, 120, 900], multiprocessors: 132, parts: 3 };
const ALL: [Plant; 3] = [BLOCKS, CLUSTERS, NEIGHBOURS];

/// A device that has room for one of the clusters at a time.
const fn one_by_one(plant: Plant) -> Plant {
    Plant { multiprocessors: 1, ..plant }
}

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    for plant in ALL {
        plant.finds(kinds, word, &change);
    }
}

#[test]
fn the_kernels_without_a_fault() {
    for plant in ALL.into_iter().chain(ALL.map(one_by_one)) {
        plant.is_clean();
    }
}

/// Makes all additions to the word order less.
fn add_with(t: &mut Text, semantics: &str) {
    for at in t.all(ADD) {
        t.change(at, "acq_rel.gpu", semantics);
    }
}

#[test]
fn partial_sums_not_released() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| add_with(t, "acquire.gpu"));
}

#[test]
fn partial_sums_not_acquired() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| add_with(t, "release.gpu"));
}

#[test]
fn partial_sums_left_without_order() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| add_with(t, "relaxed.gpu"));
}

#[test]
fn partial_sums_released_to_the_cluster_only() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| add_with(t, "acq_rel.cluster"));
}

#[test]
fn looked_without_order() {
    for plant in ALL {
        let mut found = 0;
        for schedule in schedules() {
            let change = |t: &mut Text| {
                for at in t.all(LOOK) {
                    t.change(at, "acquire.gpu", "relaxed.gpu");
                }
            };
            if let Some(finding) = plant.run(&change, &schedule) {
                assert!(finding.kind == Kind::Race, "{finding}");
                found += 1;
            }
        }
        // Under some schedules nobody who looks sees the last arrive.
        assert!(found > 1, "{}", plant.entry);
    }
}

#[test]
fn word_not_back_at_zero() {
    finds(&[Kind::WrongResult], "of the workspace is not zero at the end", |t| {
        t.remove_all("st.relaxed.gpu.global.u64");
    });
}

/// Puts an instruction behind the one that tells all lanes their shares.
fn change_shares(t: &mut Text, op: &str, bits: u32) {
    // The first one tells the warpgroup's number.
    let at = *t.all("shfl.sync.idx").last().unwrap_or_else(|| panic!("nobody tells"));
    let shares = operand(&t.lines[at], 0);
    t.lines[at] = format!("{} {op} {shares}, {shares}, {bits};", t.lines[at]);
}

#[test]
fn a_share_summed_by_all() {
    finds(&[Kind::Race, Kind::WrongResult], "nothing orders an earlier write", |t| change_shares(t, "or.b32", 4));
}

#[test]
fn a_share_summed_by_nobody() {
    finds(&[Kind::WrongResult], "it was never stored", |t| change_shares(t, "and.b32", 6));
}

#[test]
fn a_share_given_up_in_silence() {
    for plant in ALL.map(one_by_one) {
        plant.finds(&[Kind::WrongResult], "it was never stored", |t| {
            let last_look = *t.all(LOOK).last().unwrap_or_else(|| panic!("nobody looks"));
            let at = *t.all(ADD).iter().find(|&&at| at > last_look).unwrap_or_else(|| panic!("nobody gives up"));
            let value = operand(&t.lines[at], -1);
            // What a part adds that leaves.
            t.lines[at] = format!("mov.b64 {value}, 65536; {}", t.lines[at].trim());
        });
    }
}

#[test]
fn waiting_for_ever() {
    for plant in ALL.map(one_by_one) {
        plant.finds(&[Kind::Livelock, Kind::Deadlock], "", |t| {
            // Whoever has looked in vain looks again.
            let (first, last) = (t.first(LOOK), *t.all(LOOK).last().unwrap_or_else(|| panic!("nobody looks")));
            let at = *t.all(ADD).iter().find(|&&at| at > last).unwrap_or_else(|| panic!("nobody gives up"));
            t.lines[first] = format!("LOOK_AGAIN: {}", t.lines[first].trim());
            t.lines[at] = format!("bra.uni LOOK_AGAIN; {}", t.lines[at].trim());
        });
    }
}

/// Each cluster leaves its partial sums where the one as far from the other end should: they are all there, and are
/// added up in the order of the last part to the first.
#[test]
fn summed_in_another_order() {
    for (plant, splits) in [(BLOCKS, 1), (CLUSTERS, 2)] {
        // The only tile, in slices of f32.
        let slice_bytes = 64 * 128 / splits * 4;
        plant.finds(&[Kind::WrongResult], "elements of C are wrong", |t| {
            for at in t.all("st.global.v4.f32") {
                let line = t.lines[at].trim().to_string();
                let address = operand(&line, 0);
                let base = address.trim_matches(['[', ']']).split('+').next().unwrap_or_default().to_string();
                let moved = line.replace(&base, "moved");
                t.lines[at] = format!(
                    "{{ .reg .b32 part; .reg .b64 moved; mov.u32 part, %ctaid.x; shr.u32 part, part, {}; \
                     sub.s32 part, 1, part; mul.wide.s32 moved, part, {}; add.s64 moved, moved, {base}; {moved} }}",
                    splits - 1,
                    2 * slice_bytes
                );
            }
        });
    }
}
