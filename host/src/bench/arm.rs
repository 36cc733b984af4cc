//! Arms: the ways to compute a product that a benchmark compares.

use std::collections::BTreeMap;

use kernels::catalogue::COMPILED;
use serde_json::Value;
use wildmatch::WildMatch;

use super::inputs::Inputs;
use crate::cuda::{Gemm, Plan, Stream};
use crate::element::Element;
use crate::error::{Error, Result};
use crate::select::{self, Request, Selection};

/// One way to compute the product of one shape, ready to run.
pub trait Arm {
    /// What is known about it, for the results.
    fn facts(&self) -> BTreeMap<String, Value>;

    /// Whether its result is meant to be the product.
    fn multiplies(&self) -> bool {
        true
    }

    /// Whether each element is rounded to the element type once, at the end. A library may choose to add
    /// partial sums that were rounded before; it is then held to the bound on the norm alone.
    fn rounds_once(&self) -> bool {
        true
    }

    /// Puts one product of input set `set` into `stream`.
    fn launch(&mut self, stream: &Stream, set: usize) -> Result<()>;
}

/// Name of the arm that runs what the library chooses for the shape ([`select::select`]).
pub const AUTO: &str = "auto";

/// Which arm is asked for.
#[derive(Clone, Debug)]
pub enum ArmSpec {
    /// A kernel of the catalogue, or whichever the library chooses: the configuration that is chosen for the
    /// shape, unless it is fixed.
    Kernel {
        /// Name of the arm.
        name: String,
        /// What is asked for.
        request: Request,
        /// Rows of tiles that are taken together, where not the kernel's own number.
        band: Option<u32>,
    },
    /// One row of the catalogue.
    Config {
        /// Name of the arm.
        name: String,
        /// The row, and how it is launched.
        selection: Selection,
    },
    /// cuBLASLt, the fastest of its heuristics' proposals.
    #[cfg(feature = "cublas")]
    CublasLt,
    /// cuBLAS, `cublasGemmEx` with its own choice.
    #[cfg(feature = "cublas")]
    GemmEx,
}

/// What arms are prepared with.
pub struct Tools<'a> {
    /// The kernels.
    pub gemm: &'a Gemm,
    /// The stream on which everything runs.
    pub stream: &'a Stream,
    /// cuBLAS, where an arm asks for it.
    #[cfg(feature = "cublas")]
    pub cublas: Option<&'a crate::cublas::Cublas>,
    /// How many of cuBLASLt's proposals are tried.
    pub proposals: usize,
}

