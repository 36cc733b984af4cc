//! `hopper-gemm info`.

use crate::support::{program, run};

const NAMES: [&str; 9] = ["program", "CPU", "rustc", "rust-src", "ptxas", "nvdisasm", "driver", "NVML", "cuBLAS"];

#[test]
fn looks_at_everything() {
    let text = run("info").succeeded().stdout;
    for name in NAMES {
        assert!(text.lines().any(|line| line.starts_with(name)), "{name} is missing in\n{text}");
    }
    let json = run("info --json").succeeded().json();
    let findings = json["findings"].as_array().unwrap();
    for name in NAMES {
        let finding = findings.iter().find(|finding| finding["name"] == name).expect(name);
        let state = finding["state"].as_str().unwrap();
        assert!(["ok", "missing"].contains(&state), "{finding}");
        assert!(!finding["meaning"].as_str().unwrap().is_empty());
        // What is missing comes with advice.
        assert!(state == "ok" || !finding["advice"].as_str().unwrap().is_empty(), "{finding}");
    }
    assert!(json["conclusion"].as_str().unwrap().ends_with('.'));
}

#[test]
fn what_is_not_there_is_a_finding() {
    let output = program().arg("info").env("PATH", "").env_remove("CUDA_HOME").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("there is no rustc on PATH"), "{text}");
}
