//! Writing files so that others see the old one or the new one, and nothing between.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Puts `text` into the file at `path`, whole or not at all: into a file beside it that then takes its place.
/// Of two that write the same path at once one may fail; those who share a file take a lock.
pub fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let partial = beside(path, "partial");
    let mut file = File::create(&partial)?;
    file.write_all(text.as_bytes())?;
    // A crash of the system after the renaming must not leave an empty file.
    file.sync_all()?;
    std::fs::rename(&partial, path)
}

/// The path with `.ending` after its whole name.
pub fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}
