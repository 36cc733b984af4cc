//! `hopper-gemm bench`, as far as it goes without a GPU: suites and tables.

use crate::support::Folder;

#[test]
fn suites_that_cannot_be_used() {
    let folder = Folder::new();
    std::fs::write(folder.path("empty.toml"), "").unwrap();
    std::fs::write(folder.path("bad.toml"), "[[group]]\nname = \"one\"\nshapes = [\"1x2\"]\n").unwrap();
    folder.run("bench --suite absent.toml").failed(3, &["absent.toml"]);
    folder.run("bench --suite empty.toml").failed(3, &["empty.toml", "group"]);
    folder.run("bench --suite bad.toml").failed(3, &["bad.toml", "group `one`", "three numbers"]);
    folder.run("bench --suite --filter square").failed(2, &["`square`", "squares", "primes"]);
    folder.run("bench --suite --shapes 8").failed(2, &["cannot be used with"]);
    folder.run("bench --filter squares").failed(2, &["--suite"]);
}

#[test]
#[cfg(not(feature = "cuda"))]
fn a_suite_without_a_gpu() {
    crate::support::run("bench --suite --filter squares").failed(4, &["feature `cuda`"]);
}

/// Results of a run on an H200 as if their shapes were a suite.
fn suite_results(folder: &Folder) -> serde_json::Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/results/h200-f16-shapes.json");
    let mut results: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    for shape in results["shapes"].as_array_mut().unwrap() {
        shape["group"] = if shape["m"] == shape["n"] { "squares" } else { "others" }.into();
    }
    std::fs::write(folder.path("suite.json"), results.to_string()).unwrap();
    results
}

#[test]
fn a_suite_becomes_a_table_in_a_markdown_file() {
    let folder = Folder::new();
    let results = suite_results(&folder);
    let table = folder.run("bench --table suite.json").succeeded().stdout;
    assert!(table.contains("| type | group | shapes | arm | rested |"), "{table}");
    for shape in results["shapes"].as_array().unwrap() {
        let size = format!("{}×{}×{}", shape["m"], shape["n"], shape["k"]);
        let arms = shape["arms"].as_array().unwrap();
        let rows = table.lines().filter(|line| line.contains(&format!("| {size} |"))).count();
        assert_eq!(rows, arms.len() - 1, "all but the baseline for {size}\n{table}");
        // A loss is marked, and nothing else is.
        for arm in arms.iter().filter(|arm| arm["name"] != shape["baseline"]) {
            let Some(ratio) = arm["rested"]["ratio"]["median"].as_f64() else { continue };
            let name = arm["name"].as_str().unwrap();
            let is_row = |line: &&str| line.contains(&format!("| {size} |")) && line.contains(&format!("| {name}"));
            let marked = table.lines().filter(is_row).any(|line| line.contains(&format!("**{ratio:.3}")));
            assert_eq!(marked, ratio < 1.0, "{size} {name} {ratio}");
        }
    }
    std::fs::write(
        folder.path("page.md"),
        "# Suite\n<!-- results: written by `hopper-gemm bench --table` -->\n<!-- end of results -->\nafter\n",
    )
    .unwrap();
    folder.run("bench --table suite.json --into page.md").succeeded();
    let page = std::fs::read_to_string(folder.path("page.md")).unwrap();
    assert!(page.starts_with("# Suite\n") && page.contains(table.trim()) && page.ends_with("after\n"), "{page}");
}
