//! Launch descriptions: small TOML files that say how to launch a PTX file from elsewhere.
//!
//! ```toml
//! ptx = "kernel.ptx"            # beside the description
//! entry = "my_kernel"
//! grid = [2, 1, 1]
//! block = [160, 1, 1]
//! cluster = [1, 1, 1]           # if left out, as here
//! shared_bytes = 49216          # dynamic shared memory
//! require_drain = false         # producers may exit before their loads have landed
//! single_arrivals = true        # a thread arrives on a barrier once a phase
//! ordered_global = true         # accesses to global memory must be ordered
//! livelock_limit = 4000000      # warp instructions without a visible effect
//! instruction_limit = 4294967296 # warp instructions of a cluster
//! resident_clusters = 132       # at once, where blocks talk through global memory
//!
//! [[buffer]]
//! name = "A"
//! bytes = 16384
//! fill = "f16"                  # zero, f16, bf16 or f32 (random normal-sized numbers), or a file in quotes: "@a.bin"
//! access = "read"               # or "read-write"
//!
//! [[argument]]                  # one for each parameter, in order
//! u32 = 128
//!
//! [[argument]]
//! buffer = "A"                  # its address, plus `offset` bytes
//! offset = 0
//!
//! [[argument]]
//! [argument.tensor_map]
//! buffer = "A"
//! element_bytes = 2
//! extents = [64, 128]           # innermost first, in elements
//! strides = [128]               # bytes, for all dimensions but the innermost
//! box = [64, 128]
//! swizzle = 128                 # 0, 32, 64 or 128
//!
//! [[name]]                      # names for reports
//! offset = 49152                # from the start of dynamic shared memory
//! bytes = 8
//! name = "full[0]"
//!
//! [[role]]                      # what warps do, likewise
//! name = "producer"
//! first = 4
//! warps = 1
//!
//! [[expect]]                    # what a buffer must hold afterwards
//! buffer = "C"
//! file = "c.bin"
//! ```

use std::path::{Path, PathBuf};

use kernels::catalogue::Swizzle;
use ptx::ast::Rounding;
use serde::Deserialize;

use crate::float::{BF16, F16};
use crate::launch::{Argument, Launch, Options, Role};
use crate::memory::{Access, BufferId, Memory};
use crate::schedule::Random;
use crate::tensor_map::TensorMap;

/// Most bytes of one buffer: 4 GiB.
const MOST_BYTES: u64 = 1 << 32;

/// A launch description.
#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Description {
    /// The PTX file, relative to the description.
    pub ptx: PathBuf,
    /// The entry.
    pub entry: String,
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    #[serde(default = "one_block")]
    pub cluster: [u32; 3],
    /// Dynamic shared memory.
    #[serde(default)]
    pub shared_bytes: u32,
    /// See [`Options::require_drain`].
    #[serde(default = "yes")]
    pub require_drain: bool,
    /// See [`Options::single_arrivals`].
    #[serde(default = "yes")]
    pub single_arrivals: bool,
    /// See [`Options::ordered_global`].
    #[serde(default = "yes")]
    pub ordered_global: bool,
    /// See [`Options::livelock_limit`].
    pub livelock_limit: Option<u64>,
    /// See [`Options::instruction_limit`].
    pub instruction_limit: Option<u64>,
    /// See [`Options::resident_clusters`].
    pub resident_clusters: Option<usize>,
    #[serde(default, rename = "buffer")]
    buffers: Vec<Buffer>,
    #[serde(default, rename = "argument")]
    arguments: Vec<ArgumentText>,
    #[serde(default, rename = "name")]
    names: Vec<Name>,
    #[serde(default, rename = "role")]
    roles: Vec<RoleText>,
    #[serde(default, rename = "expect")]
    expectations: Vec<Expectation>,
}

const fn one_block() -> [u32; 3] {
    [1, 1, 1]
}

