//! Faults planted in gemv, and in how kernels wait for the grid before them.

use sim::Kind;

use crate::edit::Text;
use crate::plant::Plant;

/// Three blocks of four warps; several rounds of K, of which 3 elements are left for the tail.
const GEMV: Plant = Plant { entry: "gemv_f16_8x16x512_s4", size: [5, 40, 1203], multiprocessors: 132, parts: 1 };
const SPLIT: Plant = Plant { entry: "split_f16_64x64x64_s6_k2", size: [60, 60, 300], multiprocessors: 132, parts: 1 };
const WIDE: Plant = Plant { entry: "wide_f16_256x160x64_s4_c1x2", size: [250, 300, 200], multiprocessors: 4, parts: 1 };

#[test]
fn the_kernels_without_a_fault() {
    for plant in [GEMV, SPLIT, WIDE] {
        plant.is_clean();
    }
}

#[test]
fn sums_read_before_all_warps_have_written_them() {
    GEMV.finds(&[Kind::Race, Kind::UninitialisedRead], "", |t| t.remove_all("bar.sync"));
}

#[test]
fn sums_written_over_others() {
    GEMV.finds(&[Kind::UninitialisedRead], "an ordinary load reads", |t| {
        // The second octet of columns over the first.
        let stores = t.all("st.shared.v4.f32");
        let address = |at: usize| t.lines[at].split(['[', ']']).nth(1).unwrap_or_default().to_string();
        let (first, second) = (address(stores[0]), address(stores[1]));
        t.change(stores[1], &second, &first);
    });
}

#[test]
fn columns_beyond_the_last_are_loaded() {
    GEMV.finds(&[Kind::OutOfBounds], "", |t| {
        for at in t.all("@is_there ld.global.L1") {
            t.change(at, "@is_there ", "");
        }
    });
}

#[test]
fn what_is_left_of_k_is_not_multiplied() {
    GEMV.finds(&[Kind::WrongResult], "", |t| {
        let last = t.all("mma.sync").len() - 4;
        for at in t.all("mma.sync").into_iter().skip(last) {
            t.remove(at);
        }
    });
}

/// Moves the wait for the grid before to the end of the kernel.
fn wait_at_the_end(t: &mut Text) {
    let (wait, end) = (t.first("griddepcontrol.wait"), t.all("ret;"));
    t.remove(wait);
    let end = end[end.len() - 1];
    t.change(end, "ret;", "griddepcontrol.wait; ret;");
}

#[test]
fn memory_touched_while_the_grid_before_may_write_it() {
    for plant in [GEMV, SPLIT, WIDE] {
        plant.finds(&[Kind::BeforeGridWait], "griddepcontrol.wait", wait_at_the_end);
    }
}
