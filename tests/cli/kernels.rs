//! `hopper-gemm kernels`.

use kernels::catalogue::{COMPILED, Config, Element, Kernel, REFUSED};
use kernels::matmul::persistent::by_laps;

use crate::support::{Folder, run};

#[test]
fn machine_code_is_shown() {
    const ENTRY: &str = "v3_f16_128x128x64_s2";
    run("sass nope").failed(2, &["nope"]);
    run("sass v3_f16_128x128x64_s9")
        .failed(2, &["v3_f16_128x128x64_s9", "hint: the nearest that exist: v3_f16_128x128x64_s2, "]);
    let module = hopper_gemm::modules::by_entry(ENTRY).unwrap();
    if module.cubin.is_none() {
        run(&format!("sass {ENTRY}")).failed(3, &[ENTRY, "without ptxas"]);
    } else if !nvdisasm_is_there() {
        run(&format!("sass {ENTRY}")).failed(3, &["nvdisasm"]);
    } else {
        let skeleton = run(&format!("sass {ENTRY}")).succeeded().stdout;
        let all = run(&format!("sass {ENTRY} --all")).succeeded().stdout;
        assert_eq!(Some(skeleton.matches(" HGMMA.").count()), module.mma);
        assert!(skeleton.contains("UTMALDG") && skeleton.lines().all(|line| all.contains(line)));
        assert!(all.lines().count() > 2 * skeleton.lines().count());
        let folder = Folder::new();
        run(&format!("sass {ENTRY} -o {}", folder.path("v3.sass").display())).succeeded();
        assert_eq!(std::fs::read_to_string(folder.path("v3.sass")).unwrap(), skeleton);
    }
}

/// Whether the machine code of kernels can be read here: nvdisasm is there.
fn nvdisasm_is_there() -> bool {
    let search = ptx::ptxas::SearchPath::standard(std::path::Path::new(env!("CARGO_MANIFEST_DIR")));
    search.find("nvdisasm").is_some()
}

/// The machine code of a kernel, if this build has some, and of it the instructions between the MMAs of each stage.
fn between_mmas(config: &Config) -> Option<(String, Vec<String>)> {
    hopper_gemm::modules::by_entry(config.entry).unwrap().cubin?;
    let all = run(&format!("sass {} --all", config.entry)).succeeded().stdout;
    let (mut in_stage, mut between) = (false, Vec::new());
    for line in all.lines() {
        if line.contains(" HGMMA.") {
            in_stage = !line.contains("gsb0");
        } else if in_stage {
            between.push(line.to_owned());
        }
    }
    Some((all, between))
}

/// Where a loop is unrolled by laps of the ring, its descriptors stay in uniform registers: nothing is worked out or moved
/// there between the MMAs of a stage.
#[test]
fn descriptors_of_a_loop_by_laps_stay_in_registers() {
    if !nvdisasm_is_there() {
        return;
    }
    for config in COMPILED.iter().filter(|config| config.kernel == Kernel::Persistent) {
        let warpgroups = config.tile_warpgroups();
        if !by_laps(config.stages, config.tile.m / 64 / warpgroups, warpgroups) {
            continue;
        }
        let Some((all, between)) = between_mmas(config) else { continue };
        for line in between {
            assert!(!["UMOV", "UIADD3"].iter().any(|name| line.contains(name)), "{}: {line}", config.entry);
        }
        assert_eq!(all.matches(", gsb0").count(), config.stages, "{}: groups of MMAs", config.entry);
    }
}

