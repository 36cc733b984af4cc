//! The parts of a multiprocessor that the kernels use.

use kernels::catalogue::{
    REGISTERS_PER_QUARTER, SHARED_LIMIT, SHARED_PER_MULTIPROCESSOR, WARP, WARPS_PER_MULTIPROCESSOR,
};

use crate::svg::{At, Drawing, Fill};

/// One multiprocessor, and the way of a tile from global memory to the tensor cores and back.
pub fn draw() -> String {
    let mut drawing = Drawing::new(780, 430);
    // Memory on the left.
    drawing.cell((14.0, 120.0), (104.0, 60.0), Fill::Neutral, 13.0, "DRAM");
    drawing.cell((14.0, 250.0), (104.0, 60.0), Fill::Neutral, 13.0, "L2 cache");
    drawing.arrow(&[(66.0, 180.0), (66.0, 250.0)]);
    drawing.arrow(&[(82.0, 250.0), (82.0, 180.0)]);

    // The multiprocessor.
    drawing.rect((160.0, 40.0), (606.0, 376.0), Fill::Outline);
    drawing.text((172.0, 22.0), At::Right, 15.0, "one multiprocessor");
    let registers = REGISTERS_PER_QUARTER * WARP;
    let warps = WARPS_PER_MULTIPROCESSOR / 4;
    for quarter in 0..4 {
        let x = 176.0 + 147.0 * f64::from(quarter);
        drawing.rect((x, 54.0), (138.0, 138.0), Fill::Outline);
        drawing.cell((x + 8.0, 62.0), (122.0, 26.0), Fill::Neutral, 12.0, "scheduler");
        drawing.cell((x + 8.0, 94.0), (122.0, 42.0), Fill::Color(2), 12.0, "");
        drawing.on((x + 69.0, 107.0), 12.0, "registers");
        drawing.on((x + 69.0, 123.0), 11.0, &format!("{registers} of 32 bits"));
        drawing.cell((x + 8.0, 142.0), (122.0, 42.0), Fill::Color(6), 13.0, "tensor core");
        drawing.note((x + 69.0, 204.0), At::Middle, 11.0, &format!("up to {warps} warps"));
    }

    // Shared memory and what goes in and out.
    drawing.rect((330.0, 264.0), (420.0, 84.0), Fill::Color(0));
    drawing.on((540.0, 280.0), 13.0, "shared memory");
    let size = format!("{} KiB, a block at most {}", SHARED_PER_MULTIPROCESSOR / 1024, SHARED_LIMIT / 1024);
    drawing.on((540.0, 297.0), 11.0, &size);
    for stage in 0..3 {
        let x = 344.0 + 100.0 * f64::from(stage);
        drawing.cell((x, 312.0), (44.0, 26.0), Fill::Neutral, 12.0, &format!("A {stage}"));
        drawing.cell((x + 46.0, 312.0), (44.0, 26.0), Fill::Neutral, 12.0, &format!("B {stage}"));
    }
    drawing.cell((644.0, 312.0), (96.0, 26.0), Fill::Color(4), 12.0, "mbarriers");
    drawing.cell((190.0, 264.0), (84.0, 84.0), Fill::Color(1), 14.0, "TMA");
    drawing.arrow(&[(118.0, 270.0), (190.0, 290.0)]);
    drawing.arrow(&[(190.0, 306.0), (118.0, 286.0)]);
    drawing.arrow(&[(274.0, 300.0), (330.0, 300.0)]);
    drawing.arrow(&[(330.0, 330.0), (274.0, 330.0)]);
    // Above the shared memory: wgmma to the left, ordinary accesses to the right.
    drawing.arrow(&[(400.0, 264.0), (400.0, 214.0)]);
    drawing.text((408.0, 228.0), At::Right, 12.0, "wgmma reads A and B");
    drawing.note((408.0, 246.0), At::Right, 11.0, "async proxy");
    drawing.arrow(&[(600.0, 264.0), (600.0, 214.0)]);
    drawing.arrow(&[(616.0, 214.0), (616.0, 264.0)]);
    drawing.text((624.0, 228.0), At::Right, 12.0, "ld, st, ldmatrix");
    drawing.note((624.0, 246.0), At::Right, 11.0, "generic proxy");
    drawing.arrow(&[(232.0, 348.0), (232.0, 384.0), (692.0, 384.0), (692.0, 338.0)]);
    drawing.text((250.0, 400.0), At::Right, 12.0, "“the bytes have landed”: complete_tx, by the async proxy");
    drawing.finish()
}
