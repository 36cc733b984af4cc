//! What a launch is given.

use crate::global::Global;
use crate::memory::{Access, Memory};
use crate::program::{Program, VariablePlace};
use crate::tensor_map::TensorMap;

/// A kernel argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Argument {
    /// A 32-bit value.
    U32(u32),
    /// A 64-bit value, or an address.
    U64(u64),
    /// A tensor map, passed by value: 128 bytes.
    TensorMap(TensorMap),
}

impl Argument {
    const fn bytes(&self) -> u64 {
        match self {
            Argument::U32(_) => 4,
            Argument::U64(_) => 8,
            Argument::TensorMap(_) => 128,
        }
    }
}

/// Extents and arguments of a launch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Launch {
    /// Blocks of the grid.
    pub grid: [u32; 3],
    /// Blocks of a cluster; `[1, 1, 1]` without clusters.
    pub cluster: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
    /// One argument for each parameter of the entry.
    pub arguments: Vec<Argument>,
}

/// What some of the warps of a block do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Role {
    /// `producer`, `consumer` and the like.
    pub name: String,
    /// The warps.
    pub warps: std::ops::Range<usize>,
}

/// What counts as a fault, and how far a run may go.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// A thread that issued loads must know that they have landed before it exits, and a block must leave
    /// its mbarriers at the start of a phase. True for pipelines that drain, as those here do.
    pub require_drain: bool,
    /// A thread may arrive on a barrier only once a phase.
    pub single_arrivals: bool,
    /// Accesses to global memory must be ordered. False for kernels whose threads store the same value to the same
    /// place and do not care which of them does.
    pub ordered_global: bool,
    /// Warp instructions that a cluster may execute without any visible effect before it is called a
    /// livelock.
    pub livelock_limit: u64,
    /// Warp instructions that a cluster may execute at all: a kernel that goes on for ever may have visible effects
    /// all the time.
    pub instruction_limit: u64,
    /// Whether blocks talk through global memory if the program has the instructions for it. Where they do not, no
    /// cluster depends on another, and clusters run on all cores of the host.
    pub blocks_talk: bool,
    /// Clusters that run at the same time where blocks talk through global memory.
    pub resident_clusters: usize,
    /// Names of areas of dynamic shared memory: offset, bytes, name.
    pub names: Vec<(u32, u32, String)>,
    /// What the warps do, for reports and traces.
    pub roles: Vec<Role>,
    /// Parameters that are the tensor maps of A and B in a product A·Bᵀ of K-major operands: every wgmma
    /// must then multiply tiles of both that start at the same place in K.
    pub product: Option<[usize; 2]>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            require_drain: true,
            single_arrivals: true,
            ordered_global: true,
            livelock_limit: 4_000_000,
            instruction_limit: 1 << 32,
            blocks_talk: true,
            resident_clusters: 132,
            names: Vec::new(),
            roles: Vec::new(),
            product: None,
        }
    }
}

impl Options {
    /// The role of a warp.
    pub fn role(&self, warp: usize) -> Option<&Role> {
        self.roles.iter().find(|role| role.warps.contains(&warp))
    }

    /// `warp 4 (producer)`, or `warp 4` if it has no role.
    pub fn warp(&self, warp: usize) -> String {
        self.warps(warp, 1)
    }

    /// `warps 0–3 (consumer)`: `count` warps of one role from `first` on.
    pub fn warps(&self, first: usize, count: usize) -> String {
        let role = self.role(first).map_or(String::new(), |role| format!(" ({})", role.name));
        match count {
            1 => format!("warp {first}{role}"),
            _ => format!("warps {first}–{}{role}", first + count - 1),
        }
    }
}

/// Everything that all blocks of a launch share.
pub(crate) struct Context<'a> {
    pub program: &'a Program,
    pub launch: &'a Launch,
    pub memory: &'a Memory,
    pub options: &'a Options,
    /// The parameter space.
    pub params: Vec<u8>,
    /// Tensor maps, by their offset in the parameter space; and the index of the parameter.
    pub maps: Vec<(u64, usize, &'a TensorMap)>,
    /// Address of each variable of the module: shared or global.
    pub variables: Vec<u64>,
    /// Bytes of shared memory of a block.
    pub shared_bytes: usize,
    /// Who wrote what in global memory.
    pub global: Global,
    /// Registers a thread has at launch.
    pub registers: u32,
}

/// Shared memory that one block may use, in bytes.
const SHARED_LIMIT: usize = kernels::catalogue::SHARED_LIMIT;

impl Launch {
    /// Blocks of a cluster.
    pub fn cluster_blocks(&self) -> u32 {
        self.cluster.iter().product()
    }

    /// Threads of a block.
    pub fn threads(&self) -> u32 {
        self.block.iter().product()
    }

    /// Clusters of the grid.
    pub fn clusters(&self) -> u64 {
        (0..3).map(|i| u64::from(self.grid[i] / self.cluster[i].max(1))).product()
    }

