//! Counters of Nsight Compute as a table.

use std::fmt::Write as _;
use std::path::Path;

use serde::Deserialize;

use crate::error::{Error, Result};

/// One counter of one launch, a line `kernel,metric,unit,value` of a CSV file.
#[derive(Clone, Debug, Deserialize)]
struct Row {
    kernel: String,
    metric: String,
    unit: String,
    value: f64,
}

/// The counters of some launches, in the order of the file.
#[derive(Clone, Debug)]
pub struct Counters {
    rows: Vec<Row>,
}

/// A column of the table: its title, and how it is made from the counters of one kernel.
struct Column {
    title: &'static str,
    digits: usize,
    value: fn(&Counters, &str) -> Option<f64>,
}

/// Bytes of a sector of the L2 cache.
const SECTOR: f64 = 32.0;

const COLUMNS: [Column; 10] = [
    Column { title: "ms", digits: 3, value: |of, kernel| of.seconds(kernel).map(|seconds| seconds * 1e3) },
    Column {
        title: "tensor pipe active, %",
        digits: 1,
        value: |of, kernel| of.get(kernel, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", "%"),
    },
    Column {
        title: "warps active, %",
        digits: 1,
        value: |of, kernel| of.get(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active", "%"),
    },
    Column {
        title: "instructions, millions",
        digits: 0,
        value: |of, kernel| Some(of.get(kernel, "smsp__inst_executed.sum", "inst")? * 1e-6),
    },
    Column {
        title: "into multiprocessors, GB",
        digits: 1,
        value: |of, kernel| Some(of.get(kernel, "l1tex__m_xbar2l1tex_read_bytes.sum", "byte")? * 1e-9),
    },
    Column {
        title: "read from L2, GB",
        digits: 1,
        value: |of, kernel| Some(of.get(kernel, "lts__t_sectors_op_read.sum", "sector")? * SECTOR * 1e-9),
    },
    Column {
        title: "L2, % of peak",
        digits: 1,
        value: |of, kernel| of.get(kernel, "lts__t_sectors.avg.pct_of_peak_sustained_elapsed", "%"),
    },
    Column { title: "DRAM, GB", digits: 2, value: |of, kernel| Some(of.dram(kernel)? * 1e-9) },
    Column { title: "DRAM, GB/s", digits: 0, value: |of, kernel| Some(of.dram(kernel)? / of.seconds(kernel)? * 1e-9) },
    Column {
        title: "GHz",
        digits: 3,
        value: |of, kernel| Some(of.get(kernel, "sm__cycles_elapsed.avg.per_second", "hz")? * 1e-9),
    },
];

impl Counters {
    /// Reads a CSV file with the columns `kernel`, `metric`, `unit` and `value`, of which the metrics and units are
    /// those of Nsight Compute.
    pub fn read(path: &Path) -> Result<Counters> {
        let failed = |error: csv::Error| Error::ResultsFile { path: path.to_path_buf(), reason: reason(&error) };
        // Lines of other lengths are read, and the field that is missing is named.
        let mut reader = csv::ReaderBuilder::new().flexible(true).from_path(path).map_err(failed)?;
        let rows = reader.deserialize().collect::<std::result::Result<Vec<Row>, _>>().map_err(failed)?;
        Ok(Counters { rows })
    }

    /// The counter of this name and unit.
    fn get(&self, kernel: &str, metric: &str, unit: &str) -> Option<f64> {
        let row = self.rows.iter().find(|row| row.kernel == kernel && row.metric == metric)?;
        (row.unit == unit).then_some(row.value)
    }

    fn seconds(&self, kernel: &str) -> Option<f64> {
        Some(self.get(kernel, "gpu__time_duration.sum", "ns")? * 1e-9)
    }

    /// Bytes read from and written to DRAM.
    fn dram(&self, kernel: &str) -> Option<f64> {
        Some(self.get(kernel, "dram__bytes_read.sum", "byte")? + self.get(kernel, "dram__bytes_write.sum", "byte")?)
    }

    /// The counters of `kernels`, in this order, or of all when there are none, as a Markdown table. A counter that
    /// was not taken, or is in another unit than is expected, is a dash; one that was not taken of any has no column.
    ///
    /// # Errors
    /// When a kernel is not there.
    pub fn markdown(&self, kernels: &[String]) -> Result<String> {
        let mut known: Vec<&str> = self.rows.iter().map(|row| row.kernel.as_str()).collect();
        known.dedup();
        if let Some(kernel) = kernels.iter().find(|kernel| !known.contains(&kernel.as_str())) {
            let known = known.into_iter().map(str::to_owned).collect();
            return Err(Error::NotInResults { what: format!("kernel {kernel}"), known });
        }
        let shown = if kernels.is_empty() { known } else { kernels.iter().map(String::as_str).collect() };
        let taken = |column: &&Column| shown.iter().any(|kernel| (column.value)(self, kernel).is_some());
        let columns: Vec<&Column> = COLUMNS.iter().filter(taken).collect();
        let mut out = String::from("| kernel |");
        columns.iter().for_each(|column| out += &format!(" {} |", column.title));
        out += "\n|---|";
        columns.iter().for_each(|_| out += "--:|");
        for kernel in &shown {
            let _ = write!(out, "\n| `{kernel}` |");
            for column in &columns {
                let digits = column.digits;
                let _ = match (column.value)(self, kernel) {
                    Some(value) => write!(out, " {value:.digits$} |"),
                    None => write!(out, " – |"),
                };
            }
        }
        out.push('\n');
        Ok(out)
    }
}

/// What is wrong with a file, and in which line.
fn reason(error: &csv::Error) -> String {
    let line = error.position().map(|position| format!("line {}: ", position.line())).unwrap_or_default();
    match error.kind() {
        csv::ErrorKind::Deserialize { err, .. } => format!("{line}{}", err.kind()),
        _ => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Counters> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Counters::read(file.path())
    }

    const TEXT: &str = "\
kernel,metric,unit,value
one,gpu__time_duration.sum,ns,2000000
one,dram__bytes_read.sum,byte,3e9
one,dram__bytes_write.sum,byte,1e9
two,gpu__time_duration.sum,ms,2
";

    #[test]
    fn counters_become_a_table() {
        let counters = read(TEXT).unwrap();
        let table = counters.markdown(&[]).unwrap();
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines[2], "| `one` | 2.000 | 4.00 | 2000 |");
        // The time of the second is in another unit, so it is not taken for nanoseconds.
        assert_eq!(lines[3], "| `two` | – | – | – |");
        let bars = |line: &str| line.matches('|').count();
        assert!(lines.iter().all(|line| bars(line) == bars(lines[0])), "{table}");
        assert!(!counters.markdown(&["two".to_owned()]).unwrap().contains("one"));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let error = read(TEXT).unwrap().markdown(&["three".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("three") && error.contains("one, two"), "{error}");
        let error = read("kernel,metric,unit,value\none,a,b,many\n").unwrap_err().to_string();
        assert!(error.contains("line 2: ") && error.contains("float"), "{error}");
        assert!(read("\"ID\",\"Kernel Name\"\n1,2\n").unwrap_err().to_string().contains("kernel"));
        assert!(Counters::read(Path::new("absent.csv")).unwrap_err().to_string().contains("absent.csv"));
    }
}
