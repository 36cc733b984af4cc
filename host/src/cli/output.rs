//! Printing: text and JSON on standard output, and messages on standard error.

use std::io::{self, Write};

use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;

/// Writes to standard output at once.
pub fn print(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Writes `value` to standard output as one JSON document.
pub fn json(value: &impl Serialize) -> io::Result<()> {
    let mut text = serde_json::to_string_pretty(value)?;
    text.push('\n');
    print(&text)
}

/// Writes a message to standard error.
pub fn complain(kind: &str, message: &str) {
    // There is nobody left to tell when this fails.
    let _ = writeln!(io::stderr(), "{kind}: {message}");
}

/// Lines of a name and what there is to say about it, the names padded to the same width.
#[derive(Default)]
pub struct Facts(Vec<(&'static str, String)>);

impl Facts {
    /// Adds a line.
    pub fn add(&mut self, name: &'static str, text: impl Into<String>) {
        self.0.push((name, text.into()));
    }

    /// All lines; those with the same name as the one before leave it out.
    pub fn text(&self) -> String {
        let width = self.0.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
        let mut previous = "";
        let mut text = String::new();
        for (name, fact) in &self.0 {
            let shown = if *name == previous { "" } else { name };
            text += &format!("{shown:<width$}  {fact}\n");
            previous = name;
        }
        text
    }
}

/// A table: the header, and rows with numbers to the right.
pub fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(header);
    let mut numeric = vec![true; header.len()];
    for row in rows {
        for (numeric, cell) in numeric.iter_mut().zip(&row) {
            *numeric &= cell.starts_with(|c: char| c.is_ascii_digit()) || cell == "-";
        }
        table.add_row(row);
    }
    for (column, numeric) in table.column_iter_mut().zip(numeric) {
        column.set_padding((0, 2));
        if numeric {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_aligned() {
        let mut facts = Facts::default();
        facts.add("type", "f16");
        facts.add("device", "CPU");
        facts.add("device", "2 threads");
        assert_eq!(facts.text(), "type    f16\ndevice  CPU\n        2 threads\n");
    }

    #[test]
    fn tables_have_numbers_to_the_right() {
        let rows = [vec!["v3".to_owned(), "8".to_owned()], vec!["ceiling".to_owned(), "168".to_owned()]];
        assert_eq!(table(&["kernel", "regs"], rows), "kernel   regs\nv3          8\nceiling   168\n");
    }
}
