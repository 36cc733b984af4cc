//! Small kernels: one for each thing that the model does beside what the catalogue's kernels use.

use kernels::catalogue::Swizzle;
use sim::{Access, Argument, Control, Finding, Kind, Launch, Memory, Options, Program, Schedule, TensorMap, run};

/// The PTX around a body. Parameter 0 is the address of `out`, parameter 1 that of `input`.
fn module(bounds: &str, body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n\
         .visible .entry k(.param .u64 out, .param .u64 input)\n{bounds}\n{{\n\
         .reg .pred %p<20>;\n.reg .b16 %h<20>;\n.reg .b32 %r<40>;\n.reg .b64 %d<20>;\n\
         ld.param.u64 %d0, [out];\nld.param.u64 %d1, [input];\nmov.u32 %r0, %tid.x;\nmov.u32 %r1, dynamic;\n\
         mul.wide.u32 %d2, %r0, 4;\nadd.u64 %d2, %d2, %d0;\n{body}\nret;\n}}\n"
    )
}

struct Case {
    bounds: &'static str,
    body: String,
    grid: u32,
    cluster: u32,
    threads: u32,
    input: Vec<u32>,
}

impl Case {
    fn new(threads: u32, body: &str) -> Case {
        Case { bounds: "", body: body.to_string(), grid: 1, cluster: 1, threads, input: vec![0; 64] }
    }

    fn run(&self, schedule: &Schedule) -> Result<Vec<u32>, Box<Finding>> {
        let program = Program::load(&module(self.bounds, &self.body), "k").unwrap_or_else(|error| panic!("{error}"));
        let mut memory = Memory::new();
        let out = memory.insert("out", &[0; 1024], Access::ReadWrite);
        let input: Vec<u8> = self.input.iter().flat_map(|x| x.to_le_bytes()).collect();
        let input = memory.insert("input", &input, Access::Read);
        let launch = Launch {
            grid: [self.grid, 1, 1],
            cluster: [self.cluster, 1, 1],
            block: [self.threads, 1, 1],
            shared_bytes: 8192,
            arguments: vec![Argument::U64(memory.address(out)), Argument::U64(memory.address(input))],
        };
        run(&program, &launch, &mut memory, &Options::default(), schedule, Control::default())?;
        Ok(memory.bytes(out).chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect())
    }

    /// The results, which must be the same under every schedule.
    fn results(&self) -> Vec<u32> {
        let first = self.run(&Schedule::Timed).unwrap_or_else(|finding| panic!("{finding}"));
        for seed in 0..20 {
            let again = self.run(&Schedule::Random(seed)).unwrap_or_else(|finding| panic!("{finding}"));
            assert_eq!(first, again, "seed {seed}");
        }
        first
    }

    fn finding(&self) -> Box<Finding> {
        self.run(&Schedule::Random(1)).expect_err("a finding")
    }
}

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
fn matrix_fragments_multiply() {
    // A is the identity times 2, B holds small numbers: ldmatrix, mma.sync, stmatrix.
    let mut case = Case::new(
        32,
        // Rows of A at 0 (16 rows of 16 halves), of B at 512 (8 columns of 16 halves), result at 1024.
        "mov.u32 %r2, 0;
         fill: add.u32 %r3, %r2, %r0; mul.wide.u32 %d3, %r3, 4; add.u64 %d3, %d3, %d1;
         ld.global.u32 %r4, [%d3]; shl.b32 %r5, %r3, 2; add.u32 %r5, %r5, %r1; st.shared.u32 [%r5], %r4;
         add.u32 %r2, %r2, 32; setp.lt.u32 %p1, %r2, 192; @%p1 bra fill;
         bar.sync 0;
         and.b32 %r6, %r0, 15; shr.u32 %r7, %r0, 4; shl.b32 %r6, %r6, 5; shl.b32 %r7, %r7, 4; add.u32 %r6, %r6, %r7;
         add.u32 %r6, %r6, %r1;
         ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r6];
         and.b32 %r8, %r0, 7; shr.u32 %r9, %r0, 3; and.b32 %r9, %r9, 1; shl.b32 %r8, %r8, 5; shl.b32 %r9, %r9, 4;
         add.u32 %r8, %r8, %r9; add.u32 %r8, %r8, %r1;
         ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, [%r8+512];
         mov.b32 %r20, 0;
         mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r16, %r17, %r18, %r19}, {%r10, %r11, %r12, %r13},
           {%r14, %r15}, {%r20, %r20, %r20, %r20};
         cvt.rn.f16x2.f32 %r21, %r17, %r16; cvt.rn.f16x2.f32 %r22, %r19, %r18;
         and.b32 %r23, %r0, 15; shl.b32 %r23, %r23, 4; add.u32 %r23, %r23, %r1;
         stmatrix.sync.aligned.m8n8.x2.shared.b16 [%r23+1024], {%r21, %r22};
         bar.sync 0;
         shl.b32 %r24, %r0, 2; add.u32 %r24, %r24, %r1; ld.shared.u32 %r25, [%r24+1024]; st.global.u32 [%d2], %r25;
         ld.shared.u32 %r26, [%r24+1152]; st.global.u32 [%d2+128], %r26;",
    );
    let half = |x: f32| sim::float::F16.encode(f64::from(x), ptx::ast::Rounding::Nearest);
    let mut halves = vec![0u32; 384];
    for i in 0..16 {
        halves[i * 16 + i] = half(2.0);
    }
    for column in 0..8 {
        for k in 0..16 {
            halves[256 + column * 16 + k] = half((column * 16 + k) as f32);
        }
    }
    case.input = halves.chunks(2).map(|pair| pair[0] | pair[1] << 16).collect();
    let out = case.results();
    for row in 0..16 {
        for column in 0..8 {
            let got = out[(row * 8 + column) / 2] >> (16 * (column % 2)) & 0xffff;
            assert_eq!(got, half((2 * (column * 16 + row)) as f32), "row {row}, column {column}");
        }
    }
}

