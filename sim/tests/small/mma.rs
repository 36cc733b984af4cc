//! Matrix fragments: `ldmatrix`, `mma.sync`, `stmatrix`, and `wgmma` with A in registers.

use sim::Kind;

use crate::case::Case;

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
fn matrices_are_loaded_in_parts_and_transposed() {
    // Four 8×8 matrices of halves, one after the other; each lane gives the address of one row.
    let body = |count: usize, transpose: &str| {
        let registers: Vec<String> = (0..count).map(|i| format!("%r{}", 10 + i)).collect();
        let stores: String = (0..count).map(|i| format!("st.global.u32 [%d2+{}], %r{};", 128 * i, 10 + i)).collect();
        format!(
            "shl.b32 %r2, %r0, 4; add.u32 %r2, %r2, %r1; shl.b32 %r3, %r0, 4; cvt.u64.u32 %d3, %r3;
             add.u64 %d3, %d3, %d1; ld.global.v4.b32 {{%r4, %r5, %r6, %r7}}, [%d3];
             st.shared.v4.b32 [%r2], {{%r4, %r5, %r6, %r7}}; bar.warp.sync -1;
             ldmatrix.sync.aligned.m8n8.x{count}{transpose}.shared.b16 {{{}}}, [%r2]; {stores}",
            registers.join(", ")
        )
    };
    for count in [1, 2, 4] {
        for transpose in ["", ".trans"] {
            let mut case = Case::new(32, &body(count, transpose));
            case.input = (0..128).map(|word| (2 * word) | ((2 * word + 1) << 16)).collect();
            let out = case.results();
            for (i, &got) in out[..32 * count].iter().enumerate() {
                let (matrix, lane) = (i / 32, i % 32);
                let (row, column) = (lane / 4, 2 * (lane % 4));
                let element = |row: usize, column: usize| (64 * matrix + 8 * row + column) as u32;
                let [low, high] = if transpose.is_empty() {
                    [element(row, column), element(row, column + 1)]
                } else {
                    [element(column, row), element(column + 1, row)]
                };
                assert_eq!(got, low | (high << 16), "x{count}{transpose}, matrix {matrix}, lane {lane}");
            }
        }
    }
    // The rows were written by other lanes than those that get them.
    let case = Case::new(32, &body(4, "").replace("bar.warp.sync -1;", ""));
    let finding = Case { input: vec![0; 128], ..case }.finding();
    assert_eq!(finding.kind, Kind::Race, "{finding}");
}

/// bf16 products of ones: sixteen for each element, added to what was there.
#[test]
fn bf16_fragments_multiply() {
    let out = Case::new(
        32,
        "mov.b32 %r2, 0x3F803F80; mov.b32 %r3, 0f42280000;
         mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%r4, %r5, %r6, %r7}, {%r2, %r2, %r2, %r2}, {%r2, %r2},
           {%r3, %r3, %r3, %r3};
         st.global.u32 [%d2], %r7;",
    )
    .results();
    assert!(out[..32].iter().all(|&x| f32::from_bits(x) == 58.0));
}

#[test]
fn wgmma_takes_a_from_registers() {
    // B is 16 of K × 8 of N, K-major without swizzle: two matrices of 8 rows of 16 bytes. Every element of A is the
    // warp's number plus one, every element of B one.
    let body = "mov.b32 %r2, 0x3C003C00; shl.b32 %r3, %r0, 2; add.u32 %r3, %r3, %r1; setp.lt.u32 %p1, %r0, 64;
         @%p1 st.shared.u32 [%r3], %r2; fence.proxy.async.shared::cta; bar.sync 0;
         shr.u32 %r4, %r0, 5; add.u32 %r4, %r4, 1; cvt.rn.f16.u32 %h0, %r4; mov.b32 %r5, {%h0, %h0};
         cvt.u64.u32 %d3, %r1; shr.u64 %d3, %d3, 4; or.b64 %d3, %d3, 0x800080000;
         mov.b32 %r10, 0f3F800000; mov.b32 %r11, %r10; mov.b32 %r12, %r10; mov.b32 %r13, %r10;
         wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%r10, %r11, %r12, %r13}, {%r5, %r5, %r5, %r5}, %d3,
           1, 1, 1, 0;
         wgmma.commit_group.sync.aligned; EARLY
         wgmma.wait_group.sync.aligned 0; st.global.u32 [%d2], %r12;";
    let mut case = Case::new(128, &body.replace("EARLY", ""));
    let out = case.results();
    assert!((0..128).all(|i| f32::from_bits(out[i]) == 1.0 + 16.0 * (i / 32 + 1) as f32));
    for (early, register) in [("mov.b32 %r5, 0;", "%r5"), ("mov.b32 %r6, %r11;", "%r11")] {
        case.body = body.replace("EARLY", early);
        let finding = case.finding();
        assert_eq!(finding.kind, Kind::RegisterInFlight, "{finding}");
        assert!(finding.message.contains(register), "{finding}");
    }
    case.body = body.replace("EARLY", "").replace("fence.proxy.async.shared::cta; ", "");
    assert_eq!(case.finding().kind, Kind::MissingProxyFence);
    case.body = body.replace("EARLY", "").replace("wgmma.fence.sync.aligned;", "");
    assert_eq!(case.finding().kind, Kind::MissingWgmmaFence);
    case.body = body.replace("EARLY", "").replace("wgmma.wait_group.sync.aligned 0;", "");
    assert!(matches!(case.finding().kind, Kind::RegisterInFlight | Kind::ExitOutstanding));
}
