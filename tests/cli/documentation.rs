//! Figures and tables of the documentation are what their commands make.

use std::path::{Path, PathBuf};

use hopper_gemm::bench::table::{self, Made};

use crate::support::Folder;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// Where figures lie that commands draw, and no others.
const FIGURES: &str = "docs/src/figures";

/// The files of `folder`, as paths from the root.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join(folder)).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| Path::new(folder).join(entry.unwrap().file_name())).collect();
    files.retain(|file| Path::new(ROOT).join(file).is_file());
    files.sort();
    files
}

#[test]
fn figures_and_tables_are_what_their_commands_make() {
    let copy = Folder::new();
    for folder in [FIGURES, "benches/results"] {
        std::fs::create_dir_all(copy.path(folder)).unwrap();
    }
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
    for command in commands {
        copy.run(command).succeeded();
    }

    let mut stale = Vec::new();
    for file in pages.into_iter().chain(files(FIGURES)) {
        let kept = std::fs::read(Path::new(ROOT).join(&file)).unwrap();
        if std::fs::read(copy.path(file.to_str().unwrap())).ok() != Some(kept) {
            stale.push(file);
        }
    }
    assert!(stale.is_empty(), "not what the commands in docs/made-by-command.txt make: {stale:?}; run `./x figures`");
    let made = std::fs::read_dir(copy.path(FIGURES)).unwrap().count();
    assert_eq!(made, files(FIGURES).len(), "a figure is made that is not kept; run `./x figures`");
}
