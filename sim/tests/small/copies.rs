//! Bulk copies.

use kernels::catalogue::Swizzle;
use sim::{Access, Argument, Control, Kind, Launch, Memory, Options, Program, Schedule, TensorMap, run};

use crate::case::Case;

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
