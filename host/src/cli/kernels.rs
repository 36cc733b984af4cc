//! `hopper-gemm kernels`: the catalogue.

use clap::Args;
use hopper_gemm::modules::{self, MODULES};
use hopper_gemm::select::{cluster_name, parse_element, parse_kernel, tile_name};
use hopper_gemm::units;
use kernels::catalogue::{self, COMPILED, Config, Kernel, REFUSED};
use serde::Serialize;

use super::failure::Failure;
use super::output::{self, Facts};
use super::said;

/// List the kernels and their configurations.
#[derive(Args)]
pub struct Arguments {
    /// Only this kernel
    #[arg(long, value_name = "NAME", value_parser = |text: &str| said(parse_kernel(text)))]
    kernel: Option<Kernel>,
    /// Only this element type
    #[arg(long = "type", value_name = "f16|bf16", value_parser = |text: &str| said(parse_element(text)))]
    element: Option<catalogue::Element>,
    /// List the configurations that cannot run, with the reasons
    #[arg(long)]
    refused: bool,
    /// Show what ptxas made of each kernel when the program was built, and exit with 1 if anything is
    /// amiss
    #[arg(long, conflicts_with = "refused")]
    ptxas: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Listing {
    kernels: Vec<KernelRow>,
    compiled: Vec<ConfigRow>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<Vec<RefusedRow>>,
}

#[derive(Serialize)]
struct KernelRow {
    name: &'static str,
    summary: &'static str,
}

/// A configuration that is compiled, from the catalogue and from what the build made of it.
#[derive(Serialize)]
struct ConfigRow {
    entry: &'static str,
    kernel: &'static str,
    #[serde(rename = "type")]
    element: &'static str,
    tile: String,
    stages: usize,
    threads: usize,
    cluster: String,
    splits: usize,
    shared_bytes: usize,
    accumulators: usize,
    min_blocks_per_multiprocessor: usize,
    /// Registers of a thread, where ptxas assembled the kernel.
    registers: Option<usize>,
    /// Tensor-core instructions in the machine code, where they could be counted.
    mma: Option<usize>,
    mma_expected: usize,
    cubin_bytes: Option<usize>,
}

#[derive(Serialize)]
struct RefusedRow {
    entry: &'static str,
    reason: String,
}

/// Runs the command.
pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let wanted = |config: &&Config| {
        arguments.kernel.is_none_or(|kernel| kernel == config.kernel)
            && arguments.element.is_none_or(|element| element == config.element)
    };
    let compiled: Vec<ConfigRow> = COMPILED.iter().filter(wanted).map(config_row).collect();
    let refused = || -> Vec<RefusedRow> {
        let reason = |config: &Config| config.verdict().err().map(|refusal| refusal.to_string()).unwrap_or_default();
        REFUSED.iter().filter(wanted).map(|config| RefusedRow { entry: config.entry, reason: reason(config) }).collect()
    };
    let faults = if arguments.ptxas { faults(&compiled) } else { Vec::new() };
    if arguments.json {
        let kernels = Kernel::ALL
            .into_iter()
            .filter(|&kernel| arguments.kernel.is_none_or(|only| only == kernel))
            .map(|kernel| KernelRow { name: kernel.name(), summary: kernel.summary() })
            .collect();
        let refused = arguments.refused.then(refused);
        output::json(&Listing { kernels, compiled, refused })?;
    } else if arguments.refused {
        output::print(&refused_text(&refused()))?;
    } else if arguments.ptxas {
        output::print(&ptxas_text(&compiled))?;
    } else {
        let refused = REFUSED.iter().filter(wanted).count();
        output::print(&compiled_text(&compiled, refused, arguments.kernel))?;
    }
    for fault in &faults {
        output::complain("error", fault);
    }
    if faults.is_empty() { Ok(()) } else { Err(Failure::Check) }
}

fn config_row(config: &Config) -> ConfigRow {
    let module = modules::by_entry(config.entry);
    ConfigRow {
        entry: config.entry,
        kernel: config.kernel.name(),
        element: config.element.name(),
        tile: tile_name(config.tile),
        stages: config.stages,
        threads: config.threads(),
        cluster: cluster_name(config.cluster),
        splits: config.splits,
        shared_bytes: config.shared_bytes(),
        accumulators: config.accumulators(),
        min_blocks_per_multiprocessor: config.min_blocks(),
        registers: module.and_then(|module| module.registers),
        mma: module.and_then(|module| module.mma),
        mma_expected: config.mma_count(),
        cubin_bytes: module.and_then(|module| module.cubin).map(<[u8]>::len),
    }
}

