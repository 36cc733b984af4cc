//! From what a user asks for to a row of the catalogue.

use std::fmt;
use std::str::FromStr;

use kernels::catalogue::{COMPILED, Cluster, Config, Element as Kind, Kernel, REFUSED, Tile};
use kernels::workspace::MOST_PARTS;

use crate::error::{Error, Result};
use crate::model;

/// M, N and K that stand for the product where none is known yet: one that fills any device.
pub const LARGE: [usize; 3] = [8192; 3];

/// How many configurations an error proposes.
pub(crate) const PROPOSALS: usize = 3;

/// What a user asks for; what is absent is chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// Which kernel.
    pub kernel: Option<Kernel>,
    /// Which tile.
    pub tile: Option<Tile>,
    /// How many stages.
    pub stages: Option<usize>,
    /// Which tiles make up a cluster; blocks on their own when absent.
    pub cluster: Option<Cluster>,
    /// How many blocks of a cluster share the K of a tile.
    pub splits: Option<usize>,
    /// How many clusters share the K of a tile; one when absent.
    pub parts: Option<u32>,
}

impl Request {
    /// Whether it names no more than a kernel, and so leaves the configuration open.
    pub fn is_open(&self) -> bool {
        *self == Request { kernel: self.kernel, ..Request::default() }
    }

    /// Clusters that share a tile.
    fn parts(&self) -> u32 {
        self.parts.unwrap_or(1)
    }

    fn matches(&self, config: &Config) -> bool {
        // A kernel that does not multiply is for those who ask for it by name.
        self.kernel.map_or(config.kernel.loads(), |kernel| kernel == config.kernel)
            && self.tile.is_none_or(|tile| tile == config.tile)
            && self.stages.is_none_or(|stages| stages == config.stages)
            && self.cluster.is_none_or(|cluster| cluster == config.cluster)
            && self.splits.is_none_or(|splits| splits == config.splits)
            && (self.parts() == 1 || config.kernel.takes_parts())
    }

    /// The request with what is absent taken from `choice`.
    fn or(&self, choice: &Choice) -> Choice {
        Choice {
            kernel: self.kernel.unwrap_or(choice.kernel),
            tile: self.tile.unwrap_or(choice.tile),
            stages: self.stages.unwrap_or(choice.stages),
            cluster: self.cluster.unwrap_or(choice.cluster),
            splits: self.splits.unwrap_or(choice.splits),
        }
    }
}

/// What it asks of the catalogue; how many clusters share a tile is asked of the launch.
impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            self.kernel.map(|kernel| format!("kernel {}", kernel.name())),
            self.tile.map(|tile| format!("tile {}", tile_name(tile))),
            self.stages.map(|stages| format!("{stages} stages")),
            self.cluster.map(|cluster| format!("cluster {}", cluster_name(cluster))),
            self.splits.map(|splits| format!("K of a tile shared by {splits} blocks of a cluster")),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        f.write_str(&parts.join(", "))
    }
}

/// What to launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Selection {
    /// The row of the catalogue.
    pub config: &'static Config,
    /// Rows of tiles, or of clusters of them, that are taken together, where not the catalogue's number.
    pub band: Option<u32>,
    /// Clusters that share the K of each tile: 1, or more where the kernel takes it
    /// ([`Kernel::takes_parts`]).
    pub parts: u32,
}

impl Selection {
    /// `config` as the catalogue describes it.
    pub fn new(config: &'static Config) -> Selection {
        Selection { config, band: None, parts: 1 }
    }
}

/// A kernel, its tile, its stages, its cluster and its splits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Choice {
    kernel: Kernel,
    tile: Tile,
    stages: usize,
    cluster: Cluster,
    splits: usize,
}

impl Choice {
    /// How far `config` is from it: other kernels last, then the factors by which the sides of the tile
    /// differ, then the difference in stages, then other clusters and splits.
    fn distance(&self, config: &Config) -> (bool, u64, usize, bool, usize) {
        let octaves = |a: usize, b: usize| (a.max(1) as f64 / b.max(1) as f64).log2().abs();
        let tile = octaves(self.tile.m, config.tile.m)
            + octaves(self.tile.n, config.tile.n)
            + octaves(self.tile.k, config.tile.k);
        let stages = self.stages.abs_diff(config.stages);
        (
            self.kernel != config.kernel,
            (tile * 1024.0) as u64,
            stages,
            self.cluster != config.cluster,
            self.splits.abs_diff(config.splits),
        )
    }
}

