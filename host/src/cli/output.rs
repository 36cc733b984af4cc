//! Printing: text and JSON on standard output, messages on standard error, and numbers for people.

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

/// A duration in a unit that suits it.
pub fn seconds(seconds: f64) -> String {
    match seconds {
        s if s < 1e-3 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.2} ms", s * 1e3),
        s => format!("{s:.2} s"),
    }
}

/// Floating-point operations per second in a unit that suits them.
pub fn flops(flops: f64) -> String {
    match flops {
        f if f < 1e9 => format!("{:.2} MFLOPS", f * 1e-6),
        f if f < 1e12 => format!("{:.2} GFLOPS", f * 1e-9),
        f => format!("{:.2} TFLOPS", f * 1e-12),
    }
}

/// A number of bytes in a binary unit that suits it.
pub fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_the_unit_that_suits_them() {
        assert_eq!(seconds(12.3e-6), "12.30 µs");
        assert_eq!(seconds(0.25), "250.00 ms");
        assert_eq!(seconds(90.0), "90.00 s");
        assert_eq!(flops(2.5e6), "2.50 MFLOPS");
        assert_eq!(flops(90e9), "90.00 GFLOPS");
        assert_eq!(flops(650.25e12), "650.25 TFLOPS");
        assert_eq!(bytes(1000), "1000 B");
        assert_eq!(bytes(65536 + 96), "64.1 KiB");
        assert_eq!(bytes(141 << 30), "141.0 GiB");
    }

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