#[test]
fn bulk_copies_of_plain_memory() {
    // One thread loads, all add one, one thread stores.
    let body = "setp.eq.u32 %p1, %r0, 0; @!%p1 bra ready;
         mbarrier.init.shared::cta.b64 [%r1], 1; fence.mbarrier_init.release.cluster;
         ready: bar.sync 0; add.u32 %r2, %r1, 1024; @!%p1 bra wait;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
         cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 256, [%r1];
         wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra wait;
         shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r2; ld.shared.u32 %r4, [%r3]; add.u32 %r4, %r4, 1;
         st.shared.u32 [%r3], %r4; fence.proxy.async.shared::cta; bar.sync 0; @!%p1 bra end;
         cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 256; cp.async.bulk.commit_group;
         cp.async.bulk.wait_group 0; end:";
    let mut case = Case::new(64, body);
    case.input = (0..64).collect();
    assert!(case.results()[..64].iter().enumerate().all(|(i, &x)| x == i as u32 + 1));
    case.body = body.replace("fence.proxy.async.shared::cta; ", "");
    assert_eq!(case.finding().kind, Kind::MissingProxyFence);
    case.body = body.replace("[%r2], [%d1], 256", "[%r2], [%d1], 250");
    assert_eq!(case.finding().kind, Kind::Misaligned);
    case.body = body.replace("cp.async.bulk.wait_group 0; ", "");
    assert_eq!(case.finding().kind, Kind::ExitOutstanding);
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
fn what_a_launch_must_fit_is_checked() {
    let mut case = Case::new(64, "");
    case.bounds = ".maxntid 32, 1, 1";
    let finding = case.finding();
    assert_eq!(finding.kind, Kind::Launch);
    assert!(finding.message.contains("64 threads are above the entry's .maxntid of 32"), "{finding}");
    case.bounds = ".reqnctapercluster 2, 1, 1";
    assert!(case.finding().message.contains("is not the entry's .reqnctapercluster"));
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

/// Bytes of `out` that a store of a 16×2 box of 16-bit ones writes, into rows of `columns` elements that lie 32
/// bytes apart.
fn written_by_a_tensor_store(columns: u64) -> Vec<usize> {
    let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.extern .shared .align 1024 .b8 dynamic[];\n\
         .visible .entry k(.param .align 64 .b8 map[128])\n{\n.reg .b32 %r<4>;\n.reg .b64 %d<4>;\n\
         mov.b64 %d0, map;\ncvta.param.u64 %d0, %d0;\nmov.u32 %r0, dynamic;\nmov.u32 %r1, -1;\nmov.u32 %r2, 0;\n";
    let fill: String = (0..16).map(|word| format!("st.shared.u32 [%r0+{}], %r1;\n", 4 * word)).collect();
    let store = "fence.proxy.async.shared::cta;\n\
         cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%d0, {%r2, %r2}], [%r0];\n\
         cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;\nret;\n}\n";
    let program = Program::load(&format!("{text}{fill}{store}"), "k").unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let out = memory.insert("out", &[0; 64], Access::ReadWrite);
    let map = TensorMap::matrix(memory.address(out), 2, [2, columns, 16], [16, 2], Swizzle::None);
    let launch = Launch {
        grid: [1; 3],
        cluster: [1; 3],
        block: [1, 1, 1],
        shared_bytes: 1024,
        arguments: vec![Argument::TensorMap(map)],
    };
    run(&program, &launch, &mut memory, &Options::default(), &Schedule::Timed, Control::default())
        .unwrap_or_else(|finding| panic!("{finding}"));
    let bytes = memory.bytes(out);
    (0..bytes.len()).filter(|&at| bytes[at] != 0).collect()
}

#[test]
fn tensor_stores_write_whole_chunks_of_16_bytes() {
    let rows = |bytes: usize| (0..bytes).chain(32..32 + bytes).collect::<Vec<_>>();
    assert_eq!(written_by_a_tensor_store(8), rows(16));
    assert_eq!(written_by_a_tensor_store(10), rows(32), "elements 10 to 15 share a chunk with 8 and 9");
    assert_eq!(written_by_a_tensor_store(16), rows(32));
}