/// One line of the table of defaults: what to launch for a C of the given size and form.
struct Default {
    when: When,
    choice: Choice,
}

/// A form of C.
#[derive(Clone, Copy)]
enum When {
    /// At least so many tiles of 128×256, of which a device of 132 multiprocessors takes one each at a time.
    Tiles(usize),
    /// At most so many columns: a narrow C wastes less in a narrow tile.
    Columns(usize),
    Always,
}

impl When {
    fn holds(self, m: usize, n: usize) -> bool {
        match self {
            When::Tiles(tiles) => m.div_ceil(128).saturating_mul(n.div_ceil(256)) >= tiles,
            When::Columns(columns) => n <= columns,
            When::Always => true,
        }
    }
}

/// What is launched where the [`model`] does not choose, for it does not know the kernel or more than a kernel is
/// asked for: what is left open is taken from the first line whose condition holds and whose kernel is the one
/// asked for, if one is. From `benches/results/h200-f16-shapes.json`, and since C is stored in whole rows from
/// `h200-f16-ladder-tiles.json` and `h200-f16-three-stages.json`.
const DEFAULTS: &[Default] = &[
    line(When::Columns(64), Kernel::V3, [128, 64, 64], 4, Cluster::ONE),
    line(When::Tiles(264), Kernel::Persistent, [128, 256, 64], 3, Cluster::ONE),
    line(When::Tiles(64), Kernel::Persistent, [128, 256, 64], 4, Cluster::ONE),
    line(When::Tiles(33), Kernel::V3, [128, 128, 64], 3, Cluster::ONE),
    line(When::Always, Kernel::V3, [128, 64, 64], 4, Cluster::ONE),
    line(When::Always, Kernel::V0, [128, 128, 64], 1, Cluster::ONE),
    line(When::Always, Kernel::V1, [128, 128, 64], 1, Cluster::ONE),
    line(When::Always, Kernel::V2, [128, 128, 64], 2, Cluster::ONE),
    line(When::Always, Kernel::Gemv, [8, 16, 1024], 4, Cluster::ONE),
    line(When::Always, Kernel::Split, [128, 128, 64], 3, Cluster::ONE),
    line(When::Always, Kernel::Parts, [128, 128, 64], 6, Cluster { m: 2, n: 1 }),
    line(When::Columns(64), Kernel::V4, [128, 64, 64], 4, Cluster::ONE),
    line(When::Always, Kernel::V4, [128, 192, 64], 4, Cluster::ONE),
    line(When::Columns(64), Kernel::V5, [128, 64, 64], 4, Cluster::ONE),
    line(When::Always, Kernel::V5, [128, 256, 64], 3, Cluster::ONE),
    line(When::Always, Kernel::Persistent, [128, 128, 64], 6, Cluster::ONE),
    line(When::Always, Kernel::Wide, [256, 192, 64], 3, Cluster::ONE),
    line(When::Always, Kernel::PingPong, [128, 192, 64], 4, Cluster::ONE),
    line(When::Always, Kernel::Ceiling, [128, 256, 64], 4, Cluster::ONE),
];

const fn line(when: When, kernel: Kernel, [m, n, k]: [usize; 3], stages: usize, cluster: Cluster) -> Default {
    Default { when, choice: Choice { kernel, tile: Tile { m, n, k }, stages, cluster, splits: 1 } }
}

