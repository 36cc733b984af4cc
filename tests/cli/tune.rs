//! `hopper-gemm tune`, as far as it goes without a GPU: the file of answers, and what is refused.

use std::path::Path;
use std::process::{Command, Stdio};

use hopper_gemm::Problem;
use hopper_gemm::tune::{Answer, Cache, ShapeClass, Target};
use kernels::catalogue::{Element, by_entry};

use crate::support::{Folder, program, run};

/// An answer for v3 and products of `m`×4096×4096.
fn answer(m: usize) -> Answer {
    Answer {
        target: Target::new("NVIDIA H200", "580.95"),
        class: ShapeClass::of(&Problem::new(Element::F16, m, 4096, 4096).unwrap()).to_string(),
        kernel: Some("v3".to_owned()),
        entry: "v3_f16_128x128x64_s3".to_owned(),
        band: 8,
        parts: 1,
        shape: [m, 4096, 4096],
        seconds: 1e-3,
        default_seconds: Some(1.1e-3),
        date: "2026-11-29T12:00:00Z".to_owned(),
    }
}

#[test]
fn what_is_remembered_is_shown_and_forgotten() {
    let folder = Folder::new();
    let path = folder.path("tune.json");
    let empty = folder.run("tune --show --cache tune.json").succeeded();
    assert_eq!(empty.stdout, "nothing is remembered in tune.json\n");
    assert_eq!(folder.run("tune --clear --cache tune.json").succeeded().stdout, empty.stdout);
    assert!(!path.exists(), "looking makes no file");

    let other = Answer { target: Target { kernels: "0".into(), ..answer(1).target }, kernel: None, ..answer(64) };
    Cache::merge(&path, &[answer(4096), other]).unwrap();
    let shown = folder.run("tune --show --cache tune.json").succeeded().stdout;
    for part in [
        "f16 4096x4096x4096",
        "v3_f16_128x128x64_s3",
        "1.000 ms",
        "10.0 %",
        "580.95",
        "this program",
        "other kernels",
        "2026-11-29",
        "remembered in tune.json",
    ] {
        assert!(shown.contains(part), "`{part}` is missing in\n{shown}");
    }
    let json = folder.run("tune --show --cache tune.json --json").succeeded().json();
    assert_eq!(json["answers"].as_array().unwrap().len(), 2);
    assert_eq!(json["kernels"], Target::kernel_set());
    assert!(json["answers"].as_array().unwrap().iter().any(|answer| answer["entry"] == "v3_f16_128x128x64_s3"));

    let cleared = folder.run("tune --clear --cache tune.json --json").succeeded().json();
    assert_eq!(cleared["removed"], 2);
    assert!(!path.exists());
}

#[test]
fn the_cache_folder_is_the_users() {
    let folder = Folder::new();
    let show = |command: &mut Command| {
        let output = command.args(["tune", "--show"]).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let cache = folder.path("cache");
    let shown = show(program().env("XDG_CACHE_HOME", &cache));
    assert!(shown.contains(cache.join("hopper-gemm/tune.json").to_str().unwrap()), "{shown}");
    let home = folder.path("home");
    let shown = show(program().env_remove("XDG_CACHE_HOME").env("HOME", &home));
    assert!(shown.contains(home.join(".cache/hopper-gemm/tune.json").to_str().unwrap()), "{shown}");
}

#[test]
fn damaged_and_old_files_are_set_aside_and_said() {
    let folder = Folder::new();
    let path = folder.path("tune.json");
    Cache::merge(&path, &[answer(4096)]).unwrap();
    let good = std::fs::read_to_string(&path).unwrap();
    let old = good.replace("\"format\": 1", "\"format\": 0");
    for (text, said, aside) in [
        (&good[..good.len() / 2], "is damaged", "tune.json.damaged"),
        ("not JSON", "is damaged", "tune.json.damaged"),
        (old.as_str(), "has format 0 and this program reads 1", "tune.json.format-0"),
    ] {
        std::fs::write(&path, text).unwrap();
        let run = folder.run("tune --show --cache tune.json");
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert!(run.stderr.starts_with("note: ") && run.stderr.contains(said), "{}", run.stderr);
        assert!(run.stderr.contains(aside), "{}", run.stderr);
        assert!(run.stdout.contains("nothing is remembered"), "{}", run.stdout);
        assert_eq!(std::fs::read_to_string(folder.path(aside)).unwrap(), text);
        assert!(!path.exists());
        // The next look finds nothing wrong.
        folder.run("tune --show --cache tune.json").succeeded();
        // What was set aside is said in JSON too.
        std::fs::write(&path, text).unwrap();
        let json = folder.run("tune --show --cache tune.json --json").succeeded().json();
        assert!(json["notice"].as_str().unwrap().contains(said), "{json}");
    }
    std::fs::write(&path, "not JSON").unwrap();
    let cleared = folder.run("tune --clear --cache tune.json").succeeded().stdout;
    assert!(cleared.contains("(answers: 0)") && !path.exists(), "{cleared}");
}

#[test]
fn a_newer_file_is_left_alone_and_said() {
    let folder = Folder::new();
    let newer = "{\"format\": 99}";
    std::fs::write(folder.path("tune.json"), newer).unwrap();
    let run = folder.run("tune --show --cache tune.json");
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("has format 99") && run.stderr.contains("newer program"), "{}", run.stderr);
    assert_eq!(std::fs::read_to_string(folder.path("tune.json")).unwrap(), newer);
}