/// The uniform datapath works descriptors out. Where ptxas takes a warp to be diverged it cannot, and four vector registers are
/// moved for each MMA: 78 instructions a stage for 51, when a barrier of the warp stood in another place of the epilogue.
#[test]
fn descriptors_are_worked_out_once_a_warp() {
    if !nvdisasm_is_there() {
        return;
    }
    for config in COMPILED {
        // The element type is one word of an MMA.
        let walks = matches!(config.kernel, Kernel::Persistent | Kernel::Wide | Kernel::PingPong);
        if !walks || config.element != Element::F16 {
            continue;
        }
        let Some((all, between)) = between_mmas(config) else { continue };
        let mmas = all.matches(" HGMMA.").count();
        let moves = between.iter().filter(|line| line.contains(" R2UR")).count();
        assert!(mmas > 0 && 2 * moves <= mmas, "{}: {moves} moves, {mmas} MMAs", config.entry);
    }
}

/// A grid that overlaps with the one before must not touch memory before it has waited (ACQBULK), whatever the compiler
/// thinks of moving loads: with loads of the kind for constants, ptxas does move them up there.
#[test]
fn memory_is_touched_after_the_wait_only() {
    if !nvdisasm_is_there() {
        return;
    }
    for config in COMPILED {
        if config.element != Element::F16 || hopper_gemm::modules::by_entry(config.entry).unwrap().cubin.is_none() {
            continue;
        }
        let all = run(&format!("sass {} --all", config.entry)).succeeded().stdout;
        let Some((before, behind)) = all.split_once(" ACQBULK") else {
            let overlaps =
                config.kernel.is_persistent() || matches!(config.kernel, Kernel::Gemv | Kernel::Split | Kernel::Parts);
            assert!(!overlaps, "{} does not wait", config.entry);
            continue;
        };
        let touches = |line: &&str| {
            [" LDG", " UTMALDG", " STG", " UTMASTG", " ATOM", " RED"].iter().any(|name| line.contains(name))
        };
        assert_eq!(before.lines().find(touches), None, "{}", config.entry);
        assert!(behind.lines().any(|line| touches(&line)) && !all.contains(".CONSTANT"), "{}", config.entry);
    }
}

#[test]
fn the_table_has_a_line_for_each_configuration() {
    let table = run("kernels").succeeded().stdout;
    let rows = table.lines().filter(|line| line.contains(" f16 ") || line.contains(" bf16 ")).count();
    assert_eq!(rows, COMPILED.len());
    let one = run("kernels --kernel v3 --type bf16").succeeded().stdout;
    assert!(!one.contains(" f16 ") && one.contains("128x128x64") && one.len() < table.len());
}

#[test]
fn json_has_the_catalogue() {
    let json = run("kernels --json").succeeded().json();
    let entries: Vec<&str> =
        json["compiled"].as_array().unwrap().iter().map(|row| row["entry"].as_str().unwrap()).collect();
    assert_eq!(entries, COMPILED.iter().map(|config| config.entry).collect::<Vec<_>>());
    assert!(json["refused"].is_null());
    for (row, config) in json["compiled"].as_array().unwrap().iter().zip(COMPILED) {
        assert_eq!(row["shared_bytes"], config.shared_bytes());
        assert_eq!(row["threads"], config.threads());
    }
}

#[test]
fn refused_configurations_have_reasons() {
    let json = run("kernels --refused --json").succeeded().json();
    let refused = json["refused"].as_array().unwrap();
    assert_eq!(refused.len(), REFUSED.len());
    assert!(refused.iter().all(|row| row["reason"].as_str().unwrap().contains("needs")));
    let table = run("kernels --refused").succeeded().stdout;
    assert!(table.contains("why it cannot run") && table.contains(REFUSED[0].entry), "{table}");
}

#[test]
fn what_ptxas_made_is_judged_or_said_to_be_absent() {
    let assembled = hopper_gemm::modules::MODULES.iter().any(|module| module.cubin.is_some());
    let run = run("kernels --ptxas");
    for config in COMPILED {
        assert!(run.stdout.contains(config.entry), "{}", run.stdout);
    }
    if assembled {
        run.succeeded();
    } else {
        run.failed(1, &["no ptxas"]);
    }
}

#[test]
fn an_unknown_kernel_is_a_usage_error() {
    run("kernels --kernel v99").failed(2, &["v3"]);
}
