//! Blocks of a cluster: distributed shared memory and the cluster barrier.

use sim::Kind;

use crate::case::Case;

#[test]
fn blocks_of_a_cluster_write_to_each_other() {
    const SYNC: &str = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;";
    let store = "mad.lo.u32 %r6, %r2, 100, %r0; st.shared::cluster.u32 [%r5], %r6;";
    let body = |after: &str| {
        format!(
            "mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1;
             shl.b32 %r4, %r0, 2; add.u32 %r4, %r4, %r1; mapa.shared::cluster.u32 %r5, %r4, %r3;
             {SYNC} {store} {after}
             ld.shared.u32 %r7, [%r4]; shl.b32 %r8, %r2, 7; cvt.u64.u32 %d3, %r8; add.u64 %d3, %d3, %d2;
             st.global.u32 [%d3], %r7;"
        )
    };
    let mut case = Case::new(32, &body(SYNC));
    (case.grid, case.cluster) = (2, 2);
    let out = case.results();
    assert!((0..32).all(|i| out[i] == 100 + i as u32 && out[32 + i] == i as u32));
    // Without the second barrier nothing orders the peer's store before the load, or before the exit.
    case.body = body("");
    assert!(matches!(case.finding().kind, Kind::Race | Kind::UninitialisedRead | Kind::PeerExited));
    // A block that leaves after the first barrier may be gone when its peer comes, whether it is or not.
    case.body = body("ret;");
    for schedule in ["late:warp0", "early:warp0", "late:warp1", "timed"] {
        let finding = case.run(&schedule.parse().expect("a schedule")).expect_err("a finding");
        assert_eq!(finding.kind, Kind::PeerExited, "{finding}");
    }
}

#[test]
fn blocks_read_and_count_in_the_memory_of_their_peers() {
    const SYNC: &str = "barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;";
    // Each thread writes 16 bytes of its own block, and reads those of the peer; thread 0 of each adds to a counter
    // of rank 0.
    let body = format!(
        "mov.u32 %r2, %cluster_ctarank; xor.b32 %r3, %r2, 1; shl.b32 %r4, %r0, 4; add.u32 %r4, %r4, %r1;
         mad.lo.u32 %r5, %r2, 100, %r0; st.shared.v4.b32 [%r4], {{%r5, %r5, %r5, %r5}};
         setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r1+1024], 0; {SYNC}
         mapa.shared::cluster.u32 %r6, %r4, %r3; ld.shared::cluster.v4.b32 {{%r7, %r8, %r9, %r10}}, [%r6];
         mapa.shared::cluster.u32 %r11, %r1, 0; @%p1 atom.shared::cluster.add.u32 %r12, [%r11+1024], 1;
         AFTER shl.b32 %r8, %r2, 7; cvt.u64.u32 %d3, %r8; add.u64 %d3, %d3, %d2; st.global.u32 [%d3], %r10;
         setp.eq.and.u32 %p2, %r2, 0, %p1; @%p2 ld.shared.u32 %r13, [%r1+1024]; @%p2 st.global.u32 [%d0+512], %r13;"
    );
    let mut case = Case::new(32, &body.replace("AFTER", SYNC));
    (case.grid, case.cluster) = (2, 2);
    let out = case.results();
    assert!((0..32).all(|i| out[i] == 100 + i as u32 && out[32 + i] == i as u32));
    assert_eq!(out[128], 2);
    // Nothing orders the peer's stores before these reads.
    case.body = body.replacen(SYNC, "", 1).replace("AFTER", SYNC);
    assert!(matches!(case.finding().kind, Kind::Race | Kind::UninitialisedRead));
    case.body = body
        .replacen(SYNC, "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;", 1)
        .replace("AFTER", SYNC);
    for schedule in ["late:warp0", "late:warp1", "timed"] {
        let finding = case.run(&schedule.parse().expect("a schedule")).expect_err("a finding");
        assert!(matches!(finding.kind, Kind::Race | Kind::UninitialisedRead), "{finding}");
    }
    // Nothing keeps the peer from leaving while it is read.
    case.body = body.replace("AFTER", "");
    assert_eq!(case.finding().kind, Kind::PeerExited);
}