fn compiled_text(rows: &[ConfigRow], refused: usize, only: Option<Kernel>) -> String {
    let mut summaries = Facts::default();
    for kernel in Kernel::ALL.into_iter().filter(|&kernel| only.is_none_or(|only| only == kernel)) {
        summaries.add(kernel.name(), kernel.summary());
    }
    let mut text = summaries.text();
    text.push('\n');
    let header = [
        "kernel",
        "type",
        "tile MxNxK",
        "stages",
        "cluster",
        "splits",
        "threads",
        "shared",
        "accumulators",
        "registers",
        "min blocks/SM",
    ];
    text += &output::table(
        &header,
        rows.iter().map(|row| {
            vec![
                row.kernel.to_owned(),
                row.element.to_owned(),
                row.tile.clone(),
                row.stages.to_string(),
                row.cluster.clone(),
                row.splits.to_string(),
                row.threads.to_string(),
                units::bytes(row.shared_bytes as u128),
                row.accumulators.to_string(),
                or_dash(row.registers),
                row.min_blocks_per_multiprocessor.to_string(),
            ]
        }),
    );
    let assembled = rows.iter().filter(|row| row.registers.is_some()).count();
    text += &format!("\n{} configurations, ", rows.len());
    text += &match assembled {
        0 => "to be compiled by the driver: there was no ptxas when this program was built".to_owned(),
        _ if assembled == rows.len() => "all assembled by ptxas when this program was built".to_owned(),
        _ => format!("{assembled} of them assembled by ptxas when this program was built"),
    };
    text += &format!("; {refused} more cannot run (--refused lists them).\n");
    text
}

fn refused_text(rows: &[RefusedRow]) -> String {
    let table = output::table(
        &["configuration", "why it cannot run"],
        rows.iter().map(|row| vec![row.entry.to_owned(), row.reason.clone()]),
    );
    format!("{table}\n{} configurations.\n", rows.len())
}

fn ptxas_text(rows: &[ConfigRow]) -> String {
    let header = ["entry", "registers", "shared bytes", "blocks/SM", "MMA", "cubin bytes"];
    output::table(
        &header,
        rows.iter().map(|row| {
            vec![
                row.entry.to_owned(),
                or_dash(row.registers),
                row.shared_bytes.to_string(),
                or_dash(row.registers.map(|registers| blocks_per_multiprocessor(row.entry, registers))),
                or_dash(row.mma),
                or_dash(row.cubin_bytes),
            ]
        }),
    )
}

fn or_dash(number: Option<usize>) -> String {
    number.map_or_else(|| "-".to_owned(), |number| number.to_string())
}

/// Blocks that fit on a multiprocessor together with this many registers a thread.
fn blocks_per_multiprocessor(entry: &str, registers: usize) -> usize {
    catalogue::by_entry(entry).map_or(0, |config| config.resident_blocks(registers))
}

/// What is wrong with the machine code of `rows`. The build refuses such kernels; this says so of the
/// program itself, and also where there is no machine code to judge.
fn faults(rows: &[ConfigRow]) -> Vec<String> {
    if MODULES.iter().all(|module| module.cubin.is_none()) {
        return vec!["this program was built where there was no ptxas, so there is nothing to judge".to_owned()];
    }
    let mut faults = Vec::new();
    for row in rows {
        let entry = row.entry;
        match row.registers {
            None => faults.push(format!("{entry} was not assembled")),
            Some(registers) => {
                let blocks = blocks_per_multiprocessor(entry, registers);
                if blocks < row.min_blocks_per_multiprocessor {
                    faults.push(format!(
                        "{entry} takes {registers} registers a thread, so that {blocks} blocks fit on a multiprocessor \
                         and not {}",
                        row.min_blocks_per_multiprocessor
                    ));
                }
            }
        }
        match row.mma {
            None => faults
                .push(format!("the HGMMA and HMMA instructions of {entry} were not counted: there was no nvdisasm")),
            Some(count) if count != row.mma_expected => {
                faults.push(format!(
                    "{entry} has {count} HGMMA and HMMA instructions and should have {}",
                    row.mma_expected
                ));
            }
            Some(_) => {}
        }
    }
    faults
}