const fn yes() -> bool {
    true
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Buffer {
    name: String,
    bytes: u64,
    #[serde(default)]
    fill: Option<String>,
    #[serde(default)]
    access: Option<AccessText>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleText {
    name: String,
    first: usize,
    warps: usize,
}

#[derive(Clone, Copy, PartialEq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum AccessText {
    Read,
    ReadWrite,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ArgumentText {
    u32: Option<u32>,
    u64: Option<u64>,
    buffer: Option<String>,
    offset: Option<u64>,
    tensor_map: Option<MapText>,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MapText {
    buffer: String,
    #[serde(default)]
    offset: u64,
    element_bytes: u32,
    extents: Vec<u64>,
    strides: Vec<u64>,
    #[serde(rename = "box")]
    box_extents: Vec<u32>,
    #[serde(default)]
    swizzle: u32,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Name {
    offset: u32,
    bytes: u32,
    name: String,
}

#[derive(Clone, PartialEq, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expectation {
    buffer: String,
    file: PathBuf,
}

/// Everything a description stands for, with its files read.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The PTX text.
    pub text: String,
    /// How to run it.
    pub options: Options,
    buffers: Vec<(String, Vec<u8>, Access)>,
    description: Description,
    expectations: Vec<(String, Vec<u8>)>,
}

impl Description {
    /// Reads a description.
    ///
    /// # Errors
    /// What the TOML lacks or has too much, with its line.
    pub fn parse(text: &str) -> Result<Description, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    /// Reads the files that the description names, relative to `folder`.
    ///
    /// # Errors
    /// The file, buffer or argument that does not fit, and the rule.
    pub fn prepare(self, folder: &Path) -> Result<Prepared, String> {
        let read = |path: &Path| {
            let path = folder.join(path);
            std::fs::read(&path).map_err(|error| format!("cannot read {}: {error}", path.display()))
        };
        let text = String::from_utf8(read(&self.ptx)?).map_err(|_| format!("{} is not text", self.ptx.display()))?;
        let mut buffers = Vec::new();
        for (i, buffer) in self.buffers.iter().enumerate() {
            if buffer.bytes > MOST_BYTES {
                return Err(format!("buffer `{}` has {} bytes: at most {MOST_BYTES}", buffer.name, buffer.bytes));
            }
            let bytes = match buffer.fill.as_deref().unwrap_or("zero") {
                file if file.starts_with('@') => {
                    let mut bytes = read(Path::new(&file[1..]))?;
                    if bytes.len() as u64 > buffer.bytes {
                        return Err(format!(
                            "{file} has {} bytes, buffer `{}` {}",
                            bytes.len(),
                            buffer.name,
                            buffer.bytes
                        ));
                    }
                    bytes.resize(buffer.bytes as usize, 0);
                    bytes
                }
                fill => filled(fill, buffer.bytes as usize, i as u64)
                    .ok_or_else(|| format!("fill `{fill}` is none of zero, f16, bf16, f32 and @FILE"))?,
            };
            let access = if buffer.access == Some(AccessText::Read) { Access::Read } else { Access::ReadWrite };
            buffers.push((buffer.name.clone(), bytes, access));
        }
        let mut expectations = Vec::new();
        for expectation in &self.expectations {
            expectations.push((expectation.buffer.clone(), read(&expectation.file)?));
        }
        let names = self.names.iter().map(|name| (name.offset, name.bytes, name.name.clone())).collect();
        let role = |role: &RoleText| Role {
            name: role.name.clone(),
            warps: role.first..role.first.saturating_add(role.warps),
        };
        let standard = Options::default();
        let options = Options {
            require_drain: self.require_drain,
            single_arrivals: self.single_arrivals,
            ordered_global: self.ordered_global,
            livelock_limit: self.livelock_limit.unwrap_or(standard.livelock_limit),
            instruction_limit: self.instruction_limit.unwrap_or(standard.instruction_limit),
            resident_clusters: self.resident_clusters.unwrap_or(standard.resident_clusters),
            names,
            roles: self.roles.iter().map(role).collect(),
            ..standard
        };
        let prepared = Prepared { text, options, buffers, description: self, expectations };
        // What is wrong with an argument is said now, not at the first run.
        prepared.launch()?;
        Ok(prepared)
    }
}

/// Random numbers of about one, or zeros.
fn filled(fill: &str, bytes: usize, seed: u64) -> Option<Vec<u8>> {
    let mut random = Random::new(seed);
    // The sum of four uniform numbers, from -2 to 2.
    let mut number = move || (0..4).map(|_| (random.bits() >> 11) as f64 / (1u64 << 53) as f64 - 0.5).sum::<f64>();
    let mut out = Vec::with_capacity(bytes + 4);
    match fill {
        "zero" => out.resize(bytes, 0),
        "f16" | "bf16" => {
            let format = if fill == "f16" { F16 } else { BF16 };
            while out.len() < bytes {
                out.extend((format.encode(number(), Rounding::Nearest) as u16).to_le_bytes());
            }
        }
        "f32" => {
            while out.len() < bytes {
                out.extend((number() as f32).to_le_bytes());
            }
        }
        _ => return None,
    }
    out.truncate(bytes);
    Some(out)
}

impl Prepared {
    /// The entry's name.
    pub fn entry(&self) -> &str {
        &self.description.entry
    }

    /// Fresh memory, and the launch over it.
    ///
    /// # Errors
    /// The argument that names no buffer, or says nothing or too much.
    pub fn launch(&self) -> Result<(Memory, Launch), String> {
        let (memory, launch, _) = self.fresh()?;
        Ok((memory, launch))
    }

    fn fresh(&self) -> Result<(Memory, Launch, Vec<BufferId>), String> {
        let mut memory = Memory::new();
        let ids: Vec<BufferId> =
            self.buffers.iter().map(|(name, bytes, access)| memory.insert(name, bytes, *access)).collect();
        let address = |wanted: &str| {
            let found = self.buffers.iter().position(|buffer| buffer.0 == wanted);
            found.map(|i| memory.address(ids[i])).ok_or_else(|| format!("there is no buffer `{wanted}`"))
        };
        let mut arguments = Vec::new();
        for (i, argument) in self.description.arguments.iter().enumerate() {
            arguments.push(match argument {
                ArgumentText { u32: Some(value), u64: None, buffer: None, offset: None, tensor_map: None } => {
                    Argument::U32(*value)
                }
                ArgumentText { u32: None, u64: Some(value), buffer: None, offset: None, tensor_map: None } => {
                    Argument::U64(*value)
                }
                ArgumentText { u32: None, u64: None, buffer: Some(name), offset, tensor_map: None } => {
                    Argument::U64(address(name)? + offset.unwrap_or(0))
                }
                ArgumentText { u32: None, u64: None, buffer: None, offset: None, tensor_map: Some(map) } => {
                    Argument::TensorMap(TensorMap {
                        address: address(&map.buffer)? + map.offset,
                        element_bytes: map.element_bytes,
                        extents: map.extents.clone(),
                        strides: map.strides.clone(),
                        box_extents: map.box_extents.clone(),
                        swizzle: match map.swizzle {
                            0 => Swizzle::None,
                            32 => Swizzle::B32,
                            64 => Swizzle::B64,
                            128 => Swizzle::B128,
                            other => return Err(format!("argument {i}: swizzle {other} is none of 0, 32, 64 and 128")),
                        },
                    })
                }
                _ => return Err(format!("argument {i} must be one of u32, u64, buffer (with offset) and tensor_map")),
            });
        }
        let launch = Launch {
            grid: self.description.grid,
            cluster: self.description.cluster,
            block: self.description.block,
            shared_bytes: self.description.shared_bytes,
            arguments,
        };
        Ok((memory, launch, ids))
    }

    /// What differs in `memory`, which a run over a launch of this description has changed, from what the
    /// description expects.
    pub fn differences(&self, memory: &Memory) -> Vec<String> {
        let Ok((_, _, ids)) = self.fresh() else { return Vec::new() };
        let mut out = Vec::new();
        for (name, wanted) in &self.expectations {
            let Some(i) = self.buffers.iter().position(|buffer| buffer.0 == *name) else {
                out.push(format!("there is no buffer `{name}` to compare"));
                continue;
            };
            let got = memory.bytes(ids[i]);
            if let Some(at) = wanted.iter().zip(&got).position(|(a, b)| a != b) {
                out.push(format!("buffer `{name}` differs from what is expected from byte {at} on"));
            } else if wanted.len() > got.len() {
                out.push(format!("buffer `{name}` has {} bytes, {} are expected", got.len(), wanted.len()));
            }
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        ptx = "k.ptx"
        entry = "k"
        grid = [1, 1, 1]
        block = [32, 1, 1]
        shared_bytes = 64
        [[buffer]]
        name = "A"
        bytes = 1024
        fill = "f16"
        access = "read"
        [[argument]]
        u32 = 7
        [[argument]]
        buffer = "A"
        offset = 16
        [[argument]]
        [argument.tensor_map]
        buffer = "A"
        element_bytes = 2
        extents = [64, 8]
        strides = [128]
        box = [64, 8]
        swizzle = 128
        [[role]]
        name = "everything"
        first = 0
        warps = 1
    "#;

    #[test]
    fn a_description_becomes_a_launch() {
        let folder = std::env::temp_dir().join(format!("hopper-gemm-description-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("k.ptx"), ".version 8.0\n").unwrap();
        let prepared = Description::parse(TEXT).unwrap().prepare(&folder).unwrap();
        let (memory, launch) = prepared.launch().unwrap();
        assert_eq!(launch.arguments.len(), 3);
        assert_eq!(prepared.options.warp(0), "warp 0 (everything)");
        assert_eq!(prepared.options.warp(1), "warp 1");
        assert_eq!(launch.arguments[0], Argument::U32(7));
        let Argument::U64(address) = launch.arguments[1] else { panic!() };
        assert!(memory.contains(address, 1008) && !memory.contains(address, 1009));
        let wrong = TEXT.replace("buffer = \"A\"\n        offset", "buffer = \"Z\"\n        offset");
        assert!(Description::parse(&wrong).unwrap().prepare(&folder).unwrap_err().contains("no buffer `Z`"));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_is_unknown_is_refused() {
        assert!(Description::parse(&TEXT.replace("swizzle", "swirl")).unwrap_err().contains("swirl"));
        assert!(Description::parse("entry = 1").is_err());
        assert!(Description::parse(TEXT).unwrap().prepare(Path::new("/nonexistent")).unwrap_err().contains("k.ptx"));
    }
}
