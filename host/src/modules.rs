//! The kernels that the build made, embedded in the program.

/// One kernel: its PTX, its machine code where ptxas was there, and what a launch must provide.
#[derive(Clone, Copy, Debug)]
pub struct Module {
    /// Name of its only entry; also that of its catalogue row.
    pub entry: &'static str,
    /// The finished PTX module.
    pub ptx: &'static str,
    /// The module assembled for compute capability 9.0.
    pub cubin: Option<&'static [u8]>,
    /// Bytes of each parameter, in order.
    pub params: &'static [usize],
    /// Threads of a block.
    pub threads: usize,
    /// Dynamic shared memory of a launch, in bytes.
    pub shared_bytes: usize,
    /// Blocks of a cluster.
    pub cluster: usize,
    /// Blocks that fit on a multiprocessor together, at least.
    pub min_blocks: usize,
    /// Registers of a thread in `cubin`.
    pub registers: Option<usize>,
    /// Tensor-core instructions in `cubin`, where a disassembler was there to count them.
    pub mma: Option<usize>,
}

/// Every compiled kernel, in the order of the catalogue.
pub static MODULES: &[Module] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The module of entry `entry`.
pub fn by_entry(entry: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.entry == entry)
}

/// The PTX ISA version that a module states, and the CUDA version of the first driver that reads it, as
/// `1000 * major + 10 * minor` (PTX ISA, "Release Notes"). `None` for a module that states none.
pub fn driver_for_ptx(ptx: &str) -> Option<(String, i32)> {
    let version = ptx.lines().find_map(|line| line.strip_prefix(".version"))?.trim();
    let (major, minor) = version.split_once('.')?;
    let (major, minor): (i32, i32) = (major.parse().ok()?, minor.trim().parse().ok()?);
    let needed = match (major, minor) {
        // PTX 8.6 came with CUDA 12.7: 12.6 brought no new PTX.
        (8, 6..) => 12000 + 10 * (minor + 1),
        // PTX 7.m came with CUDA 11.m, 8.m with 12.m, 9.m with 13.m.
        _ => 1000 * (major + 4) + 10 * minor,
    };
    Some((version.to_string(), needed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_that_read_a_ptx_version() {
        for (version, needed) in
            [("7.8", 11080), ("8.0", 12000), ("8.5", 12050), ("8.6", 12070), ("8.8", 12090), ("9.0", 13000)]
        {
            let ptx = format!("//\n.version {version}\n.target sm_90a\n");
            assert_eq!(driver_for_ptx(&ptx), Some((version.to_owned(), needed)));
        }
        assert!(driver_for_ptx("").is_none());
        assert!(driver_for_ptx(".version x").is_none());
    }
    use kernels::catalogue::COMPILED;

    #[test]
    fn every_row_of_the_catalogue_has_its_module() {
        assert_eq!(MODULES.len(), COMPILED.len());
        for config in COMPILED {
            let module = by_entry(config.entry).expect(config.entry);
            assert_eq!(module.threads, config.threads());
            assert_eq!(module.shared_bytes, config.shared_bytes());
            let maps = match (config.kernel.reads_by_tma(), config.kernel.stores_by_tma()) {
                (false, _) => 0,
                (true, stores) => 2 + usize::from(stores),
            };
            let direct = if config.kernel.reads_by_tma() { Vec::new() } else { vec![8; 4] };
            let parts = if config.kernel.takes_parts() { vec![4, 8, 8] } else { Vec::new() };
            let params = [vec![128; maps], vec![8, 4, 4, 4, 8, 4], direct, parts].concat();
            assert_eq!(module.params, params, "{}", config.entry);
            assert!(module.ptx.contains(&format!(".maxntid {}\n", config.threads())));
            // Not the same as no policy: see `kernels/src/ptx/cache.rs`.
            assert!(!module.ptx.contains("evict_normal"), "{}", config.entry);
        }
    }
}
