//! Kernels in Rust → PTX → finishing pass → (ptxas) → what the host embeds.
//!
//! 1. A cargo of its own compiles `kernels/` for `nvptx64-nvidia-cuda`, in a target folder of its own, so
//!    that neither its flags nor its lock touch the outer build. The `.s` file it emits is the PTX.
//! 2. The finishing pass (crate `ptx`) splits it and writes what rustc cannot.
//! 3. Where ptxas is found, each module is assembled, judged, and its cubin embedded too. Results are kept
//!    by content, so only what changed is assembled again.
//! 4. `modules.rs` embeds it all; `target/ptx/` has a copy for people.

use std::collections::hash_map::DefaultHasher;
use std::fmt::Write as _;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs};

use kernels::catalogue::{self, Config};
use ptx::finish::{EntrySpec, Finished, finish};
use ptx::ptxas::{self, GateError, Report, SearchPath};

/// The release of rustc whose PTX back end the kernels were written against.
const RUSTC_RELEASE: &str = "1.96";

// ANCHOR: flags
const KERNEL_FLAGS: &[&str] = &[
    // Hopper's own instructions; PTX ISA 8.0.
    "-Ctarget-cpu=sm_90a",
    // The `.s` file is the product; there is nothing to link.
    "-Clinker=true",
    // Loops are unrolled in the source or not at all: the gate counts the tensor-core instructions.
    "-Cllvm-args=-unroll-runtime=false",
    // Lines of the Rust source in the PTX, for profilers and the simulator.
    "-Cdebuginfo=line-directives-only",
    "-Zunstable-options",
    "-Cpanic=immediate-abort",
];
// ANCHOR_END: flags

fn main() {
    if let Err(error) = build() {
        // One message, each line as cargo prints it.
        for line in error.lines() {
            println!("cargo::error={line}");
        }
    }
}

fn build() -> Result<(), String> {
    let root = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let out = PathBuf::from(variable("OUT_DIR")?);
    // `.tools` is where `./x setup` puts ptxas.
    for path in ["build.rs", "kernels/src", "kernels/Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".tools"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for name in ["PATH", "CUDA_HOME", "CUDA_PATH", "VIRTUAL_ENV"] {
        println!("cargo::rerun-if-env-changed={name}");
    }

    let target = target_folder(&out)?;
    let module = compile_kernels(&root, &target)?;
    let specs: Vec<EntrySpec> = catalogue::COMPILED.iter().map(entry_spec).collect();
    let finished = finish(&module, &specs).map_err(|error| format!("the kernels' PTX is refused: {error}"))?;

    let search = SearchPath::standard(&root);
    let tools = Tools { ptxas: search.find("ptxas"), nvdisasm: search.find("nvdisasm") };
    let store = target.join("ptx");
    let assembled = assemble_all(&tools, &finished, &store)?;
    write_modules(&out, &finished, &assembled)?;

    let cubins = assembled.iter().flatten().count();
    let how = match &tools.ptxas {
        Some(ptxas) => format!("{cubins} cubins by {}", ptxas::version(ptxas).map_err(|error| error.to_string())?),
        None => "no ptxas found, so the driver will compile the PTX".to_owned(),
    };
    println!("cargo::warning={} kernels: PTX in {} ({how})", finished.len(), relative(&store, &root).display());
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("cargo did not set {name}: {error}"))
}

fn relative<'a>(path: &'a Path, root: &Path) -> &'a Path {
    path.strip_prefix(root).unwrap_or(path)
}

/// `target/` of the outer build: OUT_DIR is `target/[triple/]profile/build/package-hash/out`.
fn target_folder(out: &Path) -> Result<PathBuf, String> {
    let build = out.ancestors().find(|folder| folder.ends_with("build"));
    let profile = build.and_then(Path::parent);
    let above = profile.and_then(Path::parent);
    let above = above.ok_or_else(|| format!("OUT_DIR is not where cargo puts it: {}", out.display()))?;
    // With `--target`, the triple's folder lies in between; only the real one has cargo's tag.
    let tagged = above.ancestors().take(2).find(|folder| folder.join("CACHEDIR.TAG").is_file());
    Ok(tagged.unwrap_or(above).to_owned())
}