impl ArmSpec {
    /// Reads a list such as `v3,cublas` or `v3_f16_128x128x64_s*,gemmex`: names of kernels, to which
    /// `request` adds tile and stages; `auto` for what the library chooses for the shape; names of entries,
    /// which may have the wildcards `*` and `?`; `cublas`, `gemmex`. After a kernel or an entry `/P` has each tile
    /// shared by P clusters, and after that, or `auto`, `@N` takes the tiles of C in bands of N rows.
    ///
    /// # Errors
    /// When a name is none of these, or matches no kernel of type `element`.
    pub fn parse_list(list: &str, element: kernels::catalogue::Element, request: &Request) -> Result<Vec<ArmSpec>> {
        let mut specs: Vec<ArmSpec> = Vec::new();
        for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
            for spec in ArmSpec::parse(name, element, request)? {
                if !specs.iter().any(|other| other.name() == spec.name()) {
                    specs.push(spec);
                }
            }
        }
        if specs.is_empty() {
            return Err(Error::Syntax { value: list.to_string(), rule: "a list of kernels is expected, `v3,cublas`" });
        }
        Ok(specs)
    }

    fn parse(name: &str, element: kernels::catalogue::Element, request: &Request) -> Result<Vec<ArmSpec>> {
        match name {
            #[cfg(feature = "cublas")]
            "cublas" => return Ok(vec![ArmSpec::CublasLt]),
            #[cfg(feature = "cublas")]
            "gemmex" => return Ok(vec![ArmSpec::GemmEx]),
            #[cfg(not(feature = "cublas"))]
            "cublas" | "gemmex" => {
                return Err(Error::NotBuilt { what: "the comparison with cuBLAS", feature: "cublas" });
            }
            _ => {}
        }
        let behind = |text: &'_ str, mark, rule| -> Result<(usize, Option<u32>)> {
            match text.split_once(mark) {
                None => Ok((text.len(), None)),
                Some((before, number)) => match number.parse() {
                    Ok(number @ 1..) => Ok((before.len(), Some(number))),
                    _ => Err(Error::Syntax { value: name.to_string(), rule }),
                },
            }
        };
        let (end, band) = behind(name, '@', "what follows @ is a number of rows of tiles, at least 1")?;
        let kernel = &name[..end];
        let (end, parts) = behind(kernel, '/', "what follows / is a number of clusters that share a tile, at least 1")?;
        let kernel = &kernel[..end];
        if select::is_entry(kernel) || kernel.contains(['*', '?']) {
            let pattern = WildMatch::new(kernel);
            let found: Vec<Selection> = COMPILED
                .iter()
                .filter(|config| config.element == element && pattern.matches(config.entry))
                .map(|config| Selection { config, band, parts: parts.unwrap_or(1) })
                .collect();
            if found.is_empty() {
                return Err(Error::UnknownEntry { entry: name.to_string() });
            }
            for Selection { config, parts, .. } in &found {
                select::check_parts(config.kernel, *parts)?;
            }
            return Ok(found.into_iter().map(ArmSpec::of_config).collect());
        }
        let kernel = if kernel == AUTO { None } else { Some(select::parse_kernel(kernel)?) };
        let request = Request { kernel, parts: parts.or(request.parts), ..*request };
        Ok(vec![ArmSpec::Kernel { name: name.to_string(), request, band }])
    }

    /// One row of the catalogue, launched as `selection` says.
    pub fn of_config(selection: Selection) -> ArmSpec {
        let mut name = select::shared_name(selection.config.entry, selection.parts);
        if let Some(band) = selection.band {
            name += &format!("@{band}");
        }
        ArmSpec::Config { name, selection }
    }

    /// Its name in results.
    pub fn name(&self) -> &str {
        match self {
            ArmSpec::Kernel { name, .. } | ArmSpec::Config { name, .. } => name,
            #[cfg(feature = "cublas")]
            ArmSpec::CublasLt => "cublas",
            #[cfg(feature = "cublas")]
            ArmSpec::GemmEx => "gemmex",
        }
    }

    /// Whether it is what the others are compared with.
    pub fn is_baseline(&self) -> bool {
        #[cfg(feature = "cublas")]
        return matches!(self, ArmSpec::CublasLt);
        #[cfg(not(feature = "cublas"))]
        false
    }

    /// Whether it needs cuBLAS.
    pub fn needs_cublas(&self) -> bool {
        #[cfg(feature = "cublas")]
        return matches!(self, ArmSpec::CublasLt | ArmSpec::GemmEx);
        #[cfg(not(feature = "cublas"))]
        false
    }

    /// Gets it ready for `inputs`.
    pub fn prepare<'a, T: Element>(&self, tools: &Tools<'a>, inputs: &'a Inputs<T>) -> Result<Box<dyn Arm + 'a>> {
        match self {
            ArmSpec::Kernel { request, band, .. } => {
                let problem = inputs.problem();
                let sizes = [problem.m(), problem.n(), problem.k()];
                let selected = select::select(T::KIND, sizes, request)?;
                let selection = Selection { band: band.or(selected.band), ..selected };
                Ok(Box::new(KernelArm::new(selection, tools, inputs)?))
            }
            ArmSpec::Config { selection, .. } => Ok(Box::new(KernelArm::new(*selection, tools, inputs)?)),
            #[cfg(feature = "cublas")]
            ArmSpec::CublasLt => Ok(Box::new(super::library::CublasLtArm::new(tools, inputs)?)),
            #[cfg(feature = "cublas")]
            ArmSpec::GemmEx => Ok(Box::new(super::library::GemmExArm::new(tools, inputs)?)),
        }
    }
}

