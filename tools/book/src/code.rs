//! The rule on code: what a reader might take for code is included from a source that is compiled or tested, and
//! so cannot differ from it.

use mdbook_markdown::pulldown_cmark::{CodeBlockKind, Event, Tag, TagEnd};
use mdbook_markdown::{MarkdownOptions, new_cmark_parser};

/// Languages of blocks that need not be included: pictures in characters, and commands with what they print.
const FREE: [&str; 3] = ["text", "console", "sh"];
const INCLUDE: &str = "{{#include ";

/// What is wrong with the code blocks and includes of a chapter with source `text`. `read` gives the text of a
/// file, by its path relative to the chapter.
pub fn faults(text: &str, read: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let mut faults: Vec<String> = includes(text).filter_map(|include| fault_of_include(include, read)).collect();
    let mut block: Option<(String, String)> = None;
    for event in new_cmark_parser(text, &MarkdownOptions::default()) {
        match event {
            Event::Start(Tag::CodeBlock(kind)) => {
                let language = match kind {
                    CodeBlockKind::Fenced(info) => info.split(',').next().unwrap_or_default().trim().to_owned(),
                    CodeBlockKind::Indented => String::new(),
                };
                block = Some((language, String::new()));
            }
            Event::Text(part) => {
                if let Some((_, content)) = &mut block {
                    content.push_str(&part);
                }
            }
            Event::End(TagEnd::CodeBlock) => {
                let Some((language, content)) = block.take() else { continue };
                faults.extend(fault_of_block(&language, &content));
            }
            _ => {}
        }
    }
    faults
}

/// What stands in each `{{#include …}}`.
fn includes(text: &str) -> impl Iterator<Item = &str> {
    text.split(INCLUDE).skip(1).map(|rest| rest.split("}}").next().unwrap_or_default().trim())
}

fn fault_of_include(include: &str, read: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let (path, anchor) = match include.split_once(':') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (include, None),
    };
    let Some(source) = read(path) else { return Some(format!("there is no file {path} to include")) };
    let anchor = anchor?;
    let marked = |mark: &str| {
        let lines = source.lines().filter_map(|line| line.split_once(mark));
        lines.filter(|(_, name)| name.trim() == anchor).count()
    };
    if (marked("ANCHOR: "), marked("ANCHOR_END: ")) == (1, 1) {
        return None;
    }
    Some(format!("{path} must have one `ANCHOR: {anchor}` and one `ANCHOR_END: {anchor}`"))
}

fn fault_of_block(language: &str, content: &str) -> Option<String> {
    if FREE.contains(&language) {
        return None;
    }
    let included = |line: &str| line.trim().starts_with(INCLUDE) && line.trim().ends_with("}}");
    let shown = content.lines().next().unwrap_or_default();
    if language.is_empty() {
        return Some(format!("a code block without a language begins with `{shown}`: {} are free", FREE.join(", ")));
    }
    let lines = || content.lines().filter(|line| !line.trim().is_empty());
    if lines().all(included) && lines().next().is_some() {
        return None;
    }
    Some(format!("a block of {language} begins with `{shown}`: it must consist of includes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str) -> Option<String> {
        let source = "// ANCHOR: one\nlet x = 1;\n// ANCHOR_END: one\n// ANCHOR: half\n// ANCHOR: oneself\n";
        (path == "../a.rs").then(|| source.to_owned())
    }

    #[track_caller]
    fn one_fault(text: &str, said: &str) {
        let faults = faults(text, &read);
        assert!(faults.len() == 1 && faults[0].contains(said), "{faults:?}");
    }

    #[test]
    fn included_and_free_blocks_pass() {
        let text = "```rust\n{{#include ../a.rs:one}}\n```\n\n```rust,ignore\n{{#include ../a.rs}}\n```\n\n\
                    ```text\n│ A │\n```\n\n```console\n$ ls\n```\n\n`let y = 2;`\n";
        assert_eq!(faults(text, &read), [] as [&str; 0]);
    }

    #[test]
    fn pasted_code_is_refused() {
        one_fault("```rust\nlet x = 1;\n```\n", "let x = 1;");
        one_fault("```rust\n{{#include ../a.rs:one}}\nlet x = 1;\n```\n", "consist of includes");
        one_fault("```ptx\nmov.u32 %r1, 1;\n```\n", "a block of ptx");
        one_fault("```rust\n```\n", "consist of includes");
        one_fault("```\nlet x = 1;\n```\n", "without a language");
        one_fault("text\n\n    let x = 1;\n", "without a language");
        one_fault("> * ```rust\n>   let x = 1;\n>   ```\n", "let x = 1;");
    }

    #[test]
    fn includes_of_nothing_are_refused() {
        one_fault("```rust\n{{#include ../b.rs}}\n```\n", "../b.rs");
        one_fault("```rust\n{{#include ../a.rs:two}}\n```\n", "ANCHOR: two");
        one_fault("```rust\n{{#include ../a.rs:half}}\n```\n", "ANCHOR_END: half");
        one_fault("{{#include ../b.md}}\n", "../b.md");
    }
}
