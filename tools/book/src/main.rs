//! Builds the book in `docs/` and checks it, or draws its diagrams.
//!
//! A build is refused when a link or an anchor leads nowhere, when a picture has no text beside it, or when code was
//! pasted rather than included.

mod code;
mod dedent;
mod diagrams;
mod links;
mod svg;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow};
use clap::Parser;
use mdbook_driver::MDBook;
use mdbook_preprocessor::book::BookItem;

/// Build the book and check it.
#[derive(Parser)]
struct Arguments {
    /// The folder with book.toml
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs"))]
    book: PathBuf,
    /// Where to build it
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/book"))]
    out: PathBuf,
    /// Draw the diagrams into the book's sources, and build nothing
    #[arg(long)]
    draw: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = if arguments.draw { draw(&arguments.book) } else { build(&arguments.book, &arguments.out) };
    match done {
        Ok(faults) if faults.is_empty() => ExitCode::SUCCESS,
        Ok(faults) => {
            faults.iter().for_each(|fault| eprintln!("error: {fault}"));
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn draw(book: &Path) -> Result<Vec<String>> {
    for (name, svg) in diagrams::all() {
        let path = book.join("src/diagrams").join(name);
        std::fs::write(&path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(Vec::new())
}

/// Builds the book and returns what is wrong with it.
fn build(folder: &Path, out: &Path) -> Result<Vec<String>> {
    let folder = folder.canonicalize().with_context(|| format!("cannot find the book {}", folder.display()))?;
    let mut book = MDBook::load(&folder)?;
    std::fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let out = out.canonicalize()?;
    book.config.build.build_dir = out.clone();
    book.with_preprocessor(dedent::Dedent);
    let mut faults = Vec::new();
    for item in book.iter() {
        let BookItem::Chapter(chapter) = item else { continue };
        let path = chapter.source_path.as_ref().ok_or_else(|| anyhow!("{} has no page", chapter.name))?;
        let beside = book.source_dir().join(path.parent().unwrap_or(Path::new("")));
        let read = |path: &str| std::fs::read_to_string(beside.join(path)).ok();
        let found = code::faults(&chapter.content, &read);
        faults.extend(found.into_iter().map(|fault| format!("{}: {fault}", path.display())));
    }
    book.build()?;
    faults.extend(links::faults(&out)?);
    println!("{}", out.join("index.html").display());
    Ok(faults)
}
