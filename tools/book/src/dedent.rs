//! Code that is included from inside a function loses the indentation that all of its lines share.

use mdbook_preprocessor::book::{Book, BookItem};
use mdbook_preprocessor::errors::Result;
use mdbook_preprocessor::{Preprocessor, PreprocessorContext};

/// The preprocessor; it comes after the one that includes.
pub struct Dedent;

impl Preprocessor for Dedent {
    fn name(&self) -> &str {
        "dedent"
    }

    fn run(&self, _: &PreprocessorContext, mut book: Book) -> Result<Book> {
        book.for_each_mut(|item: &mut BookItem| {
            if let BookItem::Chapter(chapter) = item {
                chapter.content = dedent(&chapter.content);
            }
        });
        Ok(book)
    }
}

fn dedent(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        push(&mut out, line);
        if !line.starts_with("```rust") {
            continue;
        }
        let mut block: Vec<&str> = Vec::new();
        let end = loop {
            match lines.next() {
                Some(line) if line.starts_with("```") => break Some(line),
                Some(line) => block.push(line),
                None => break None,
            }
        };
        let indents = block.iter().filter(|line| !line.trim().is_empty());
        let shared = indents.map(|line| line.len() - line.trim_start_matches(' ').len()).min().unwrap_or(0);
        block.iter().for_each(|line| push(&mut out, line.get(shared..).unwrap_or_default()));
        end.into_iter().for_each(|line| push(&mut out, line));
    }
    out
}

fn push(out: &mut String, line: &str) {
    out.push_str(line);
    out.push('\n');
}

#[cfg(test)]
mod tests {
    use super::dedent;

    #[test]
    fn shared_indentation_goes() {
        let text = "  a\n\n```rust\n    let x = {\n\n        1\n    };\n```\n\n```text\n    b\n```\n";
        assert_eq!(dedent(text), "  a\n\n```rust\nlet x = {\n\n    1\n};\n```\n\n```text\n    b\n```\n");
        assert_eq!(dedent("```rust\n  open"), "```rust\nopen\n");
    }
}
