//! Global memory between threads, blocks and clusters: what is ordered and what is not.

use sim::{Finding, Kind, Schedule};

use crate::case::Case;

fn grid(blocks: u32, body: &str) -> Case {
    let mut case = Case::new(64, body);
    case.grid = blocks;
    case
}

/// The finding, which every schedule must give, and the same one each time.
fn race(case: &Case) -> Box<Finding> {
    for schedule in ["timed", "late:warp0", "early:warp0", "late:warp1"] {
        let schedule: Schedule = schedule.parse().expect("a schedule");
        let finding = case.run(&schedule).expect_err("a finding");
        assert_eq!(finding.kind, Kind::Race, "{finding}");
        for _ in 0..5 {
            assert_eq!(case.run(&schedule).expect_err("a finding"), finding);
        }
    }
    case.finding()
}

#[test]
fn blocks_that_store_to_the_same_place_are_found() {
    let case = grid(2, "st.global.u32 [%d2], %r0;");
    let finding = race(&case);
    assert!(finding.message.contains("overwrites out+0"), "{finding}");
    assert!(finding.threads.contains("block (1,0,0), warp 0"), "{finding}");
    assert!(finding.notes[0].contains("block (0,0,0), warp 0, lanes 0–31 (line "), "{finding}");
    let mut allowed = grid(2, "st.global.u32 [%d2], 5;");
    allowed.options.ordered_global = false;
    assert_eq!(allowed.results()[..64], [5; 64]);
    // Each its own half, and bytes of the same words.
    let out = grid(
        2,
        "mov.u32 %r2, %ctaid.x; cvt.u64.u32 %d3, %r2; add.u64 %d2, %d2, %d3; cvt.u16.u32 %h0, %r0; \
                       st.global.u8 [%d2], %h0;",
    )
    .results();
    assert!((0..64).all(|i| out[i] == i as u32 * 0x101));
}

#[test]
fn threads_of_a_block_meet_before_they_read_what_others_stored() {
    let body = "st.global.u32 [%d2], %r0; bar.sync 0; xor.b32 %r2, %r0, 32; mul.wide.u32 %d3, %r2, 4;
         add.u64 %d3, %d3, %d0; ld.global.u32 %r3, [%d3]; st.global.u32 [%d2+256], %r3;";
    let out = grid(1, body).results();
    assert!((0..64).all(|i| out[64 + i] == i as u32 ^ 32));
    race(&grid(1, &body.replace("bar.sync 0; ", "")));
}

/// Block 0 stores, and says so; block 1 looks until it is said, and reads. `SAY` and `LOOK` say how.
const MESSAGE: &str = "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r2, 0; @!%p1 bra reader;
     st.global.u32 [%d2], %r0; bar.sync 0; @%p0 SAY bra end;
     reader: @!%p0 bra read; wait: LOOK setp.eq.u32 %p2, %r3, 0; @%p2 bra wait; AFTER
     read: bar.sync 0; ld.global.u32 %r4, [%d2]; st.global.u32 [%d2+256], %r4; end:";

fn message(say: &str, look: &str, after: &str) -> Case {
    grid(2, &MESSAGE.replace("SAY", say).replace("LOOK", look).replace("AFTER", after))
}

#[test]
fn messages_pass_between_blocks() {
    let fence = "fence.acq_rel.gpu;";
    let relaxed = "ld.relaxed.gpu.global.u32 %r3, [%d0+512];";
    let fenced = format!("{fence} @%p0 st.relaxed.gpu.global.u32 [%d0+512], 1;");
    for case in [
        message("st.release.gpu.global.u32 [%d0+512], 1;", "ld.acquire.gpu.global.u32 %r3, [%d0+512];", ""),
        message(&fenced, relaxed, fence),
        message(
            "red.release.gpu.global.add.u32 [%d0+512], 1;",
            "atom.acq_rel.gpu.global.or.b32 %r3, [%d0+512], 0;",
            "",
        ),
        message(
            "membar.gl; @%p0 st.volatile.global.u32 [%d0+512], 1;",
            "ld.volatile.global.u32 %r3, [%d0+512];",
            "membar.gl;",
        ),
    ] {
        let out = case.results();
        assert!((0..64).all(|i| out[64 + i] == i as u32));
    }
    for (say, look, after) in [
        // No fence on one side, or one that reaches its block only.
        ("st.relaxed.gpu.global.u32 [%d0+512], 1;", relaxed, fence),
        (&fenced, relaxed, ""),
        ("fence.acq_rel.cta; @%p0 st.relaxed.gpu.global.u32 [%d0+512], 1;", relaxed, fence),
        ("st.release.cta.global.u32 [%d0+512], 1;", "ld.acquire.gpu.global.u32 %r3, [%d0+512];", ""),
        ("atom.global.add.u32 %r5, [%d0+512], 1;", "ld.acquire.gpu.global.u32 %r3, [%d0+512];", ""),
    ] {
        let finding = message(say, look, after).finding();
        assert_eq!(finding.kind, Kind::Race, "{say} {look} {after}: {finding}");
        assert!(finding.message.contains("an ordinary load reads out+"), "{finding}");
    }
    // Thread 0 speaks for threads that it has not met.
    let alone = MESSAGE.replacen("bar.sync 0; ", "", 1);
    let alone = alone.replace("SAY", "st.release.gpu.global.u32 [%d0+512], 1;").replace("AFTER", "");
    let alone = grid(2, &alone.replace("LOOK", "ld.acquire.gpu.global.u32 %r3, [%d0+512];"));
    assert_eq!(alone.finding().kind, Kind::Race);
}

#[test]
fn atomic_operations_meet_each_other_but_no_ordinary_stores() {
    let out = grid(3, "red.global.add.u32 [%d2], 1;").results();
    assert!(out[..64].iter().all(|&x| x == 3));
    let mixed = "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 st.global.u32 [%d2], 1; \
                 @!%p1 red.global.add.u32 [%d2], 1;";
    assert_eq!(grid(2, mixed).finding().kind, Kind::Race);
}

#[test]
fn bulk_stores_are_done_once_they_are_waited_for() {
    let body = "setp.eq.u32 %p1, %r0, 0; shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0;
         fence.proxy.async.shared::cta; bar.sync 0; @!%p1 bra other;
         cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r1], 256; cp.async.bulk.commit_group;
         cp.async.bulk.wait_group 0; other: bar.sync 0; ld.global.u32 %r3, [%d2]; st.global.u32 [%d2+256], %r3;
         cp.async.bulk.wait_group 0;";
    let out = grid(1, body).results();
    assert!((0..64).all(|i| out[64 + i] == i as u32));
    // That the copy has read does not mean that it has written.
    race(&grid(1, &body.replacen("wait_group 0; other", "wait_group.read 0; other", 1)));
}
