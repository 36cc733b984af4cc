//! Which kernel a command simulates, and on which product.

use clap::Args;
use half::{bf16, f16};
use hopper_gemm::select::{self, LARGE, Request, parse_cluster, parse_element, parse_kernel, parse_tile};
use hopper_gemm::simulator::Simulation;
use hopper_gemm::{Element, Error, random};
use kernels::catalogue::{self, Cluster, Config, Tile, by_entry};

use super::failure::Failure;

/// Sizes of a product: M, N and K.
pub type Sizes = (usize, usize, usize);

/// A kernel of the catalogue and the matrices of a product.
#[derive(Args)]
pub struct Subject {
    /// Element type [default: f16]
    #[arg(long = "type", value_name = "f16|bf16", value_parser = parse_element, help_heading = "Kernel")]
    element: Option<catalogue::Element>,
    /// Tile of one block, such as 128x128x64 [default: by shape]
    #[arg(long, value_name = "MxNxK", value_parser = parse_tile, help_heading = "Kernel")]
    tile: Option<Tile>,
    /// Stages of the ring in shared memory [default: by shape]
    #[arg(long, value_name = "N", help_heading = "Kernel")]
    stages: Option<usize>,
    /// Tiles of a cluster, such as 2x1
    #[arg(long, value_name = "MxN", value_parser = parse_cluster, help_heading = "Kernel")]
    cluster: Option<Cluster>,
    /// Blocks of a cluster that share the K of a tile
    #[arg(long, value_name = "N", help_heading = "Kernel")]
    splits: Option<usize>,
    /// Clusters that share the K of a tile
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = "Kernel")]
    parts: u32,
    /// Seed of the random matrices
    #[arg(long, value_name = "S", default_value_t = 0, help_heading = "Kernel")]
    matrix_seed: u64,
}

impl Subject {
    /// Whether kernels of this element type are asked for.
    pub fn allows(&self, element: catalogue::Element) -> bool {
        self.element.is_none_or(|wanted| wanted == element)
    }

    /// The configuration that `name`, a kernel or an entry, means together with the options, for a product of these
    /// sizes.
    pub fn config(&self, name: &str, shape: Option<Sizes>) -> Result<&'static Config, Failure> {
        if let Some(config) = by_entry(name) {
            select::check_parts(config.kernel, self.parts)?;
            return Ok(config);
        }
        if select::is_entry(name) {
            return Err(Error::UnknownEntry { entry: name.to_owned() }.into());
        }
        let Subject { tile, stages, cluster, splits, parts, .. } = *self;
        // One cluster is what a request without a word about it means, and leaves it open.
        let parts = (parts != 1).then_some(parts);
        let request = Request { kernel: Some(parse_kernel(name)?), tile, stages, cluster, splits, parts };
        let element = self.element.unwrap_or(catalogue::Element::F16);
        let sizes = shape.map_or(LARGE, |(m, n, k)| [m, n, k]);
        Ok(select::select(element, sizes, &request)?.config)
    }

    /// The kernel on random matrices of these sizes.
    pub fn simulation(&self, config: &'static Config, shape: Sizes) -> Result<Simulation, Failure> {
        match config.element {
            catalogue::Element::F16 => self.random::<f16>(config, shape),
            catalogue::Element::Bf16 => self.random::<bf16>(config, shape),
        }
    }

    fn random<T: Element>(&self, config: &'static Config, (m, n, k): Sizes) -> Result<Simulation, Failure> {
        hopper_gemm::Problem::new(T::KIND, m, n, k)?;
        hopper_gemm::simulator::check_size([m, n, k])?;
        let a = random::normal::<T>(m, k, self.matrix_seed, random::A)?;
        let b = random::normal::<T>(n, k, self.matrix_seed, random::B)?;
        Ok(Simulation::new(config, self.parts, a.view(), b.view())?)
    }

    /// The options of the command line that repeat what a run was given.
    pub fn options(&self, (m, n, k): Sizes) -> String {
        let seed = if self.matrix_seed == 0 { String::new() } else { format!(" --matrix-seed {}", self.matrix_seed) };
        let parts = if self.parts == 1 { String::new() } else { format!(" --parts {}", self.parts) };
        format!("--shape {m}x{n}x{k}{parts}{seed}")
    }
}
