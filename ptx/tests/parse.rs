//! The parser on every instruction that the kernels use, on wrong ones, and on noise.

use proptest::prelude::*;
use ptx::ast::*;
use ptx::parse;

/// A kernel whose body is `body`, which starts on line 12.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n\
         .extern .shared .align 1024 .b8 dynamic_shared[];\n\
         .visible .entry k(.param .align 64 .b8 k_param_0[128], .param .u64 .ptr .align 1 k_param_1, .param .u32 k_param_2)\n\
         .maxntid 160, 1, 1 .minnctapersm 2 .reqnctapercluster 2, 1, 1\n\
         {{\n.reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<99>;\n.reg .b64 %rd<99>;\n{body}\n}}\n"
    )
}

fn body(text: &str) -> Vec<Instruction> {
    let module = parse(&kernel(text)).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.entries[0].body.clone()
}

fn op(text: &str) -> Op {
    let mut body = body(text);
    assert_eq!(body.len(), 1, "{text}");
    body.remove(0).op
}

#[test]
fn everything_that_the_kernels_use() {
    for text in [
        "ld.param.b32 %r12, [k_param_2];",
        "ld.param.b64 %rd98, [k_param_1+0];",
        "cvta.to.global.u64 %rd1, %rd2;",
        "mov.b64 %rd1, k_param_0; cvta.param.u64 %rd1, %rd1;",
        "mov.u32 %r1, dynamic_shared;",
        "mov.b32 %r1, 0f00000000;",
        "mov.b32 {_, %rs1}, %r1;",
        "mov.b32 %r1, {%rs1, %rs2};",
        "mov.b64 {%r1, %r2}, %rd1;",
        "mov.pred %p1, -1;",
        "setp.eq.and.b32 %p1|%p2, %r1, -5, !%p3;",
        "setp.lt.u64 %p1, %rd1, %rd2;",
        "setp.gt.f32 %p1, %r1, 0f3F800000;",
        "selp.b32 %r1, 1, 0, %p1;",
        "and.pred %p1, %p2, %p3; not.pred %p1, %p2; xor.pred %p1, %p2, -1;",
        "add.s64 %rd1, %rd2, -4611685949707845504;",
        "mul.lo.s32 %r1, %r2, %r3; mul.wide.u32 %rd1, %r1, 4; mul.hi.u32 %r1, %r2, %r3; mad.lo.s32 %r1, %r2, %r3, %r4;",
        "bfe.u32 %r1, %r2, 4, 14; bfi.b32 %r1, %r2, %r3, 0, 8; prmt.b32 %r1, %r2, %r3, 0x5410U;",
        "lop3.b32 %r1, %r2, %r3, %r4, 0x80; shf.l.wrap.b32 %r1, %r2, %r3, 5;",
        "shr.u32 %r1, %r2, 7; shl.b64 %rd1, %rd2, 1; shr.s64 %rd1, %rd2, %r1;",
        "div.u32 %r1, %r2, %r3; rem.s32 %r1, %r2, %r3; min.u32 %r1, %r2, %r3; max.s32 %r1, %r2, 0;",
        "cvt.rn.f16x2.f32 %r1, %r2, %r3; cvt.rn.bf16x2.f32 %r1, %r2, %r3; cvt.rn.f16.f32 %rs1, %r1;",
        "cvt.u64.u32 %rd1, %r1; cvt.u16.u32 %rs1, %r1; cvt.rzi.u32.f32 %r1, %r2; cvt.f32.bf16 %r1, %rs1;",
        "add.rn.f32 %r1, %r2, %r3; fma.rn.f32 %r1, %r2, %r3, %r4; mul.f32 %r1, %r2, %r3; add.f16x2 %r1, %r2, %r3;",
        "fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4; rcp.approx.ftz.f32 %r1, %r2; ex2.approx.f32 %r1, %r2; neg.f32 %r1, %r2;",
        "div.rn.f32 %r1, %r2, %r3; div.full.f32 %r1, %r2, %r3; sqrt.rn.f32 %r1, %r2;",
        "ld.global.nc.L1::no_allocate.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+16];",
        "ld.shared.v2.b32 {%r1, %r2}, [%r3+-8]; st.shared::cluster.b32 [%r1], %r2; ld.acquire.gpu.global.b32 %r1, [%rd1];",
        "st.global.b16 [%rd1], %rs1; st.release.gpu.global.u32 [%rd1], %r1; st.shared.v4.b32 [%r1], {%r1, %r2, %r3, %r4};",
        "atom.acq_rel.gpu.global.add.u32 %r1, [%rd1], 1; red.release.gpu.global.add.u32 [%rd1], %r1;",
        "atom.shared.cas.b32 %r1, [%r2], %r3, %r4; atom.global.add.f32 %r1, [%rd1], %r2;",
        "bar.sync 0; bar.sync 1, 128; bar.arrive 2, 256; barrier.sync.aligned 3, 64; barrier.cta.arrive 1, 96;",
        "bar.warp.sync 0xffffffff; barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;",
        "barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
        "mbarrier.init.shared::cta.b64 [%r1], 128; mbarrier.inval.shared.b64 [%r1];",
        "mbarrier.arrive.shared::cta.b64 _, [%r1]; mbarrier.arrive.shared::cta.b64 %rd1, [%r1], 2;",
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], %r2; mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r1];",
        "mbarrier.arrive.shared::cluster.b64 _, [%r1], 1; mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], 64;",
        "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r1], %r2; mbarrier.try_wait.shared::cta.b64 %p1, [%r1], %rd1, 1000;",
        "mbarrier.test_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r1], 0;",
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4];",
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint \
         [%r1], [%rd1, {%r2, %r3, 0}], [%r4], %rs1, %rd2;",
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];",
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1, %r2}], [%r3];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global [%rd1, {%r1, %r2}];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1], 1024, [%r2];",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r1], [%r3], 1024, [%r2];",
        "cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r1], 64; cp.async.bulk.commit_group;",
        "cp.async.bulk.wait_group.read 1; cp.async.bulk.wait_group 0;",
        "cp.async.cg.shared.global [%r1], [%rd1], 16, %r2; cp.async.commit_group; cp.async.wait_group 1; cp.async.wait_all;",
        "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];",
        "wgmma.fence.sync.aligned; wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 1;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %rd1, %rd2, 1, 1, 1, 0, 0;",
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, %rd2, %p1, -1, 1, 1;",
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r1, %r2, %r3, %r4}, {%r5, %r6, %r7, %r8}, {%r9, %r10}, {%r1, %r2, %r3, %r4};",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2, %r3, %r4}, [%r5]; ldmatrix.sync.aligned.m8n8.x2.trans.shared::cta.b16 {%r1, %r2}, [%r5+64];",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r5], {%r1, %r2, %r3, %r4};",
        "shfl.sync.bfly.b32 %r1|%p1, %r2, 16, 31, -1; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.all.pred %p1, !%p2, -1;",
        "elect.sync _|%p1, 0xffffffff; elect.sync %r1|%p1, -1; activemask.b32 %r1; redux.sync.add.s32 %r1, %r2, -1;",
        "mapa.shared::cluster.u32 %r1, %r2, %r3; mapa.u64 %rd1, %rd2, 1; getctarank.shared::cluster.u32 %r1, %r2;",
        "setmaxnreg.inc.sync.aligned.u32 240; setmaxnreg.dec.sync.aligned.u32 40;",
        "griddepcontrol.wait; griddepcontrol.launch_dependents; nanosleep.u32 64;",
        "prefetch.tensormap [%rd1]; prefetch.param.tensormap [k_param_0]; prefetch.global.L2 [%rd1];",
        "createpolicy.fractional.L2::evict_first.b64 %rd1, 1.0;",
        "fence.proxy.async; fence.proxy.async.shared::cta; fence.proxy.async.global; fence.mbarrier_init.release.cluster;",
        "fence.acq_rel.gpu; fence.sc.cta; membar.gl; fence.proxy.alias;",
        "mov.u32 %r1, %tid.x; mov.u32 %r1, %cluster_ctarank; mov.u32 %r1, %laneid; mov.u64 %rd1, %globaltimer;",
        "trap; brkpt; ret; exit;",
        ".pragma \"nounroll\";",
        ".loc 1 5 3\nret;\n.loc 1 6 3, function_name $L__info0, inlined_at 1 2 3\nret;",
        "{ .reg .b32 a; .reg .pred q; setp.eq.u32 q, %r1, 0; @!q bra done; mov.u32 a, %r1; done: }",
        "@%p1 bra.uni $L__BB0_1; $L__BB0_1: ret;",
        "clz.b32 %r1, %r2; popc.b64 %r1, %rd1; brev.b32 %r1, %r2; abs.s32 %r1, %r2; not.b64 %rd1, %rd2; cnot.b32 %r1, %r2;",
    ] {
        body(text);
    }
}