/// What to launch for C = A·Bᵀ of M×N×K: exactly what `request` asks for. Where it names no more than a kernel, the
/// [`model`] chooses the configuration if it knows the kernel; else what is left open is as near as possible to the
/// default for that shape. A kernel that computes no product is only chosen by its name.
///
/// # Errors
/// [`Error::Parts`] when a tile is to be shared by no cluster, or by several with a kernel that cannot.
/// When nothing that is compiled matches: [`Error::RefusedConfig`] with the reason when the catalogue
/// names it, else [`Error::UnknownConfig`] with the nearest that exist.
pub fn select(element: Kind, sizes: [usize; 3], request: &Request) -> Result<Selection> {
    if request.is_open()
        && let Some(pick) = model::choose(element, request.kernel, sizes)
    {
        let model::Candidate { config, band, parts, .. } = pick.candidate;
        return Ok(Selection { config, band: Some(band), parts });
    }
    let parts = request.parts();
    if let Some(kernel) = request.kernel {
        check_parts(kernel, parts)?;
    } else if parts == 0 {
        return Err(Error::Parts { kernel: None, parts });
    }
    let [m, n, _] = sizes;
    let holds = |line: &&Default| {
        line.when.holds(m, n)
            && request.kernel.is_none_or(|kernel| kernel == line.choice.kernel)
            && (parts == 1 || line.choice.kernel.takes_parts())
    };
    let default = DEFAULTS.iter().find(holds).unwrap_or(&DEFAULTS[0]);
    let wanted = request.or(&default.choice);
    let nearest = |configs: &'static [Config]| {
        // What computes no product is not proposed for one either.
        let fits = |config: &&Config| {
            config.element == element && (config.kernel.loads() || request.kernel == Some(config.kernel))
        };
        let mut found: Vec<&Config> = configs.iter().filter(fits).collect();
        found.sort_by_key(|config| wanted.distance(config));
        found
    };
    let compiled = nearest(COMPILED);
    if let Some(config) = compiled.iter().find(|config| request.matches(config)) {
        return Ok(Selection { config, band: None, parts });
    }
    let names = |configs: &[&Config]| configs.iter().take(PROPOSALS).map(|config| options(config)).collect();
    let refused = nearest(REFUSED).into_iter().find(|config| request.matches(config));
    match refused.map(|config| (config, config.verdict())) {
        Some((config, Err(refusal))) => {
            Err(Error::RefusedConfig { entry: config.entry, refusal, nearest: names(&compiled) })
        }
        _ => Err(Error::UnknownConfig { wanted: request.to_string(), nearest: names(&compiled) }),
    }
}

/// Whether `parts` clusters can share a tile with `kernel`.
///
/// # Errors
/// [`Error::Parts`] when they cannot.
pub fn check_parts(kernel: Kernel, parts: u32) -> Result<()> {
    if parts == 1 || ((2..=MOST_PARTS).contains(&parts) && kernel.takes_parts()) {
        return Ok(());
    }
    Err(Error::Parts { kernel: Some(kernel.name()), parts })
}

/// The options of the command line that ask for `config` and nothing else.
pub fn options(config: &Config) -> String {
    let options =
        format!("--kernel {} --tile {} --stages {}", config.kernel.name(), tile_name(config.tile), config.stages);
    // A kernel without clusters, or without splits, needs no word about them.
    let any =
        |differs: fn(&Config) -> bool| COMPILED.iter().any(|other| other.kernel == config.kernel && differs(other));
    if any(|other| other.cluster != Cluster::ONE) {
        format!("{options} --cluster {}", cluster_name(config.cluster))
    } else if any(|other| other.splits > 1) {
        format!("{options} --splits {}", config.splits)
    } else {
        options
    }
}

/// An entry whose tiles are shared by `parts` clusters, as it is written in results and tables: the entry alone where
/// that is one, else `split_f16_128x128x64_s3_k8/16`.
pub fn shared_name(entry: &str, parts: u32) -> String {
    if parts == 1 { entry.to_owned() } else { format!("{entry}/{parts}") }
}

/// A tile as it is written on the command line and in entry names: `128x128x64`.
pub fn tile_name(tile: Tile) -> String {
    format!("{}x{}x{}", tile.m, tile.n, tile.k)
}

/// A cluster as it is written on the command line: `2x1` for two tiles of the same column of C.
pub fn cluster_name(cluster: Cluster) -> String {
    format!("{}x{}", cluster.m, cluster.n)
}

/// Whether `name` is that of an entry, or would be: these have underscores, names of kernels have not.
pub fn is_entry(name: &str) -> bool {
    name.contains('_')
}

/// The kernel called `name`.
///
/// # Errors
/// When there is none, with those that exist.
pub fn parse_kernel(name: &str) -> Result<Kernel> {
    let found = Kernel::ALL.into_iter().find(|kernel| kernel.name() == name);
    found.ok_or_else(|| Error::UnknownKernel {
        name: name.to_owned(),
        known: Kernel::ALL.iter().map(|kernel| kernel.name()).collect(),
    })
}

