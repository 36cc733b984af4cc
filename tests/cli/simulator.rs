//! The simulator from the command line: check, trace, and matmul.

use crate::support::{Folder, run};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/check");

#[test]
fn kernels_without_faults_pass() {
    let checked = run("check v3 --tile 128x64x64 --stages 2 --schedules 2 --json").succeeded();
    let report = &checked.json()[0];
    assert_eq!(report["kernel"], "v3_f16_128x64x64_s2");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0));
    assert!(report["runs"].as_u64() > Some(10) && report["instructions"].as_u64() > Some(1000));
    assert!(report["instructions_per_second"].as_f64() > Some(1000.0));
    let tried = run("check v3_f16_128x64x16_s2 --shape 5x6x40 --explore 50").succeeded();
    assert!(tried.stdout.contains("no findings in 50 schedules"), "{}", tried.stdout);
    let two = run("check v3 --tile 128x64x64 --shape 40,70x20x30 --schedule timed").succeeded();
    for part in ["kernel", "million a second", "40×40×40", "70×20×30"] {
        assert!(two.stdout.contains(part), "no `{part}` in {}", two.stdout);
    }
    let example = run(&format!("check {EXAMPLE}/add-one.toml")).succeeded();
    assert!(example.stdout.contains("add_one: no findings"), "{}", example.stdout);
}

#[test]
fn a_fault_is_reported_with_the_command_that_shows_it_again() {
    let folder = Folder::new();
    for name in ["add-one.ptx", "add-one.toml", "in.bin", "out.bin"] {
        std::fs::copy(format!("{EXAMPLE}/{name}"), folder.path(name)).unwrap();
    }
    let text = std::fs::read_to_string(folder.path("add-one.ptx")).unwrap();
    std::fs::write(folder.path("add-one.ptx"), text.replace("fence.proxy.async.shared::cta;", "")).unwrap();
    let checked = folder.run("check add-one.toml");
    assert_eq!((checked.code, checked.stderr.as_str()), (1, ""), "{}", checked.stdout);
    let again = "hopper-gemm check add-one.toml --schedule timed";
    for part in ["missing-proxy-fence", "line 36", "history", "of 33 schedules", again] {
        assert!(checked.stdout.contains(part), "no `{part}` in {}", checked.stdout);
    }
    let replayed = folder.run(again.trim_start_matches("hopper-gemm "));
    assert_eq!(replayed.code, 1);
    assert!(replayed.stdout.contains("in 1 of 1 schedules"), "{}", replayed.stdout);
}

#[test]
fn traces_are_written() {
    let folder = Folder::new();
    folder.run("trace v3 --tile 128x64x64 --stages 2 -o v3.svg").succeeded();
    let svg = std::fs::read_to_string(folder.path("v3.svg")).unwrap();
    assert!(svg.starts_with("<svg") && svg.contains("warp 4 (producer)") && svg.contains("load A[0]"));
    folder.run("trace v3 --tile 128x64x64 --stages 2 -o v3.json").succeeded();
    let json = std::fs::read(folder.path("v3.json")).unwrap();
    let trace: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert!(trace["traceEvents"].as_array().map(Vec::len) > Some(50));
    folder.run("trace persistent_f16_128x256x64_s4_c1x1 --multiprocessors 1 --shape 1x512x64 -o one.svg").succeeded();
    let svg = std::fs::read_to_string(folder.path("one.svg")).unwrap();
    // One block stores two tiles.
    assert!(svg.contains("warp 11") && !svg.contains("1.0 warp") && svg.matches("class=\"store\"").count() == 17);
    folder.run("trace v3 -o v3.png").failed(2, &[".svg or .json"]);
}

#[test]
fn a_product_is_simulated() {
    let product = run("matmul --random 130x70x100 --device sim --schedules 3 --check --json").succeeded();
    assert_eq!(product.json()["check"]["passed"], true);
    assert_eq!(product.json()["kernel"]["code"], "simulated");
    assert_eq!(product.json()["simulation"]["schedules"], 3);
    let instructions = |options: &str| {
        let json = run(&format!("matmul --random 50x60x70 --device sim --json {options}")).succeeded().json();
        json["simulation"]["instructions"].as_u64().unwrap()
    };
    // Seeds are of random schedules too, and what one of them does can be had again.
    let timed = instructions("--schedules 1");
    assert_eq!(instructions("--seed 8 --schedules 2") - timed, instructions("--seed 8 --schedule random:8"));
    run("matmul --random 40000x40000x40000 --device sim").failed(2, &["the simulator takes up to"]);
    run("matmul --random 4x4x0 --device sim").succeeded();
}

#[test]
fn clusters_share_tiles() {
    let product = run("matmul --random 70x40x900 --device sim --parts 3 --splits 2 --check --json").succeeded().json();
    assert_eq!(product["check"]["passed"], true);
    assert_eq!(
        (&product["kernel"]["chosen"]["parts"], &product["kernel"]["chosen"]["by"]),
        (&3.into(), &"request".into())
    );
    assert!(product["kernel"]["entry"].as_str().unwrap().starts_with("split_f16"));
    let text = run("matmul --random 9x9x900 --device sim --kernel split --parts 3").succeeded().stdout;
    assert!(text.contains("each shared by 3 clusters"), "{text}");
    let checked = run("check split_f16_64x32x64_s8_k2 --parts 5 --shape 9x9x900 --schedules 2 --json").succeeded();
    assert_eq!(checked.json()[0]["findings"].as_array().map(Vec::len), Some(0));
    run("check v3 --parts 2").failed(2, &["v3", "with these kernels only: split, parts"]);
    run("check v3_f16_128x64x64_s2 --parts 2").failed(2, &["v3", "with these kernels only: split, parts"]);
}

#[test]
fn wrong_usage_is_said() {
    run("check nope").failed(2, &["nope"]);
    run("check wide_f16_256x201x64_s3_c1x1")
        .failed(2, &["wide_f16_256x201x64", "nearest that exist: wide_f16_256x200x64_s3_c1x1, "]);
    run("check ceiling").failed(2, &["ceiling"]);
    run("check absent.toml").failed(3, &["absent.toml"]);
    run("check v3 --schedule sometimes").failed(2, &["random:SEED"]);
    let folder = Folder::new();
    std::fs::write(folder.path("bad.toml"), "ptx = 1\n").unwrap();
    folder.run("check bad.toml").failed(3, &["bad.toml", "ptx"]);
}