    /// Checks the launch against the entry.
    ///
    /// # Errors
    /// Names the value that does not fit, and the rule.
    pub fn check(&self, program: &Program, memory: &Memory) -> Result<(), String> {
        let entry = program.entry();
        let bounds = &entry.bounds;
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            if self.grid[axis] == 0 || self.block[axis] == 0 || self.cluster[axis] == 0 {
                return Err(format!("grid, cluster and block must be at least 1 in {name}"));
            }
            if !self.grid[axis].is_multiple_of(self.cluster[axis]) {
                return Err(format!(
                    "grid {} in {name} is not a multiple of the cluster's {}",
                    self.grid[axis], self.cluster[axis]
                ));
            }
        }
        let threads = self.block.iter().map(|&t| u64::from(t)).product::<u64>();
        if threads > 1024 {
            return Err(format!("{threads} threads: a block has at most 1024"));
        }
        if self.cluster.iter().map(|&t| u64::from(t)).product::<u64>() > 16 {
            return Err("a cluster has at most 16 blocks".to_string());
        }
        if self.grid.iter().map(|&t| u64::from(t)).product::<u64>() > 1 << 24 {
            return Err("the grid has more than 2^24 blocks, more than a simulation can run".to_string());
        }
        let product = |extents: [u32; 3]| extents.iter().map(|&e| u64::from(e)).product::<u64>();
        if let Some(max) = bounds.max_threads
            && threads > product(max)
        {
            return Err(format!("{threads} threads are above the entry's .maxntid of {}", product(max)));
        }
        if let Some(required) = bounds.required_threads
            && required != self.block
        {
            return Err(format!("block {:?} is not the entry's .reqntid {required:?}", self.block));
        }
        if let Some(required) = bounds.required_cluster
            && required != self.cluster
        {
            return Err(format!("cluster {:?} is not the entry's .reqnctapercluster {required:?}", self.cluster));
        }
        let shared = program.dynamic_offset as usize + self.shared_bytes as usize;
        if shared > SHARED_LIMIT {
            return Err(format!("{shared} bytes of shared memory: a block may use {SHARED_LIMIT}"));
        }
        if self.arguments.len() != entry.params.len() {
            return Err(format!("{} arguments for {} parameters", self.arguments.len(), entry.params.len()));
        }
        for (i, (argument, param)) in self.arguments.iter().zip(&entry.params).enumerate() {
            if argument.bytes() != param.bytes {
                return Err(format!(
                    "argument {i} has {} bytes, parameter `{}` has {}",
                    argument.bytes(),
                    param.name,
                    param.bytes
                ));
            }
            if let Argument::TensorMap(map) = argument {
                map.check().map_err(|why| format!("argument {i}, a tensor map: {why}"))?;
                let last: u64 = map.extents[1..].iter().zip(&map.strides).map(|(e, s)| (e - 1) * s).sum();
                let bytes = last + map.extents[0] * u64::from(map.element_bytes);
                if !memory.contains(map.address, bytes) {
                    return Err(format!(
                        "argument {i}: the tensor's {bytes} bytes at {:#x} are in no buffer",
                        map.address
                    ));
                }
            }
        }
        Ok(())
    }

    /// What all blocks share. Places the module's variables in `memory`.
    pub(crate) fn prepare(&self, program: &Program, memory: &mut Memory) -> Vec<u64> {
        let mut addresses = Vec::new();
        for (variable, place) in program.variables.iter().zip(&program.places) {
            addresses.push(match place {
                VariablePlace::Shared(address) => u64::from(*address),
                VariablePlace::Global => {
                    let mut bytes = vec![0; variable.bytes.unwrap_or(0) as usize];
                    bytes[..variable.initial.len()].copy_from_slice(&variable.initial);
                    let access =
                        if variable.space == ptx::ast::Space::Const { Access::Read } else { Access::ReadWrite };
                    let id = memory.insert(&variable.name, &bytes, access);
                    memory.address(id)
                }
            });
        }
        addresses
    }

    pub(crate) fn context<'a>(
        &'a self,
        program: &'a Program,
        memory: &'a Memory,
        options: &'a Options,
        variables: Vec<u64>,
    ) -> Context<'a> {
        let entry = program.entry();
        let end = entry.params.last().map_or(0, |p| p.offset + p.bytes);
        let mut params = vec![0; end as usize];
        let mut maps = Vec::new();
        for (i, (argument, param)) in self.arguments.iter().zip(&entry.params).enumerate() {
            let at = param.offset as usize;
            match argument {
                Argument::U32(value) => params[at..at + 4].copy_from_slice(&value.to_le_bytes()),
                Argument::U64(value) => params[at..at + 8].copy_from_slice(&value.to_le_bytes()),
                Argument::TensorMap(map) => maps.push((param.offset, i, map)),
            }
        }
        // What ptxas may give at most: the register file over the threads that must fit, in steps of 8.
        let warps = self.threads().div_ceil(32) * entry.bounds.min_blocks.unwrap_or(1).max(1);
        let by_file = 65536 / (warps * 32).max(1) / 8 * 8;
        let registers = entry.bounds.max_registers.unwrap_or(by_file).min(by_file).min(255);
        Context {
            program,
            launch: self,
            memory,
            options,
            params,
            maps,
            variables,
            shared_bytes: program.dynamic_offset as usize + self.shared_bytes as usize,
            global: Global::new(memory),
            registers,
        }
    }
}