fn entry_spec(config: &Config) -> EntrySpec {
    EntrySpec {
        name: config.entry.to_owned(),
        threads: config.threads(),
        min_blocks: config.min_blocks(),
        cluster: config.cluster_blocks(),
        shared_bytes: config.shared_bytes(),
    }
}

/// Compiles the kernel crate and returns its PTX.
fn compile_kernels(root: &Path, target: &Path) -> Result<String, String> {
    let rustc = variable("RUSTC")?;
    check_compiler(&rustc)?;
    let target = target.join("kernels");
    let mut cargo = Command::new(variable("CARGO")?);
    cargo
        .current_dir(root)
        .args(["rustc", "--manifest-path", "kernels/Cargo.toml", "--lib", "--crate-type", "cdylib", "--release"])
        .args(["--target", "nvptx64-nvidia-cuda", "-Zbuild-std=core", "--locked", "--quiet"])
        .args(["--config", "profile.release.lto=\"fat\"", "--config", "profile.release.codegen-units=1"])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "--emit=asm"]);
    // What the outer build says about itself (profile, flags, clippy as a wrapper) is not for the kernels.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let outer =
            ["CARGO_PROFILE_", "CARGO_BUILD_", "CARGO_TARGET_", "CARGO_ENCODED_", "CARGO_FEATURE_", "CARGO_CFG_"];
        if outer.iter().any(|prefix| name.starts_with(prefix))
            || ["RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "RUSTDOCFLAGS", "RUSTDOC"].contains(&&*name)
        {
            cargo.env_remove(&*name);
        }
    }
    let sysroot = sysroot(&rustc)?;
    let remap = [
        format!("--remap-path-prefix={}/=", root.display()),
        format!("--remap-path-prefix={}=/rust", sysroot.display()),
    ];
    let flags: Vec<&str> = KERNEL_FLAGS.iter().copied().chain(remap.iter().map(String::as_str)).collect();
    cargo
        .env("RUSTC", &rustc)
        // The PTX target is not among the stable ones; this compiler's release is pinned instead.
        .env("RUSTC_BOOTSTRAP", "1")
        // Flags separated by the ASCII unit separator, so that paths may hold spaces.
        .env("CARGO_ENCODED_RUSTFLAGS", flags.join("\u{1f}"));
    let output = cargo.output().map_err(|error| format!("cannot run cargo for the kernels: {error}"))?;
    if !output.status.success() {
        return Err(format!("the kernels do not compile:\n{}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let products = target.join("nvptx64-nvidia-cuda/release/deps");
    // The program in the linker's place writes nothing, and cargo compiles again what has no product.
    let linked = products.join("kernels.ptx");
    fs::write(&linked, "").map_err(|error| format!("cannot write {}: {error}", linked.display()))?;
    let ptx = products.join("kernels.s");
    fs::read_to_string(&ptx).map_err(|error| format!("the kernels' PTX is not at {}: {error}", ptx.display()))
}

/// Refuses a compiler that cannot build the kernels, saying what to install.
fn check_compiler(rustc: &str) -> Result<(), String> {
    let install = "run `./x setup`; or install it yourself: `rustup toolchain install 1.96.0 --component rust-src`, or Debian's \
                   rustc-web, cargo-web and rust-web-src 1.96.0";
    let version = output_of(rustc, &["--version"])?;
    let release = version.split_whitespace().nth(1).unwrap_or_default();
    if release != RUSTC_RELEASE && !release.starts_with(&format!("{RUSTC_RELEASE}.")) {
        return Err(format!("the kernels need rustc {RUSTC_RELEASE}.0, and this is {}: {install}", version.trim()));
    }
    let core = sysroot(rustc)?.join("lib/rustlib/src/rust/library/core/Cargo.toml");
    if !core.is_file() {
        return Err(format!(
            "the source of Rust's core library is not installed (looked for {}), and the kernels need it built for \
             the GPU: {install}",
            core.display()
        ));
    }
    Ok(())
}

fn sysroot(rustc: &str) -> Result<PathBuf, String> {
    Ok(PathBuf::from(output_of(rustc, &["--print", "sysroot"])?.trim()))
}

fn output_of(program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("cannot run {program} {}: {error}", arguments.join(" ")))?;
    if !output.status.success() {
        return Err(format!("{program} {} fails: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

struct Tools {
    ptxas: Option<PathBuf>,
    nvdisasm: Option<PathBuf>,
}

/// A cubin that passed the gate.
struct Assembled {
    cubin: PathBuf,
    registers: usize,
    mma: Option<usize>,
}

/// What became of a module: its machine code, absent where there is no ptxas; or what is wrong with it.
type Verdict = Result<Option<Assembled>, String>;

/// Writes every module into `store`, assembles those that changed, and judges all. Results are in the
/// order of `finished`; absent where there is no ptxas.
fn assemble_all(tools: &Tools, finished: &[Finished], store: &Path) -> Result<Vec<Option<Assembled>>, String> {
    fs::create_dir_all(store).map_err(|error| format!("cannot create {}: {error}", store.display()))?;
    remove_stale(store, finished)?;
    let versions: Vec<String> = [&tools.ptxas, &tools.nvdisasm]
        .into_iter()
        .flatten()
        .map(|tool| ptxas::version(tool).map_err(|error| error.to_string()))
        .collect::<Result<_, _>>()?;

    let results: Vec<Mutex<Option<Verdict>>> = finished.iter().map(|_| Mutex::new(None)).collect();
    let next = AtomicUsize::new(0);
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..workers {
            scope.spawn(|| {
                loop {
                    let i = next.fetch_add(1, Ordering::Relaxed);
                    let (Some(module), Some(slot)) = (finished.get(i), results.get(i)) else { break };
                    let result = assemble_one(tools, module, store, &versions);
                    *slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(result);
                }
            });
        }
    });

    let mut assembled = Vec::new();
    let mut faults = Vec::new();
    for slot in results {
        match slot.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) {
            Some(Ok(result)) => assembled.push(result),
            Some(Err(fault)) => faults.push(fault),
            None => faults.push("a module was not looked at".to_owned()),
        }
    }
    if faults.is_empty() { Ok(assembled) } else { Err(faults.join("\n")) }
}

/// Removes what an earlier catalogue left in `store`.
fn remove_stale(store: &Path, finished: &[Finished]) -> Result<(), String> {
    let entries = fs::read_dir(store).map_err(|error| format!("cannot list {}: {error}", store.display()))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        let known = path.file_stem().is_some_and(|stem| finished.iter().any(|module| *module.spec.name == *stem));
        if !known && path.is_file() {
            fs::remove_file(&path).map_err(|error| format!("cannot remove {}: {error}", path.display()))?;
        }
    }
    Ok(())
}

/// `store/entry.ptx` is the module, `entry.cubin` its machine code, `entry.gate` the report it was judged
/// by, under a key of the module and the tools.
fn assemble_one(tools: &Tools, module: &Finished, store: &Path, versions: &[String]) -> Verdict {
    let entry = &module.spec.name;
    let file = |extension: &str| store.join(format!("{entry}.{extension}"));
    write_if_changed(&file("ptx"), module.text.as_bytes())?;
    let Some(ptxas) = &tools.ptxas else { return Ok(None) };

    let mut hasher = DefaultHasher::new();
    (&module.text, versions).hash(&mut hasher);
    let key = format!("{:016x}", hasher.finish());
    let kept = fs::read_to_string(file("gate")).ok().and_then(|text| read_record(&text, &key));
    let (report, mma) = match kept.filter(|_| file("cubin").is_file()) {
        Some(kept) => kept,
        None => {
            let say = |error: GateError| error.to_string();
            let report = ptxas::assemble(ptxas, entry, &file("ptx"), &file("cubin")).map_err(say)?;
            let mma = match &tools.nvdisasm {
                Some(nvdisasm) => Some(ptxas::count_mma(nvdisasm, &file("cubin")).map_err(say)?),
                None => None,
            };
            write_if_changed(&file("gate"), write_record(&key, &report, mma).as_bytes())?;
            (report, mma)
        }
    };
    let config = catalogue::by_entry(entry).ok_or_else(|| format!("{entry} is not in the catalogue"))?;
    ptxas::gate(entry, &report, mma, config.mma_count()).map_err(|error| error.to_string())?;
    Ok(Some(Assembled { cubin: file("cubin"), registers: report.registers, mma }))
}

fn write_record(key: &str, report: &Report, mma: Option<usize>) -> String {
    let Report { registers, stack, spills, warnings } = report;
    let mma = mma.map_or("-".to_owned(), |count| count.to_string());
    format!("{key} {registers} {stack} {spills} {mma}\n{}", warnings.join("\n"))
}

/// The record under `key`, if it is that and whole.
fn read_record(text: &str, key: &str) -> Option<(Report, Option<usize>)> {
    let (first, warnings) = text.split_once('\n')?;
    let words: Vec<&str> = first.split(' ').collect();
    let [recorded, registers, stack, spills, mma] = words[..] else { return None };
    let report = Report {
        registers: registers.parse().ok()?,
        stack: stack.parse().ok()?,
        spills: spills.parse().ok()?,
        warnings: warnings.lines().map(str::to_owned).collect(),
    };
    let mma = if mma == "-" { None } else { Some(mma.parse().ok()?) };
    (recorded == key).then_some((report, mma))
}

fn write_if_changed(path: &Path, contents: &[u8]) -> Result<(), String> {
    if fs::read(path).is_ok_and(|old| old == contents) {
        return Ok(());
    }
    fs::write(path, contents).map_err(|error| format!("cannot write {}: {error}", path.display()))
}

/// Writes `modules.rs` beside copies of what it includes: `store` is shared by all profiles and may be
/// rewritten while this one compiles.
fn write_modules(out: &Path, finished: &[Finished], assembled: &[Option<Assembled>]) -> Result<(), String> {
    let mut text = String::from("&[\n");
    for (module, assembled) in finished.iter().zip(assembled) {
        let EntrySpec { name, threads, min_blocks, cluster, shared_bytes } = &module.spec;
        let ptx = out.join(format!("{name}.ptx"));
        write_if_changed(&ptx, module.text.as_bytes())?;
        let (mut cubin, mut registers, mut mma) = ("None".to_owned(), "None".to_owned(), "None".to_owned());
        if let Some(assembled) = assembled {
            let copy = out.join(format!("{name}.cubin"));
            let bytes = fs::read(&assembled.cubin)
                .map_err(|error| format!("cannot read {}: {error}", assembled.cubin.display()))?;
            write_if_changed(&copy, &bytes)?;
            cubin = format!("Some(include_bytes!({copy:?}))");
            registers = format!("Some({})", assembled.registers);
            mma = format!("{:?}", assembled.mma);
        }
        let params: Vec<usize> = module.parameters.iter().map(|parameter| parameter.bytes).collect();
        let _ = writeln!(
            text,
            "    Module {{ entry: {name:?}, ptx: include_str!({ptx:?}), cubin: {cubin}, params: &{params:?}, threads: \
             {threads}, shared_bytes: {shared_bytes}, cluster: {cluster}, min_blocks: {min_blocks}, registers: \
             {registers}, mma: {mma} }},"
        );
    }
    text.push_str("]\n");
    write_if_changed(&out.join("modules.rs"), text.as_bytes())
}
