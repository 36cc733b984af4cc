//! Threads of a warp and of a block: divergence, votes, shuffles, named barriers.

use sim::Kind;

use crate::case::Case;

#[test]
fn shuffles_votes_and_elections() {
    let out = Case::new(
        32,
        "shfl.sync.bfly.b32 %r2, %r0, 1, 31, -1;
         shfl.sync.down.b32 %r3|%p1, %r0, 4, 31, -1;
         shfl.sync.idx.b32 %r4, %r0, 7, 31, -1;
         shfl.sync.up.b32 %r5|%p3, %r0, 2, 0, -1;
         setp.lt.u32 %p2, %r0, 5;
         vote.sync.ballot.b32 %r6, %p2, -1;
         redux.sync.add.u32 %r7, %r0, -1;
         elect.sync %r8|%p4, -1;
         selp.b32 %r9, 1, 0, %p4;
         selp.b32 %r10, 1, 0, %p1;
         mad.lo.u32 %r11, %r3, 100, %r2;
         mad.lo.u32 %r11, %r5, 10000, %r11;
         st.global.u32 [%d2], %r11;
         mad.lo.u32 %r12, %r7, 10, %r9;
         mad.lo.u32 %r12, %r10, 100000, %r12;
         st.global.u32 [%d2+128], %r12;
         st.global.u32 [%d2+256], %r6;
         st.global.u32 [%d2+384], %r4;",
    )
    .results();
    for i in 0..32u32 {
        let down = if i < 28 { i + 4 } else { i };
        let up = if i >= 2 { i - 2 } else { i };
        assert_eq!(out[i as usize], (i ^ 1) + 100 * down + 10_000 * up, "lane {i}");
        assert_eq!(out[32 + i as usize], 100_000 * u32::from(i < 28) + 4960 + u32::from(i == 0), "lane {i}");
        assert_eq!((out[64 + i as usize], out[96 + i as usize]), (0b11111, 7));
    }
}

#[test]
fn threads_that_diverge_meet_again() {
    // Lane i goes around i times; then all must be together for the aligned barrier.
    let out = Case::new(
        64,
        "mov.u32 %r2, 0; mov.u32 %r3, 0;
         setp.eq.u32 %p1, %r0, 0; @%p1 bra done;
         loop: add.u32 %r2, %r2, 3; add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r0; @%p1 bra loop;
         done: bar.sync 0; st.global.u32 [%d2], %r2;",
    )
    .results();
    assert!((0..64).all(|i| out[i] == 3 * i as u32));
}

#[test]
fn one_side_of_a_branch_may_wait_for_the_other() {
    // Lane 0 waits on a barrier on which lane 1 arrives, on the other side of a branch.
    let out = Case::new(
        32,
        "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared.b64 [%r1], 1;
         bar.warp.sync -1;
         @%p1 bra waiter;
         setp.ne.u32 %p2, %r0, 1; @%p2 bra end;
         mbarrier.arrive.shared.b64 _, [%r1];
         bra end;
         waiter: mbarrier.try_wait.parity.shared.b64 %p3, [%r1], 0; @!%p3 bra waiter;
         end: st.global.u32 [%d2], 1;",
    )
    .results();
    assert!(out[..32].iter().all(|&x| x == 1));
}

#[test]
fn named_barriers_join_some_warps() {
    // Warps 0 and 1 exchange through shared memory; warp 2 takes no part.
    let body = "setp.gt.u32 %p1, %r0, 63; @%p1 bra end;
         shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0; bar.sync 3, 64;
         xor.b32 %r3, %r0, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r1; ld.shared.u32 %r4, [%r3];
         st.global.u32 [%d2], %r4; end:";
    let mut case = Case::new(96, body);
    let out = case.results();
    assert!((0..64).all(|i| out[i] == i as u32 ^ 32));
    case.body = body.replace("bar.sync 3, 64;", "");
    assert!(matches!(case.finding().kind, Kind::Race | Kind::UninitialisedRead));
    case.body = body.replace("bar.sync 3, 64;", "bar.sync 3, 96;");
    assert_eq!(case.finding().kind, Kind::Deadlock);
    case.body = body.replace("bar.sync 3, 64;", "bar.sync 16, 64;");
    assert_eq!(case.finding().kind, Kind::InvalidOperand);
}

#[test]
fn lanes_see_what_others_stored_once_they_have_met() {
    let body = "shl.b32 %r2, %r0, 2; add.u32 %r2, %r2, %r1; st.shared.u32 [%r2], %r0; bar.warp.sync -1;
         xor.b32 %r3, %r2, 4; ld.shared.u32 %r4, [%r3]; st.global.u32 [%d2], %r4;";
    let mut case = Case::new(64, body);
    let out = case.results();
    assert!((0..64).all(|i| out[i] == i as u32 ^ 1));
    case.body = body.replace("bar.warp.sync -1;", "");
    let finding = case.finding();
    assert_eq!(finding.kind, Kind::Race);
    assert!(finding.message.contains("another lane of the warp wrote, with no bar.warp.sync between"), "{finding}");
    // A lane sees its own stores anyway, also where it shares a word with another.
    case.body = body.replace("bar.warp.sync -1;", "").replace("xor.b32 %r3, %r2, 4;", "mov.b32 %r3, %r2;");
    assert!(case.results()[..64].iter().enumerate().all(|(i, &x)| x == i as u32));
    case.body = "shl.b32 %r2, %r0, 1; add.u32 %r2, %r2, %r1; cvt.u16.u32 %h0, %r0; st.shared.u16 [%r2], %h0;
         ld.shared.u16 %h1, [%r2]; cvt.u32.u16 %r4, %h1; st.global.u32 [%d2], %r4;"
        .to_string();
    assert!(case.results()[..64].iter().enumerate().all(|(i, &x)| x == i as u32));
}

#[test]
fn launches_may_depend_on_each_other() {
    let out =
        Case::new(32, "griddepcontrol.wait; st.global.u32 [%d2], %r0; griddepcontrol.launch_dependents;").results();
    assert!((0..32).all(|i| out[i] == i as u32));
}
