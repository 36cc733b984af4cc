//! How the warps of a block divide the work, kernel by kernel: from the catalogue.

use kernels::catalogue::{COMPILED, Config, Kernel, WARP, WARPGROUP};

use crate::svg::{At, Drawing, Fill};

/// Every kernel that multiplies, with tiles of 128 rows where it has such, its warps coloured by what they do.
pub fn draw() -> String {
    let kernels: Vec<Kernel> = Kernel::ALL.into_iter().filter(|kernel| kernel.loads()).collect();
    let (top, row, warp) = (44.0, 42.0, 44.0);
    let mut drawing = Drawing::new(780, (top + row * kernels.len() as f64 + 34.0) as u32);
    drawing.note((110.0, 18.0), At::Right, 12.0, "warps of a block; outlined, a warpgroup of 128 threads");
    for (line, kernel) in kernels.iter().enumerate() {
        let y = top + row * line as f64;
        let of_kernel = |config: &&Config| config.kernel == *kernel;
        let of_128_rows = |config: &&Config| of_kernel(config) && config.tile.m == 128;
        let config = COMPILED.iter().find(of_128_rows).or_else(|| COMPILED.iter().find(of_kernel));
        let Some(roles) = config.map(Config::roles) else { continue };
        drawing.text((14.0, y + 14.0), At::Right, 14.0, kernel.name());
        let groups = roles.consumer_warpgroups;
        let per_group = WARPGROUP / WARP;
        let mut x = 110.0;
        for group in 0..groups {
            let width = warp * per_group as f64;
            for lane in 0..per_group {
                let fill = if roles.producer_warps == 0 { Fill::Color(3) } else { Fill::Color(6) };
                let name = (group * per_group + lane).to_string();
                drawing.cell((x + lane as f64 * warp + 3.0, y + 3.0), (warp - 6.0, 22.0), fill, 12.0, &name);
            }
            drawing.rect((x, y), (width, 28.0), Fill::Outline);
            x += width + 8.0;
        }
        for producer in 0..roles.producer_warps {
            // One warp issues the loads. Others are there to give their registers away.
            let fill = if producer == 0 { Fill::Color(0) } else { Fill::Neutral };
            let name = (groups * per_group + producer).to_string();
            drawing.cell((x + producer as f64 * warp + 3.0, y + 3.0), (warp - 6.0, 22.0), fill, 12.0, &name);
        }
        if roles.producer_warps == per_group {
            drawing.rect((x, y), (warp * per_group as f64, 28.0), Fill::Outline);
        }
        drawing.note((766.0, y + 14.0), At::Left, 12.0, &format!("{} threads", roles.threads()));
    }
    let y = top + row * kernels.len() as f64 + 10.0;
    let keys = [
        (Fill::Color(3), "loads and computes"),
        (Fill::Color(0), "loads"),
        (Fill::Color(6), "computes"),
        (Fill::Neutral, "gives its registers"),
    ];
    for (i, (fill, text)) in keys.into_iter().enumerate() {
        let x = 110.0 + 160.0 * i as f64;
        drawing.rect((x, y), (12.0, 12.0), fill);
        drawing.text((x + 20.0, y + 6.0), At::Right, 12.0, text);
    }
    drawing.finish()
}