#[test]
fn names_are_resolved() {
    let body = body("loop:\n@!%p7 bra loop;\n{ .reg .b32 %r1; mov.u32 %r1, 5; bra end; end: }\nmov.u32 %r1, 6;");
    assert!(matches!(body[0].op, Op::Branch { target: Label(0), uniform: false }));
    assert_eq!(body[0].guard.map(|g| g.negated), Some(true));
    let Op::Move { dst: inner, .. } = body[1].op else { panic!() };
    let Op::Move { dst: outer, .. } = body[3].op else { panic!() };
    assert_ne!(inner, outer, "a register declared in braces hides the outer one");
    assert!(matches!(body[2].op, Op::Branch { target: Label(3), .. }));
    assert_eq!(body[3].line, 15);
}

#[test]
fn directives_are_kept() {
    let module = parse(&kernel("ret;")).unwrap();
    let entry = &module.entries[0];
    assert_eq!(entry.bounds.max_threads, Some([160, 1, 1]));
    assert_eq!(entry.bounds.min_blocks, Some(2));
    assert_eq!(entry.bounds.required_cluster, Some([2, 1, 1]));
    let params: Vec<_> = entry.params.iter().map(|p| (p.offset, p.bytes, p.align)).collect();
    assert_eq!(params, [(0, 128, 64), (128, 8, 8), (136, 4, 4)]);
    assert_eq!(module.variables[0].bytes, None);
    assert_eq!(module.version, (8, 0));
}

