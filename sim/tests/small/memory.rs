//! Ordinary loads and stores, atomics, and what they must not do.

use sim::Kind;

use crate::case::Case;

#[test]
fn blocks_may_talk_through_global_memory() {
    // Block 1 waits for block 0's flag; block 0 waits for nothing. Both run at once.
    let mut case = Case::new(
        32,
        "mov.u32 %r2, %ctaid.x; setp.eq.u32 %p1, %r2, 0; @%p1 bra first;
         wait: ld.acquire.gpu.global.u32 %r3, [%d0+512]; setp.eq.u32 %p2, %r3, 0; @%p2 bra wait;
         ld.global.u32 %r4, [%d2]; add.u32 %r4, %r4, 5; st.global.u32 [%d2+128], %r4; bra end;
         first: st.global.u32 [%d2], %r0; bar.sync 0; setp.ne.u32 %p3, %r0, 0; @%p3 bra end;
         st.release.gpu.global.u32 [%d0+512], 1; atom.global.add.u32 %r5, [%d0+516], 7; end:",
    );
    case.grid = 2;
    let out = case.results();
    assert!((0..32).all(|i| out[32 + i] == i as u32 + 5));
    assert_eq!(out[129], 7);
}

#[test]
fn endless_waiting_for_global_memory_is_a_livelock() {
    let mut case = Case::new(32, "wait: ld.acquire.gpu.global.u32 %r3, [%d0]; setp.eq.u32 %p2, %r3, 0; @%p2 bra wait;");
    case.grid = 2;
    assert_eq!(case.finding().kind, Kind::Livelock);
}

#[test]
fn endless_stores_are_a_livelock_too() {
    let mut case = Case::new(32, "again: st.global.u32 [%d2], %r0; bar.sync 0; bra again;");
    case.options.instruction_limit = 10_000;
    let finding = case.finding();
    assert_eq!(finding.kind, Kind::Livelock);
    assert!(finding.message.contains("there is no end") && finding.notes.iter().any(|n| n == "the bound is 10000"));
}

#[test]
fn misuse_is_found() {
    for (body, kind) in [
        ("ld.shared.u32 %r2, [%r1];", Kind::UninitialisedRead),
        ("st.shared.u32 [%r1+2], %r0;", Kind::Misaligned),
        ("st.shared.u32 [%r1+8192], %r0;", Kind::OutOfBounds),
        ("st.shared.u32 [%r1], %r0;", Kind::Race),
        ("ld.global.u32 %r2, [0];", Kind::OutOfBounds),
        ("st.global.u32 [%d1], %r0;", Kind::OutOfBounds),
        ("setp.lt.u32 %p1, %r0, 5; @%p1 bra.uni end; end:", Kind::Divergence),
        ("setp.lt.u32 %p1, %r0, 5; @%p1 bra a; bar.sync 0; a:", Kind::Divergence),
        ("setp.lt.u32 %p1, %r0, 5; @%p1 shfl.sync.idx.b32 %r2, %r0, 0, 31, 0xffff0000;", Kind::Divergence),
        ("mbarrier.arrive.shared.b64 _, [%r1];", Kind::UninitialisedBarrier),
        ("barrier.cluster.wait;", Kind::Deadlock),
        ("wgmma.fence.sync.aligned;", Kind::Divergence),
    ] {
        let finding = Case::new(64, body).finding();
        assert_eq!(finding.kind, kind, "{body}: {finding}");
    }
}

#[test]
fn vectors_move_in_one_access() {
    // Each thread takes 16 bytes to shared memory, and brings back those of its neighbour.
    let body = "shl.b32 %r2, %r0, 4; add.u32 %r3, %r2, %r1; cvt.u64.u32 %d3, %r2; add.u64 %d4, %d1, %d3;
         ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%d4]; st.shared.v4.b32 [%r3], {%r4, %r5, %r6, %r7}; bar.sync 0;
         xor.b32 %r3, %r3, 16; ld.shared.v4.b32 {%r4, %r5, %r6, %r7}, [%r3]; add.u64 %d4, %d0, %d3;
         st.global.v4.b32 [%d4], {%r4, %r5, %r6, %r7};";
    let mut case = Case::new(16, body);
    case.input = (0..64).collect();
    let out = case.results();
    assert!((0..64).all(|i| out[i] == i as u32 ^ 4));
    for (from, to) in [("[%r3], {", "[%r3+4], {"), ("v4.b32 [%d4]", "v4.b32 [%d4+8]")] {
        case.body = body.replace(from, to);
        assert_eq!(case.finding().kind, Kind::Misaligned, "{from}");
    }
}

#[test]
fn atomic_operations_combine() {
    // Words of `out` from 64 on: a sum, a maximum, a sum in f32, a counter that wraps, one that was swapped.
    let mut case = Case::new(
        64,
        "red.relaxed.gpu.global.add.u32 [%d0+256], %r0; atom.global.max.u32 %r2, [%d0+260], %r0;
         mov.b32 %r3, 0f3F000000; red.global.add.f32 [%d0+264], %r3;
         atom.acq_rel.gpu.global.inc.u32 %r4, [%d0+268], 9;
         atom.global.cas.b32 %r5, [%d0+272], 0, 7; atom.shared.exch.b32 %r6, [%r1], %r0;
         st.global.u32 [%d2], %r4;",
    );
    // Words of shared memory that atomics alone touch need no other order; they start as zero here.
    case.body.insert_str(0, "setp.eq.u32 %p1, %r0, 0; @%p1 st.shared.u32 [%r1], 0; bar.sync 0; ");
    for schedule in ["timed", "random:3"] {
        let out = case.run(&schedule.parse().expect("a schedule")).unwrap_or_else(|finding| panic!("{finding}"));
        assert_eq!((out[64], out[65], f32::from_bits(out[66]), out[67], out[68]), (2016, 63, 32.0, 4, 7));
        let mut tickets: Vec<u32> = out[..64].to_vec();
        tickets.sort_unstable();
        assert!((0..60).all(|i| tickets[i] <= tickets[i + 1] && tickets[i] < 10), "{tickets:?}");
    }
}
