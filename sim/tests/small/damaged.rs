//! Kernels damaged at random: whatever comes of it, it is an error or a finding, and no panic.

use proptest::prelude::*;
use sim::{Access, Argument, Control, Launch, Memory, Options, Program, Schedule, run};

use crate::case::module;

/// Instructions that between them do most of what the model knows.
const BODY: &str = "setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.init.shared::cta.b64 [%r1], 1;
    @%p1 mbarrier.init.shared::cta.b64 [%r1+8], 128; fence.mbarrier_init.release.cluster; bar.sync 0;
    add.u32 %r2, %r1, 1024; @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r1], 256;
    @%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%d1], 256, [%r1];
    wait: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], 0; @!%p2 bra wait;
    cvt.u64.u32 %d3, %r2; shr.u64 %d3, %d3, 4; or.b64 %d3, %d3, 0x800080000; mov.b32 %r5, 0x3C003C00;
    mov.b32 %r10, 0; mov.b32 %r11, %r10; mov.b32 %r12, %r10; mov.b32 %r13, %r10; wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, {%r5, %r5, %r5, %r5}, %d3, 1, 1, 1, 0;
    wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; mbarrier.arrive.shared::cta.b64 _, [%r1+8];
    shl.b32 %r3, %r0, 2; add.u32 %r4, %r3, %r2;
    mov.u32 %r6, %cluster_ctarank; mapa.shared::cluster.u32 %r7, %r2, %r6;
    barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ld.shared::cluster.v4.u32 {%r14, %r15, %r16, %r17}, [%r7];
    shfl.sync.bfly.b32 %r18, %r10, 1, 31, -1; elect.sync %r19|%p3, -1; div.u32 %r20, %r14, %r15; bar.sync 1, 128;
    st.shared.u32 [%r4+512], %r18; fence.proxy.async.shared::cta; bar.warp.sync -1; bar.sync 0;
    ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r21}, [%r2]; setmaxnreg.dec.sync.aligned.u32 40;
    @%p1 cp.async.bulk.global.shared::cta.bulk_group [%d0], [%r2], 256; cp.async.bulk.commit_group;
    cp.async.bulk.wait_group 0; bar.sync 0; atom.acq_rel.gpu.global.add.u32 %r22, [%d0+1008], 1;
    st.global.u32 [%d2+256], %r21;";

/// What is done to the instructions.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Remove(usize),
    Repeat(usize),
    Swap(usize, usize),
    /// Puts a number in place of one of an instruction's.
    Number(usize, usize, u64),
    /// Names another register.
    Register(usize, u32, u32),
    /// Guards an instruction.
    Guard(usize, u32),
}

fn damage() -> impl Strategy<Value = Damage> {
    let index = 0usize..1000;
    let number = prop_oneof![0u64..300, Just(u64::from(u32::MAX)), Just(1 << 31), Just(u64::MAX), any::<u64>()];
    prop_oneof![
        index.clone().prop_map(Damage::Remove),
        index.clone().prop_map(Damage::Repeat),
        (index.clone(), index.clone()).prop_map(|(a, b)| Damage::Swap(a, b)),
        (index.clone(), 0usize..6, number).prop_map(|(at, which, to)| Damage::Number(at, which, to)),
        (index.clone(), 0u32..20, 0u32..20).prop_map(|(at, from, to)| Damage::Register(at, from, to)),
        (index, 0u32..4).prop_map(|(at, pred)| Damage::Guard(at, pred)),
    ]
}

/// Replaces the number that comes after `which` others.
fn replace_number(text: &str, which: usize, to: u64) -> String {
    let bytes = text.as_bytes();
    let starts = (1..bytes.len()).filter(|&i| bytes[i].is_ascii_digit() && matches!(bytes[i - 1], b' ' | b'+' | b'-'));
    let Some(start) = starts.clone().nth(which % starts.count().max(1)) else { return text.to_string() };
    let end = text[start..].find(|c: char| !c.is_ascii_alphanumeric()).map_or(text.len(), |end| start + end);
    format!("{}{to}{}", &text[..start], &text[end..])
}

fn damaged(all: &[Damage]) -> String {
    let mut body: Vec<String> = BODY.split_inclusive(';').map(str::to_string).collect();
    for &damage in all {
        let n = body.len().max(1);
        match damage {
            _ if body.is_empty() => {}
            Damage::Remove(at) => drop(body.remove(at % n)),
            Damage::Repeat(at) => body.insert(at % n, body[at % n].replace("wait:", "")),
            Damage::Swap(a, b) => body.swap(a % n, b % n),
            Damage::Number(at, which, to) => body[at % n] = replace_number(&body[at % n], which, to),
            Damage::Register(at, from, to) => {
                body[at % n] = body[at % n].replace(&format!("%r{from}"), &format!("%r{to}"));
            }
            Damage::Guard(at, pred) => {
                let text = body[at % n].trim_start().trim_start_matches("wait:").to_string();
                let label = if body[at % n].contains("wait:") { "wait: " } else { "" };
                body[at % n] = format!("{label}@%p{pred} {}", text.trim_start_matches(['@', '!']));
            }
        }
    }
    module(".maxntid 128, 1, 1", &body.concat())
}

/// Runs a kernel, if it can be loaded; the report of what was found.
fn report(text: &str, schedule: &Schedule, blocks: u32) -> Option<String> {
    let program = Program::load(text, "k").ok()?;
    let mut memory = Memory::new();
    let out = memory.insert("out", &[0; 1024], Access::ReadWrite);
    let input = memory.insert("input", &[0; 256], Access::Read);
    let launch = Launch {
        grid: [blocks, 1, 1],
        cluster: [blocks, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 8192,
        arguments: vec![Argument::U64(memory.address(out)), Argument::U64(memory.address(input))],
    };
    let options = Options { livelock_limit: 5000, instruction_limit: 50_000, ..Options::default() };
    let result = run(&program, &launch, &mut memory, &options, schedule, Control::default());
    Some(result.map_or_else(|finding| finding.to_string(), |_| String::new()))
}

#[test]
fn the_kernel_without_damage_is_right() {
    for schedule in Schedule::extremes(4) {
        assert_eq!(report(&damaged(&[]), &schedule, 1).as_deref(), Some(""), "{schedule}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn no_damage_makes_it_panic(all in prop::collection::vec(damage(), 1..5), seed in 0u64..1000, blocks in 1u32..3) {
        let _ = report(&damaged(&all), &Schedule::Random(seed), blocks);
    }
}