#[test]
fn a_cache_that_is_a_folder_is_an_error() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("folder")).unwrap();
    folder.run("tune --show --cache folder").failed(3, &["folder", "directory"]);
    folder.run("tune --clear --cache folder").failed(3, &["folder", "directory"]);
    let json = folder.run("tune --show --cache folder --json").failed(3, &[]).json();
    assert_eq!(json["exit_code"], 3);
}

/// Names the file that a child of [`two_processes_write_at_once`] writes to, and which child it is.
const CHILD: &str = "HOPPER_GEMM_TEST_TUNE_CHILD";
/// Processes, and what each of them writes.
const PROCESSES: usize = 4;
const WRITES: usize = 10;

#[test]
fn two_processes_write_at_once() {
    if let Ok(child) = std::env::var(CHILD) {
        let (number, path) = child.split_once(' ').unwrap();
        return write_as_child(number.parse().unwrap(), Path::new(path));
    }
    let folder = Folder::new();
    let path = folder.path("cache/tune.json");
    let children: Vec<_> = (0..PROCESSES)
        .map(|number| {
            Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "tune::two_processes_write_at_once"])
                .env(CHILD, format!("{number} {}", path.display()))
                .stdout(Stdio::null())
                .spawn()
                .unwrap()
        })
        .collect();
    // Meanwhile others look, and see a whole file or none.
    for _ in 0..10 {
        folder.run("tune --show --cache cache/tune.json").succeeded();
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let (cache, notice) = Cache::read(&path).unwrap();
    assert_eq!((cache.answers().len(), notice), (PROCESSES * WRITES, None));
}

fn write_as_child(number: usize, path: &Path) {
    for turn in 0..WRITES {
        // A power of two each, so that each is a class of its own.
        let kernel = ["v3", "v4", "v5", "persistent"][number];
        Cache::merge(path, &[Answer { kernel: Some(kernel.to_owned()), ..answer(16 << turn) }]).unwrap();
    }
}

#[test]
fn requests_that_make_no_sense() {
    for (arguments, said) in [
        ("", "--shapes"),
        ("--shapes 8x8", "three numbers"),
        ("--shapes 8 --kernel v99", "v3"),
        ("--shapes 8 --kernel ceiling", "computes no product"),
        ("--shapes 0x8x8", "at least 1"),
        ("--shapes 8 --type f64", "f16, bf16"),
        ("--shapes 8 --budget=-1", "budget"),
        ("--shapes 8 --budget nan", "budget"),
        ("--show --clear", "cannot be used with"),
        ("--show --shapes 8", "cannot be used with"),
    ] {
        run(&format!("tune {arguments}")).failed(2, &[said]);
    }
}

#[test]
#[cfg(not(feature = "cuda"))]
fn without_a_gpu_it_says_what_is_missing() {
    run("tune --shapes 4096 --kernel v3").failed(4, &["feature `cuda`", "--features cuda"]);
    let json = run("tune --shapes 4096 --json").failed(4, &[]).json();
    assert_eq!(json["exit_code"], 4);
}

#[test]
fn a_product_says_where_its_kernel_comes_from() {
    let by = |options: &str| {
        let arguments = format!("matmul --random 16x16x16 --device sim --json {options}");
        run(&arguments).succeeded().json()["kernel"]["chosen"]["by"].clone()
    };
    assert_eq!(by("--kernel v3"), "default");
    assert_eq!(by("--kernel v3 --stages 2"), "request");
    let text = run("matmul --random 16x16x16 --device sim --kernel v3").succeeded().stdout;
    let band = by_entry("v3_f16_128x64x64_s4").unwrap().band();
    assert!(text.contains(&format!("the default for this shape; tiles in bands of {band} rows")), "{text}");
}
