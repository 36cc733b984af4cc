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
    pub hgmma: Option<usize>,
}

/// Every compiled kernel, in the order of the catalogue.
pub static MODULES: &[Module] = include!(concat!(env!("OUT_DIR"), "/modules.rs"));

/// The module of entry `entry`.
pub fn by_entry(entry: &str) -> Option<&'static Module> {
    MODULES.iter().find(|module| module.entry == entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::catalogue::COMPILED;

    #[test]
    fn every_row_of_the_catalogue_has_its_module() {
        assert_eq!(MODULES.len(), COMPILED.len());
        for config in COMPILED {
            let module = by_entry(config.entry).expect(config.entry);
            assert_eq!(module.threads, config.threads());
            assert_eq!(module.shared_bytes, config.shared_bytes());
            assert_eq!(module.params, [128, 128, 8, 4, 4, 4, 8, 4], "{}", config.entry);
            assert!(module.ptx.contains(&format!(".maxntid {}\n", config.threads())));
        }
    }
}