/// The element type called `name`.
///
/// # Errors
/// When there is none, with those that exist.
pub fn parse_element(name: &str) -> Result<Kind> {
    let found = Kind::ALL.into_iter().find(|kind| kind.name() == name);
    found.ok_or_else(|| Error::UnknownElement {
        name: name.to_owned(),
        known: Kind::ALL.iter().map(|kind| kind.name()).collect(),
    })
}

/// Reads a tile, `128x128x64`: rows of C, columns of C, elements of K.
///
/// # Errors
/// When it is not three numbers above zero.
pub fn parse_tile(text: &str) -> Result<Tile> {
    let rule = "a tile is MxNxK, three numbers above zero such as 128x128x64";
    match parse_extents(text) {
        Some([m, n, k]) if m > 0 && n > 0 && k > 0 => Ok(Tile { m, n, k }),
        _ => Err(Error::Syntax { value: text.to_owned(), rule }),
    }
}

/// Reads a cluster, `2x1`: tiles down the rows of C, tiles along its columns.
///
/// # Errors
/// When it is not two numbers above zero.
pub fn parse_cluster(text: &str) -> Result<Cluster> {
    let rule = "a cluster is MxN, two numbers of tiles above zero such as 2x1";
    match parse_extents(text) {
        Some([m, n]) if m > 0 && n > 0 => Ok(Cluster { m, n }),
        _ => Err(Error::Syntax { value: text.to_owned(), rule }),
    }
}

/// Reads the sizes of a problem, `8192` for a square one or `4096x4096x14336`, as M, N and K.
///
/// # Errors
/// When it is neither.
pub fn parse_sizes(text: &str) -> Result<(usize, usize, usize)> {
    let rule = "sizes are MxNxK, three numbers such as 4096x4096x14336, or one for all three";
    match parse_extents(text).or_else(|| text.parse().ok().map(|side| [side; 3])) {
        Some([m, n, k]) => Ok((m, n, k)),
        None => Err(Error::Syntax { value: text.to_owned(), rule }),
    }
}

