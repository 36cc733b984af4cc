//! Figures, tables and listings of the documentation are what their commands make.

use std::path::{Path, PathBuf};

use hopper_gemm::bench::table::{self, Made};
use ptx::ptxas::SearchPath;

use crate::support::Folder;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Where figures and listings lie that commands make, and no others.
const FOLDERS: [&str; 2] = ["docs/src/figures", "docs/src/listings"];

/// The files of `folder`, as paths from the root.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name())).collect();
    files.retain(|file| Path::new(ROOT).join(file).is_file());
    files.sort();
    files
}

/// Whether machine code is what it is where the listings were made: it depends on the release of ptxas.
fn has_pinned_ptxas() -> bool {
    let search = SearchPath::standard(Path::new(ROOT));
    let pins = std::fs::read_to_string(Path::new(ROOT).join("tools/cuda-tools.txt")).unwrap();
    let pinned = pins.lines().find_map(|line| line.strip_prefix("nvidia-cuda-nvcc==")).unwrap();
    let pinned = pinned.split_whitespace().next().unwrap();
    let version = search.find("ptxas").and_then(|ptxas| ptx::ptxas::version(&ptxas).ok());
    version.is_some_and(|version| version.contains(pinned)) && search.find("nvdisasm").is_some()
}

#[test]
fn what_commands_make_is_kept_as_they_make_it() {
    let copy = Folder::new();
    for folder in FOLDERS.into_iter().chain(["benches/results"]) {
        std::fs::create_dir_all(copy.path(folder)).unwrap();
    }
    // The program looks for nvdisasm from where it is run.
    std::os::unix::fs::symlink(Path::new(ROOT).join(".tools"), copy.path(".tools")).unwrap();
    for file in files("benches/results") {
        std::fs::copy(Path::new(ROOT).join(&file), copy.path(file.to_str().unwrap())).unwrap();
    }
    // Pages with their tables emptied: one that no command fills again is found.
    let is_page = |file: &PathBuf| file.extension().is_some_and(|extension| extension == "md");
    let pages: Vec<PathBuf> = files(".").into_iter().chain(files("docs/src")).filter(is_page).collect();
    for page in &pages {
        let text = std::fs::read_to_string(Path::new(ROOT).join(page)).unwrap();
        let to = copy.path(page.to_str().unwrap());
        std::fs::write(&to, &text).unwrap();
        for made in [Made::FromResults, Made::FromCounters] {
            if text.contains(made.begin()) {
                table::insert(&to, made, "nothing yet").unwrap();
            }
        }
    }

    let list = std::fs::read_to_string(Path::new(ROOT).join("docs/made-by-command.txt")).unwrap();
    let commands: Vec<&str> = list.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(commands.len() > 1);
    let machine_code = has_pinned_ptxas();
    for command in commands {
        if command.starts_with("sass ") && !machine_code {
            let file = command.rsplit(' ').next().unwrap();
            eprintln!("not compared, for this is not the pinned ptxas: {file}");
            std::fs::copy(Path::new(ROOT).join(file), copy.path(file)).unwrap();
        } else {
            copy.run(command).succeeded();
        }
    }

    let mut stale = Vec::new();
    for file in pages.into_iter().chain(FOLDERS.into_iter().flat_map(files)) {
        let kept = std::fs::read(Path::new(ROOT).join(&file)).unwrap();
        if std::fs::read(copy.path(file.to_str().unwrap())).ok() != Some(kept) {
            stale.push(file);
        }
    }
    assert!(stale.is_empty(), "not what the commands in docs/made-by-command.txt make: {stale:?}; run `./x figures`");
    for folder in FOLDERS {
        let made = std::fs::read_dir(copy.path(folder)).unwrap().count();
        assert_eq!(made, files(folder).len(), "something is made in {folder} that is not kept; run `./x figures`");
    }
}
