//! `hopper-gemm sass`: the machine code of a kernel.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use hopper_gemm::{Error, modules};
use ptx::ptxas::{self, SearchPath};

use super::failure::Failure;
use super::output;

/// Print the machine code of a kernel, disassembled: by default its skeleton, the instructions of tensor cores,
/// TMA and barriers.
///
/// The machine code is what the build embedded; nvdisasm, which reads it, comes with CUDA or `./x setup`.
#[derive(Args)]
pub struct Arguments {
    /// Entry such as v3_f16_128x128x64_s2
    #[arg(value_name = "ENTRY")]
    entry: String,
    /// All instructions
    #[arg(long)]
    all: bool,
    /// Write to this file
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What instructions of the skeleton begin with.
const SKELETON: [&str; 15] = [
    // Matrix products, and the matrices that go in and out of registers.
    "HGMMA",
    "HMMA",
    "LDSM",
    "STSM",
    // Groups of wgmma.
    "WARPGROUP",
    // TMA: loads, stores, their groups.
    "UTMALDG",
    "UTMASTG",
    "UTMACMDFLUSH",
    "DEPBAR",
    // Barriers of a block, a cluster, in shared memory; fences between proxies.
    "BAR",
    "UCGABAR",
    "SYNCS",
    "FENCE",
    // Registers that change hands.
    "USETMAXREG",
    "EXIT",
];

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { entry, all, out } = arguments;
    let module = modules::by_entry(entry).ok_or_else(|| Error::UnknownEntry { entry: entry.clone() })?;
    let Some(cubin) = module.cubin else {
        return Err(Failure::File(format!("{entry} has no machine code: the program was built without ptxas")));
    };
    let Some(nvdisasm) = SearchPath::standard(Path::new(".")).find("nvdisasm") else {
        return Err(Failure::File("there is no nvdisasm: `./x setup` installs it, and CUDA has it".to_owned()));
    };
    let code = disassemble(&nvdisasm, cubin).map_err(|error| Failure::File(format!("{entry}: {error}")))?;
    let text = listing(&code, *all);
    match out {
        Some(path) => {
            let failed = |source| Error::File { action: "write", path: path.clone(), source };
            std::fs::write(path, text).map_err(failed)?;
        }
        None => output::print(&text)?,
    }
    Ok(())
}

/// What nvdisasm makes of `cubin`, which it reads from a file.
fn disassemble(nvdisasm: &Path, cubin: &[u8]) -> Result<String, String> {
    let file = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    std::fs::write(file.path(), cubin).map_err(|error| error.to_string())?;
    ptxas::disassemble(nvdisasm, file.path()).map_err(|error| error.to_string())
}

/// An address and an instruction a line. nvdisasm writes `/*0120*/  INSTRUCTION ;  /* encoding */`.
fn listing(code: &str, all: bool) -> String {
    let mut out = String::new();
    for line in code.lines() {
        let Some((address, rest)) = line.trim_start().strip_prefix("/*").and_then(|line| line.split_once("*/")) else {
            continue;
        };
        let Some((instruction, _)) = rest.split_once(';') else { continue };
        let instruction = instruction.trim();
        // A predicate may stand before the name.
        let name = instruction.split_whitespace().find(|word| !word.starts_with('@')).unwrap_or_default();
        let stem = name.split('.').next().unwrap_or_default();
        if all || SKELETON.iter().any(|kind| stem.starts_with(kind)) {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{address}  {instruction}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::listing;

    const CODE: &str = "\
\t.headerflags\t@\"EF_CUDA_TEXMODE_UNIFIED\"
.text.one:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P2 BAR.SYNC.DEFER_BLOCKING 0x1, 0x80 ;  /* 0x0000 */
                                                                        /* 0x0001 */
.L_x_0:
        /*0020*/                   HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0 ;
";

    #[test]
    fn the_skeleton_is_a_part_of_the_whole() {
        let all = listing(CODE, true);
        assert_eq!(all.lines().count(), 3, "{all}");
        let expected =
            "0010  @!P2 BAR.SYNC.DEFER_BLOCKING 0x1, 0x80\n0020  HGMMA.64x256x16.F32 R24, gdesc[UR20], R24, gsb0\n";
        assert_eq!(listing(CODE, false), expected);
    }
}