#[test]
fn a_negative_immediate_is_twos_complement() {
    let Op::Binary { b, .. } = op("add.s32 %r1, %r2, -1;") else { panic!() };
    assert_eq!(b, Operand::Int(u64::MAX));
}

#[test]
fn what_is_unknown_is_an_error_with_its_line() {
    for (text, part) in [
        ("frobnicate.b32 %r1;", "unknown instruction"),
        ("add.sat.wibble.s32 %r1, %r2, %r3;", "expected a type"),
        ("add.s32.extra %r1, %r2, %r3;", "unknown modifier `.extra`"),
        ("add.ftz.s32 %r1, %r2, %r3;", "expected a type"),
        ("add.s32 %r1, %r2, %r200;", "not declared"),
        ("add.s32 %r1, %r2, %p1;", "predicate"),
        ("setp.eq.u32 %r1, %r2, %r3;", "not a predicate"),
        ("bra nowhere;", "label `nowhere`"),
        ("a: a: ret;", "defined twice"),
        ("ld.shared.v4.b64 {%rd1, %rd2, %rd3, %rd4}, [%r1];", "16 bytes"),
        ("ld.shared.v2.b32 %r1, [%r1];", "2 values"),
        ("wgmma.mma_async.sync.aligned.m64n12k16.f32.f16.f16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;", "shape"),
        ("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1}, %rd1, %rd2, 1, 1, 1, 0, 0;", "4 registers"),
        ("setmaxnreg.inc.sync.aligned.u32 241;", "multiple of 8"),
        (
            "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}], [%r4];",
            "2 coordinates",
        ),
        ("mbarrier.frob.b64 [%r1];", "mbarriers"),
        ("ret", "`;`"),
        (".frob 1;", "unknown directive"),
        ("call foo;", "unknown instruction"),
        ("mov.b32 %r1, 0f12;", "8 hexadecimal"),
    ] {
        let error = parse(&kernel(text)).expect_err(text);
        assert!(error.message.contains(part), "{text}: {error}");
        let end = if text == "ret" { 13 } else { 12 };
        assert_eq!(error.line, end, "{text}: {error}");
    }
    assert!(parse(".version 8.0\n.func f() { ret; }").unwrap_err().message.contains("functions"));
    assert!(parse(".entry k() {").unwrap_err().message.contains("ends"));
}