/// A kernel of the catalogue.
struct KernelArm<'a> {
    selection: Selection,
    // One for each set of inputs.
    plans: Vec<Plan<'a>>,
}

impl<'a> KernelArm<'a> {
    fn new<T: Element>(selection: Selection, tools: &Tools<'a>, inputs: &'a Inputs<T>) -> Result<Self> {
        let plan = |set| tools.gemm.plan_selected(selection, inputs.a(set), inputs.b(set), inputs.c_mut(set));
        Ok(KernelArm { selection, plans: (0..inputs.sets()).map(plan).collect::<Result<_>>()? })
    }
}

impl Arm for KernelArm<'_> {
    fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = BTreeMap::new();
        let mut say = |name: &str, value: Value| facts.insert(name.to_string(), value);
        let Selection { config, band, parts } = self.selection;
        say("entry", config.entry.into());
        say("tile", select::tile_name(config.tile).into());
        say("stages", config.stages.into());
        say("band", band.map_or(config.band() as u64, u64::from).into());
        if config.kernel.takes_parts() {
            say("parts", parts.into());
        }
        say("threads", config.threads().into());
        say("shared_bytes", config.shared_bytes().into());
        if let Some(kernel) = self.plans.first().and_then(Plan::kernel) {
            let usage = kernel.usage();
            say("code", kernel.origin().to_string().into());
            say("registers", usage.registers.into());
            say("local_bytes", usage.local_bytes.into());
            say("blocks_per_multiprocessor", usage.blocks_per_multiprocessor.into());
        }
        facts
    }

    fn multiplies(&self) -> bool {
        self.selection.config.kernel.loads()
    }

    fn launch(&mut self, stream: &Stream, set: usize) -> Result<()> {
        self.plans[set].run(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::catalogue::Element as Kind;

    fn names(list: &str, element: Kind) -> Result<Vec<String>> {
        let specs = ArmSpec::parse_list(list, element, &Request::default())?;
        Ok(specs.iter().map(|spec| spec.name().to_string()).collect())
    }

    #[test]
    fn lists_name_kernels_entries_and_patterns() {
        assert_eq!(names("v3", Kind::F16).unwrap(), ["v3"]);
        // Once each, however often a list names them.
        let stages = names(" v3_f16_128x128x64_s3 , v3_f16_128x128x64_s?", Kind::F16).unwrap();
        assert_eq!(stages[..2], ["v3_f16_128x128x64_s3", "v3_f16_128x128x64_s2"]);
        assert_eq!(stages.iter().filter(|name| *name == "v3_f16_128x128x64_s3").count(), 1);
        assert!(stages.iter().all(|name| name.starts_with("v3_f16_128x128x64_s")));
        assert_eq!(names("v3@8,v3_f16_128x128x64_s2@4", Kind::F16).unwrap(), ["v3@8", "v3_f16_128x128x64_s2@4"]);
        assert_eq!(names("auto,auto@8", Kind::F16).unwrap(), ["auto", "auto@8"]);
        let shared = ["split/3", "split_f16_64x32x64_s8_k1/16", "split_f16_64x32x64_s8_k1/16@4"];
        assert_eq!(names(&shared.join(","), Kind::F16).unwrap(), shared);
        let all = names("v3_*", Kind::Bf16).unwrap();
        assert!(all.len() > 10 && all.iter().all(|name| name.contains("bf16")));
    }

    #[test]
    fn what_matches_nothing_is_refused() {
        for list in ["", "v17", "v3@0", "v3@x", "v3_f16_1x1x1_s1", "nothing_*", "split/0", "v3_f16_128x128x64_s2/3"] {
            assert!(names(list, Kind::F16).is_err(), "{list}");
        }
        // An entry of the other element type.
        assert!(names("v3_f16_128x128x64_s2", Kind::Bf16).is_err());
    }

    #[cfg(feature = "cublas")]
    #[test]
    fn cublas_is_the_baseline() {
        let specs = ArmSpec::parse_list("v3,cublas,gemmex", Kind::F16, &Request::default()).unwrap();
        assert_eq!(specs.iter().map(ArmSpec::is_baseline).collect::<Vec<_>>(), [false, true, false]);
    }
}
