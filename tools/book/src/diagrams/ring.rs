//! Producer, ring and consumers.

use kernels::catalogue::{Kernel, WARPGROUP};

use crate::svg::{At, Drawing, Fill};

/// A moment of v3 with three stages: one is being read, one is ready, one is being filled.
pub fn draw() -> String {
    let roles = Kernel::V3.roles(128);
    let mut drawing = Drawing::new(800, 300);
    drawing.cell((14.0, 64.0), (76.0, 34.0), Fill::Neutral, 13.0, "A, M×K");
    drawing.cell((14.0, 130.0), (76.0, 34.0), Fill::Neutral, 13.0, "B, N×K");
    drawing.note((52.0, 44.0), At::Middle, 11.0, "global memory");
    drawing.cell((140.0, 70.0), (100.0, 88.0), Fill::Color(0), 13.0, "");
    drawing.on((190.0, 100.0), 13.0, "producer");
    let producer = roles.consumer_threads() / (WARPGROUP / 4);
    drawing.on((190.0, 120.0), 12.0, &format!("warp {producer}"));
    drawing.arrow(&[(90.0, 81.0), (140.0, 92.0)]);
    drawing.arrow(&[(90.0, 147.0), (140.0, 136.0)]);

    drawing.note((434.0, 18.0), At::Middle, 11.0, "shared memory: the ring");
    drawing.rect((296.0, 30.0), (276.0, 172.0), Fill::Outline);
    for (stage, state) in ["being read", "ready", "being filled"].into_iter().enumerate() {
        let x = 306.0 + 88.0 * stage as f64;
        drawing.text((x + 40.0, 46.0), At::Middle, 12.0, &format!("stage {stage}"));
        let fill = if stage == 2 { Fill::Neutral } else { Fill::Color(1) };
        drawing.cell((x, 58.0), (38.0, 34.0), fill, 13.0, "A");
        drawing.cell((x + 42.0, 58.0), (38.0, 34.0), fill, 13.0, "B");
        drawing.note((x + 40.0, 104.0), At::Middle, 11.0, state);
        let (full, empty) = if stage == 2 { (Fill::Neutral, Fill::Color(5)) } else { (Fill::Color(5), Fill::Neutral) };
        drawing.cell((x, 118.0), (80.0, 30.0), full, 12.0, "full");
        drawing.cell((x, 156.0), (80.0, 30.0), empty, 12.0, "empty");
    }
    drawing.arrow(&[(240.0, 84.0), (296.0, 84.0)]);
    drawing.text((268.0, 70.0), At::Middle, 12.0, "TMA");

    drawing.rect((626.0, 30.0), (104.0, 172.0), Fill::Outline);
    drawing.note((678.0, 18.0), At::Middle, 11.0, "consumers");
    for warp in 0..4 {
        let y = 40.0 + 38.0 * f64::from(warp);
        drawing.cell((634.0, y), (88.0, 32.0), Fill::Color(6), 12.0, &format!("warp {warp}"));
    }
    drawing.arrow(&[(572.0, 84.0), (626.0, 84.0)]);
    drawing.text((599.0, 70.0), At::Middle, 11.0, "wgmma");
    drawing.arrow(&[(730.0, 116.0), (760.0, 116.0)]);
    drawing.text((778.0, 116.0), At::Middle, 14.0, "C");

    drawing.arrow(&[(678.0, 202.0), (678.0, 226.0), (190.0, 226.0), (190.0, 158.0)]);
    let empty =
        format!("empty: {} consumer threads are done reading; the producer may overwrite", roles.consumer_threads());
    drawing.text((434.0, 242.0), At::Middle, 12.0, &empty);
    drawing.text((434.0, 268.0), At::Middle, 12.0, "full: the bytes of both tiles have landed; the consumers may read");
    drawing.note((434.0, 287.0), At::Middle, 11.0, "green: the barrier's phase is complete");
    drawing.finish()
}