#[test]
fn huge_declarations_take_no_memory() {
    let module = parse(".entry k() { .reg .b32 %r<4000000000>; mov.u32 %r3999999999, 1; ret; }").unwrap();
    assert_eq!(module.entries[0].registers.len(), 1);
    let deep = format!(".entry k() {{ {} ret;", "{".repeat(100_000));
    assert!(parse(&deep).unwrap_err().message.contains("deeper"));
}

/// Pieces of PTX, right and wrong.
fn fragment() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        ".entry",
        ".visible",
        "k",
        "(",
        ")",
        "{",
        "}",
        ";",
        ",",
        "[",
        "]",
        "%r1",
        "%p1",
        "%rd1",
        "@",
        "!",
        "-",
        "+",
        "|",
        ".reg",
        ".b32",
        ".pred",
        "%r<9>",
        "%p<9>",
        ".param",
        "mov",
        "add",
        "ld",
        "st",
        ".shared",
        ".global",
        ".v2",
        ".s32",
        "setp",
        ".eq",
        "bra",
        "a",
        ":",
        "0f3F800000",
        "1",
        "0x7fffffffffffffff",
        "18446744073709551615",
        ".align",
        "1024",
        "wgmma",
        ".mma_async",
        ".sync",
        ".aligned",
        ".m64n8k16",
        ".f32",
        ".f16",
        "mbarrier",
        ".init",
        ".b64",
        "cp",
        ".async",
        ".bulk",
        ".tensor",
        ".2d",
        ".version",
        "8.0",
        "\"x\"",
        ".file",
        ".loc",
        ".section",
        "<",
        ">",
        "=",
        ".extern",
        ".b8",
    ])
    .prop_map(str::to_string)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}") {
        let _ = parse(&text);
        let _ = parse(&kernel(&text));
    }

    #[test]
    fn no_sequence_of_pieces_makes_it_panic(pieces in prop::collection::vec(fragment(), 0..60)) {
        let text = pieces.join(" ");
        let _ = parse(&text);
        let _ = parse(&kernel(&text));
    }

    #[test]
    fn no_damaged_kernel_makes_it_panic(at in 0usize..2000, length in 0usize..20, put in "\\PC{0,8}") {
        let mut text: Vec<char> = kernel(
            "{ .reg .pred done; mbarrier.try_wait.parity.shared::cta.b64 done, [%r1], 0; selp.u32 %r2, 1, 0, done; }\n\
             @%p1 bra x; wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r1, %r2, %r3, %r4}, %rd1, %rd2, 1, 1, 1, 0, 0;\n\
             cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2, %r3}], [%r4]; x: ret;",
        ).chars().collect();
        let at = at % text.len();
        let end = (at + length).min(text.len());
        text.splice(at..end, put.chars());
        let _ = parse(&text.into_iter().collect::<String>());
    }
}
