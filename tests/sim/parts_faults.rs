//! Faults planted where clusters that share a tile meet through global memory.

use sim::Kind;

use crate::edit::{Text, operand};
use crate::plant::{Plant, schedules};

const COUNT: &str = "atom.acq_rel.gpu.global.inc.u32";

/// Blocks on their own, of which three share a tile.
const BLOCKS: Plant =
    Plant { entry: "split_f16_64x128x64_s4_k1", size: [60, 120, 500], multiprocessors: 132, parts: 3 };
/// Clusters of two blocks, of which three share a tile.
const CLUSTERS: Plant =
    Plant { entry: "split_f16_64x128x64_s4_k2", size: [60, 120, 900], multiprocessors: 132, parts: 3 };

fn finds(kinds: &[Kind], word: &str, change: impl Fn(&mut Text)) {
    for plant in [BLOCKS, CLUSTERS] {
        plant.finds(kinds, word, &change);
    }
}

#[test]
fn the_kernels_without_a_fault() {
    for plant in [BLOCKS, CLUSTERS] {
        for schedule in schedules() {
            if let Some(finding) = plant.run(&|_| {}, &schedule) {
                panic!("{finding}");
            }
        }
    }
}

/// Makes the count order less.
fn count_with(t: &mut Text, semantics: &str) {
    let at = t.first(COUNT);
    t.change(at, "acq_rel.gpu", semantics);
}

#[test]
fn partial_sums_not_released() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| count_with(t, "acquire.gpu"));
}

#[test]
fn partial_sums_not_acquired() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| count_with(t, "release.gpu"));
}

#[test]
fn partial_sums_counted_without_order() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| count_with(t, "relaxed.gpu"));
}

#[test]
fn partial_sums_released_to_the_cluster_only() {
    finds(&[Kind::Race], "nothing orders an earlier write", |t| count_with(t, "acq_rel.cluster"));
}

#[test]
fn counter_not_back_at_zero() {
    finds(&[Kind::WrongResult], "of the workspace is not zero at the end", |t| {
        let at = t.first(COUNT);
        let last = operand(&t.lines[at], -1);
        t.change(at, "inc", "add");
        t.change(at, &format!(", {last};"), ", 1;");
    });
}

/// Puts an instruction behind the one that tells all lanes the count before.
fn change_count(t: &mut Text, op: &str) {
    let at = t.first("shfl.sync.idx");
    let before = operand(&t.lines[at], 0);
    t.lines[at] = format!("{} {op} {before}, {before}, 1;", t.lines[at]);
}

#[test]
fn summed_before_the_last_has_come() {
    finds(&[Kind::Race, Kind::WrongResult], "nothing orders an earlier write", |t| change_count(t, "add.u32"));
}

#[test]
fn summed_by_nobody() {
    finds(&[Kind::WrongResult], "it was never stored", |t| change_count(t, "sub.u32"));
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