fn parse_extents<const COUNT: usize>(text: &str) -> Option<[usize; COUNT]> {
    let extents: Vec<usize> = text.split('x').map(usize::from_str).collect::<Result<_, _>>().ok()?;
    extents.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(kernel: Option<&str>, tile: Option<&str>, stages: Option<usize>) -> Request {
        Request {
            kernel: kernel.map(|k| parse_kernel(k).unwrap()),
            tile: tile.map(|t| parse_tile(t).unwrap()),
            stages,
            ..Request::default()
        }
    }

    #[test]
    fn every_row_is_found_by_its_own_options() {
        for config in COMPILED {
            let request = Request {
                kernel: Some(config.kernel),
                tile: Some(config.tile),
                stages: Some(config.stages),
                cluster: Some(config.cluster),
                splits: Some(config.splits),
                parts: None,
            };
            let selected = select(config.element, [1000; 3], &request).unwrap();
            assert_eq!(selected, Selection::new(config));
        }
    }

    #[test]
    fn every_default_is_compiled() {
        for element in Kind::ALL {
            for Default { choice, .. } in DEFAULTS {
                let is_it = |config: &&Config| {
                    let Config { kernel, tile, stages, cluster, splits, .. } = **config;
                    config.element == element && Choice { kernel, tile, stages, cluster, splits } == *choice
                };
                assert!(COMPILED.iter().any(|config| is_it(&config)), "{choice:?} {}", element.name());
            }
        }
    }

    #[test]
    fn every_kernel_has_a_default_for_every_shape() {
        for kernel in Kernel::ALL {
            let last = DEFAULTS.iter().rfind(|line| line.choice.kernel == kernel);
            assert!(last.is_some_and(|line| matches!(line.when, When::Always)), "{}", kernel.name());
        }
    }

    #[test]
    fn defaults_follow_the_size_and_form_of_c() {
        let entry =
            |kernel, m, n| select(Kind::F16, [m, n, 64], &request(Some(kernel), None, None)).unwrap().config.entry;
        assert_eq!(entry("v4", 1797, 10), "v4_f16_128x64x64_s4");
        assert_eq!(entry("v4", 1000, 1000), "v4_f16_128x192x64_s4");
        assert_eq!(entry("v3", 1_000_000, 64), "v3_f16_128x64x64_s4");
        assert_eq!(entry("v3", 512, 512), "v3_f16_128x64x64_s4");
        assert_eq!(entry("v3", 2048, 1024), "v3_f16_128x128x64_s3");
    }

    #[test]
    fn the_model_chooses_where_no_more_than_a_kernel_is_named() {
        for sizes in [[1797, 10, 64], [64, 8192, 8192], [8192; 3]] {
            for kernel in std::iter::once(None).chain(model::KERNELS.map(Some)) {
                for element in Kind::ALL {
                    let pick = model::choose(element, kernel, sizes).unwrap().candidate;
                    let selected = select(element, sizes, &Request { kernel, ..Request::default() }).unwrap();
                    assert_eq!((selected.config, selected.band), (pick.config, Some(pick.band)));
                    assert_eq!(selected.parts, pick.parts);
                    assert!(kernel.is_none_or(|kernel| kernel == selected.config.kernel));
                }
            }
        }
        let selected = select(Kind::F16, [64, 8192, 8192], &request(Some("v5"), None, None)).unwrap();
        assert_eq!((selected.config.kernel, selected.band), (Kernel::V5, None));
    }

    #[test]
    fn what_is_left_open_stays_near_the_default() {
        let config = select(Kind::F16, [4096; 3], &request(Some("v3"), None, Some(3))).unwrap().config;
        assert_eq!(config.entry, "v3_f16_128x128x64_s3");
        let config = select(Kind::Bf16, [4096; 3], &request(None, Some("128x64x32"), None)).unwrap().config;
        // As many stages as the default, and the first of the kernels that have such a tile.
        assert_eq!(config.entry, "v2_bf16_128x64x32_s3");
    }

    #[test]
    fn parts_are_for_kernels_that_take_them() {
        let parts = |kernel: Option<&str>, parts| {
            select(Kind::F16, [512, 512, 32768], &Request { parts: Some(parts), ..request(kernel, None, None) })
        };
        for kernel in [None, Some("split")] {
            let selected = parts(kernel, 7).unwrap();
            assert_eq!((selected.config.kernel, selected.parts), (Kernel::Split, 7));
        }
        assert_eq!(parts(Some("v3"), 1).unwrap().parts, 1);
        for (kernel, number) in
            [(Some("v3"), 2), (Some("persistent"), 7), (Some("split"), 0), (None, 0), (Some("split"), 65536)]
        {
            let error = parts(kernel, number).unwrap_err();
            assert!(matches!(error, Error::Parts { .. }), "{error}");
            assert!(error.to_string().contains(&number.to_string()), "{error}");
        }
    }

    #[test]
    fn clusters_are_chosen_too() {
        for (text, cluster) in [("1x1", Cluster::ONE), ("2x1", Cluster { m: 2, n: 1 })] {
            let asked = request(Some("persistent"), Some("128x256x64"), None);
            let asked = Request { cluster: Some(parse_cluster(text).unwrap()), ..asked };
            assert_eq!(select(Kind::F16, [4096; 3], &asked).unwrap().config.cluster, cluster);
        }
        for wrong in ["", "2", "2x", "2x0", "2x1x1"] {
            assert!(parse_cluster(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_options_of_a_row_find_it_again() {
        for config in COMPILED {
            let options = options(config);
            let words: Vec<&str> = options.split(' ').collect();
            let value = |name| words.iter().position(|word| *word == name).map(|at| words[at + 1]);
            let request = Request {
                kernel: value("--kernel").map(|text| parse_kernel(text).unwrap()),
                tile: value("--tile").map(|text| parse_tile(text).unwrap()),
                stages: value("--stages").map(|text| text.parse().unwrap()),
                cluster: value("--cluster").map(|text| parse_cluster(text).unwrap()),
                splits: value("--splits").map(|text| text.parse().unwrap()),
                parts: None,
            };
            assert_eq!(select(config.element, [4096; 3], &request).unwrap().config, config, "{options}");
        }
    }

    #[test]
    fn a_kernel_that_computes_no_product_is_chosen_by_name_alone() {
        for config in COMPILED.iter().filter(|config| !config.kernel.loads()) {
            let request = |kernel| Request {
                kernel,
                tile: Some(config.tile),
                stages: Some(config.stages),
                cluster: Some(config.cluster),
                splits: Some(config.splits),
                parts: None,
            };
            assert_eq!(select(config.element, [4096; 3], &request(Some(config.kernel))).unwrap().config, config);
            if let Ok(other) = select(config.element, [4096; 3], &request(None)) {
                assert!(other.config.kernel.loads(), "{}", other.config.entry);
            }
        }
    }

    #[test]
    fn an_unknown_tile_is_answered_with_the_nearest() {
        let error = select(Kind::F16, [4096; 3], &request(Some("v3"), Some("128x96x64"), Some(2))).unwrap_err();
        let Error::UnknownConfig { wanted, nearest } = &error else { panic!("{error}") };
        assert_eq!(wanted, "kernel v3, tile 128x96x64, 2 stages");
        assert_eq!(nearest[0], "--kernel v3 --tile 128x128x64 --stages 2");
        assert_eq!(nearest.len(), PROPOSALS);
        // Where no kernel is named, the nearest of the default's kernel come first.
        let error = select(Kind::F16, [4096; 3], &request(None, Some("128x96x64"), Some(2))).unwrap_err();
        let Error::UnknownConfig { wanted, nearest } = &error else { panic!("{error}") };
        assert_eq!(wanted, "tile 128x96x64, 2 stages");
        assert_eq!(nearest[0], "--kernel persistent --tile 128x96x64 --stages 6 --cluster 1x1");
    }

    #[test]
    fn unknown_stages_are_answered_with_the_nearest() {
        let error = select(Kind::F16, [4096; 3], &request(Some("v3"), Some("128x128x64"), Some(99))).unwrap_err();
        let Error::UnknownConfig { nearest, .. } = &error else { panic!("{error}") };
        assert_eq!(nearest[0], "--kernel v3 --tile 128x128x64 --stages 7");
        let error = select(Kind::F16, [4096; 3], &request(None, Some("128x128x64"), Some(99))).unwrap_err();
        let Error::UnknownConfig { nearest, .. } = &error else { panic!("{error}") };
        assert_eq!(nearest[0], "--kernel persistent --tile 128x128x64 --stages 6 --cluster 1x1");
    }

    #[test]
    fn a_refused_tile_is_answered_with_its_reason() {
        for stages in [None, Some(2)] {
            let error = select(Kind::F16, [4096; 3], &request(Some("v3"), Some("256x256x64"), stages)).unwrap_err();
            let Error::RefusedConfig { entry, .. } = &error else { panic!("{error}") };
            assert_eq!(*entry, format!("v3_f16_256x256x64_s{}", stages.unwrap_or(3)));
            assert!(error.to_string().contains("512 accumulator registers"), "{error}");
            let error = select(Kind::F16, [4096; 3], &request(None, Some("256x256x64"), stages)).unwrap_err();
            assert!(error.to_string().contains("512 accumulator registers"), "{error}");
        }
    }

    #[test]
    fn names_are_parsed_or_answered_with_those_that_exist() {
        assert_eq!(parse_kernel("v3").unwrap(), Kernel::V3);
        let error = parse_kernel("v33").unwrap_err().to_string();
        assert!(error.contains("v33") && error.contains("v3"), "{error}");
        assert_eq!(parse_element("bf16").unwrap(), Kind::Bf16);
        let error = parse_element("f64").unwrap_err().to_string();
        assert_eq!(error, "there is no element type f64: the kernels have f16, bf16");
    }

    #[test]
    fn tiles_and_sizes_are_parsed() {
        assert_eq!(parse_tile("128x64x32").unwrap(), Tile { m: 128, n: 64, k: 32 });
        for wrong in ["", "128", "128x64", "128x64x32x2", "128x64x-1", "128x64xa", "0x64x32", "128 x64x32", "x64x32"] {
            assert!(parse_tile(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_sizes("8192").unwrap(), (8192, 8192, 8192));
        assert_eq!(parse_sizes("1x2x0").unwrap(), (1, 2, 0));
        for wrong in ["", "x", "1x2", "1x2x3x4", "-1", "99999999999999999999999x1x1"] {
            assert!(parse_sizes(wrong).is_err(), "{wrong}");
        }
    }
}
