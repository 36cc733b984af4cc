//! `hopper-gemm trace`: a picture of what a kernel does when.

use std::path::PathBuf;

use clap::Args;
use hopper_gemm::Error;
use hopper_gemm::select::parse_sizes;
use kernels::catalogue::Config;
use sim::{Control, Schedule};

use super::failure::Failure;
use super::output;
use super::said;
use super::subject::{Sizes, Subject};

/// Draw a timeline of a kernel: its warps, TMA and the tensor cores.
///
/// The kernel runs in the simulator under a simple timing model: it shows what waits for what, and does not
/// predict speed. A file that ends in .svg gets a picture, one that ends in .json a trace that opens in
/// Perfetto (ui.perfetto.dev).
#[derive(Args)]
pub struct Arguments {
    /// Kernel such as v3, or entry such as v3_f16_128x128x64_s2
    kernel: String,
    /// File to write, .svg or .json
    #[arg(short, long, value_name = "FILE")]
    out: PathBuf,
    /// Multiprocessors of the device: a kernel whose blocks walk over many tiles has as many blocks
    #[arg(long, value_name = "N", default_value_t = 132, value_parser = clap::value_parser!(u16).range(1..))]
    multiprocessors: u16,
    #[command(flatten)]
    subject: Subject,
    /// Sizes of the product: MxNxK, or one number [default: one tile, and K three times around the ring]
    #[arg(long, value_name = "MxNxK", value_parser = |text: &str| said(parse_sizes(text)), help_heading = "Kernel")]
    shape: Option<Sizes>,
}

/// One tile of C, and three times around the ring.
fn one_tile(config: &Config) -> Sizes {
    let Config { tile, cluster, stages, .. } = config;
    (tile.m * cluster.m, tile.n * cluster.n, tile.k * 3 * stages)
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let picture = match arguments.out.extension().and_then(|extension| extension.to_str()) {
        Some("svg") => true,
        Some("json") => false,
        _ => {
            let value = arguments.out.display().to_string();
            return Err(Error::Syntax { value, rule: "the file of a trace ends in .svg or .json" }.into());
        }
    };
    let config = arguments.subject.config(&arguments.kernel, arguments.shape)?;
    let shape = arguments.shape.unwrap_or_else(|| one_tile(config));
    let simulation = arguments.subject.simulation(config, shape)?;
    let device = usize::from(arguments.multiprocessors);
    let product = sim::gemm::Product { multiprocessors: device, ..simulation.product() };
    let sim::gemm::Prepared { mut memory, launch, .. } = product.launch(config);
    let control = Control { trace: true, ..Control::default() };
    let options = product.options(config);
    let outcome = sim::run(simulation.program(), &launch, &mut memory, &options, &Schedule::Timed, control)
        .map_err(sim::gemm::Error::Finding)?;
    let (m, n, k) = shape;
    let text = if picture {
        sim::trace::to_svg(&outcome.spans, &options, &format!("{} on {m}×{n}×{k}", config.entry))
    } else {
        sim::trace::to_json(&outcome.spans, &options)
    };
    std::fs::write(&arguments.out, text).map_err(|source| Error::File {
        action: "write",
        path: arguments.out.clone(),
        source,
    })?;
    output::print(&format!(
        "{}: {} spans of {} on {m}×{n}×{k}\n",
        arguments.out.display(),
        outcome.spans.len(),
        config.entry
    ))?;
    Ok(())
}
