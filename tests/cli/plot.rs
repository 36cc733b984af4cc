//! Figures and tables of results.

use crate::support::{Folder, run};

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/h200-f16-pair-stores.json");
const COUNTERS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/h200-f16-8192-ncu.csv");
const ENTRY: &str = "v5_f16_128x256x64_s3";

#[test]
fn results_are_drawn() {
    let folder = Folder::new();
    let drawn = folder.run(&format!("plot {RESULTS} -o all.svg")).succeeded();
    assert_eq!(drawn.stdout, "all.svg\n");
    let all = std::fs::read_to_string(folder.path("all.svg")).unwrap();
    folder.run(&format!("plot {RESULTS} --arms v3,v5 --shapes 8192 -o two.svg")).succeeded();
    let two = std::fs::read_to_string(folder.path("two.svg")).unwrap();
    assert!(all.starts_with("<svg") && all.trim_end().ends_with("</svg>"));
    assert!(all.contains("\npersistent\n") && all.contains("4096×4096×4096"));
    assert!(!two.contains("\npersistent\n") && !two.contains("4096×4096×4096"));
    for part in ["\nv3\n", "\nv5\n", "8192×8192×8192", "cublas", "peak", "rested", "sustained"] {
        assert!(two.contains(part), "{part:?} is missing");
    }
}

#[test]
fn several_files_go_into_one_figure() {
    let folder = Folder::new();
    folder.run(&format!("plot {RESULTS} {RESULTS} -o twice.svg --shapes 8192")).succeeded();
    let svg = std::fs::read_to_string(folder.path("twice.svg")).unwrap();
    assert_eq!(svg.matches("f16 8192×8192×8192").count(), 2);
}

#[test]
fn tables_show_what_is_asked_for() {
    let folder = Folder::new();
    let table = run(&format!("bench --table {RESULTS} --arms v3,cublas")).succeeded().stdout;
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| f16")).collect();
    assert!(rows.len() == 4 && rows[0].contains("v3_f16") && rows[1].contains("cublas"), "{table}");
    let counters = run(&format!("bench --counters {COUNTERS} --arms {ENTRY}")).succeeded().stdout;
    assert!(counters.lines().count() == 3 && counters.contains("tensor pipe") && counters.contains(ENTRY));
    std::fs::write(
        folder.path("page.md"),
        "<!-- counters: written by `hopper-gemm bench --counters` -->\nold\n<!-- end of counters -->\n",
    )
    .unwrap();
    folder.run(&format!("bench --counters {COUNTERS} --into page.md")).succeeded();
    let page = std::fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(page.contains(ENTRY) && !page.contains("old"), "{page}");
    folder.run(&format!("bench --table {RESULTS} --into page.md")).failed(3, &["page.md", "each once"]);
    run(&format!("bench --table {RESULTS} --arms v9")).failed(3, &["pair-stores.json", "v9", "persistent"]);
    run(&format!("bench --counters {COUNTERS} --arms v9")).failed(3, &["ncu.csv", "v9", ENTRY]);
    run(&format!("bench --counters {RESULTS}")).failed(3, &["pair-stores.json", "line 2", "kernel"]);
    assert_eq!(run("bench --into page.md").code, 2);
    assert_eq!(run(&format!("bench --table {RESULTS} --counters {COUNTERS}")).code, 2);
}

#[test]
fn what_cannot_be_drawn_is_named() {
    let folder = Folder::new();
    std::fs::write(folder.path("bad.json"), "{\"format\": 1}").unwrap();
    folder.run("plot absent.json -o a.svg").failed(3, &["absent.json"]);
    folder.run("plot bad.json -o a.svg").failed(3, &["bad.json", "missing field"]);
    folder.run(&format!("plot {RESULTS} bad.json -o a.svg")).failed(3, &["bad.json"]);
    folder.run(&format!("plot {RESULTS} -o a.png")).failed(2, &["a.png", ".svg"]);
    folder.run(&format!("plot {RESULTS} -o absent/a.svg")).failed(3, &["absent/a.svg"]);
    folder.run(&format!("plot {RESULTS} --arms v3,nope -o a.svg")).failed(3, &["pair-stores.json", "nope", "v4"]);
    folder.run(&format!("plot {RESULTS} --shapes 1x2x3 -o a.svg")).failed(3, &["pair-stores.json", "1×2×3", "4096"]);
    assert!(!folder.path("a.svg").exists());
    assert_eq!(run("plot -o a.svg").code, 2);
}
