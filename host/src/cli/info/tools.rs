//! What builds the program: rustc, the source of its core library, ptxas and nvdisasm.

use std::path::Path;
use std::process::Command;

use ptx::ptxas::{self, SearchPath};

use super::Finding;

/// The toolchain that the project pins.
const PINNED: &str = include_str!("../../../../rust-toolchain.toml");

const INSTALL_RUST: &str = "`./x setup` installs it; or `rustup toolchain install` in the project's folder";

pub fn findings() -> Vec<Finding> {
    let mut findings = vec![rustc(), rust_src()];
    // The project's own tools count when the program is run in its folder.
    let search = SearchPath::standard(Path::new("."));
    findings.push(tool(
        &search,
        "ptxas",
        "assembles the kernels and judges them when the program is built",
        "without it, a build embeds PTX alone, and the driver compiles that when a kernel is first used",
    ));
    findings.push(tool(
        &search,
        "nvdisasm",
        "counts tensor-core instructions when the program is built",
        "without it, a build does not count the tensor-core instructions of what ptxas made",
    ));
    findings
}

/// The pinned channel, `1.96.0`.
fn pinned() -> &'static str {
    let line = PINNED.lines().find_map(|line| line.strip_prefix("channel"));
    line.and_then(|line| line.split('"').nth(1)).unwrap_or_default()
}

fn rustc() -> Finding {
    let pinned = pinned();
    match output_of("rustc", &["--version"]) {
        Ok(version) if version.split_whitespace().nth(1) == Some(pinned) => {
            Finding::ok("rustc", version, "compiles the kernels to PTX, and this program")
        }
        Ok(version) => Finding::missing(
            "rustc",
            version,
            format!("the kernels are compiled with rustc {pinned}, whose PTX back end they were measured with"),
            INSTALL_RUST,
        ),
        Err(why) => Finding::missing("rustc", why, "needed to build, not to run", INSTALL_RUST),
    }
}

fn rust_src() -> Finding {
    let core = |sysroot: String| Path::new(&sysroot).join("lib/rustlib/src/rust/library/core/src/lib.rs");
    match output_of("rustc", &["--print", "sysroot"]).map(core) {
        Ok(core) if core.is_file() => {
            Finding::ok("rust-src", core.display().to_string(), "Rust's core library, to be compiled for the GPU")
        }
        Ok(core) => Finding::missing(
            "rust-src",
            format!("not at {}", core.display()),
            "the kernels cannot be built without the source of Rust's core library",
            INSTALL_RUST,
        ),
        Err(why) => Finding::missing("rust-src", why, "needed to build, not to run", INSTALL_RUST),
    }
}

fn tool(search: &SearchPath, name: &'static str, there: &str, absent: &str) -> Finding {
    let install = "`./x setup` installs it; or CUDA 12 or newer; or `pip install nvidia-cuda-nvcc nvidia-cuda-nvdisasm`; \
                   then build again";
    let Some(path) = search.find(name) else {
        let found = "not in .tools/cuda, CUDA_HOME, CUDA_PATH, PATH, /usr/local/cuda or VIRTUAL_ENV";
        return Finding::missing(name, found, absent, install);
    };
    match ptxas::version(&path) {
        Ok(version) => Finding::ok(name, format!("{version}, {}", path.display()), there),
        Err(error) => Finding::missing(name, error.to_string(), absent, install),
    }
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).output().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("there is no {program} on PATH"),
        _ => format!("cannot run {program}: {error}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program} fails: {}", said.lines().next().unwrap_or_default()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pinned_toolchain_is_read() {
        assert!(pinned().starts_with("1."), "{}", pinned());
        assert_eq!(pinned().split('.').count(), 3);
    }

    #[test]
    fn a_program_that_is_not_there_is_said() {
        assert_eq!(output_of("no-such-program", &[]).unwrap_err(), "there is no no-such-program on PATH");
    }
}
