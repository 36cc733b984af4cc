//! What each warp, the copy engine and the tensor cores do when, as spans of time.

use crate::cluster::{Cluster, Stage, Transfer, What};
use crate::exec::Site;
use crate::warp::Wait;

/// Who acts in a span.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Track {
    /// A warp of a block: rank in the cluster, warp.
    Warp(usize, usize),
    /// The copy engine of a block: rank.
    Copies(usize),
    /// The tensor cores of a block: rank.
    TensorCores(usize),
}

/// A span of time in which one thing goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Span {
    /// Cluster of the grid.
    pub cluster: u64,
    /// Who.
    pub track: Track,
    /// What: `wait full[0]`, `load A[1]`, `wgmma`.
    pub name: String,
    /// First cycle.
    pub start: u64,
    /// The cycle after the last.
    pub end: u64,
    /// PTX line.
    pub line: u32,
}

impl Cluster<'_> {
    pub(crate) fn span_wait(&mut self, b: usize, w: usize, start: u64, end: u64, pc: u32, wait: Wait) {
        let name = match wait {
            Wait::None => return,
            Wait::Mbarrier { block, address, .. } => format!("wait {}", self.name(block, address)),
            Wait::Named { id, .. } => format!("wait bar {id}"),
            Wait::Cluster { .. } => "wait cluster".to_string(),
            Wait::Wgmma { .. } => "wait wgmma".to_string(),
            Wait::Bulk { .. } => "wait store".to_string(),
            Wait::Warp { .. } => "wait warp".to_string(),
            Wait::Registers { .. } => "wait registers".to_string(),
        };
        self.span(Track::Warp(b, w), name, start, end, pc);
    }

    /// Threads leave: the warp's life so far.
    pub(crate) fn span_end(&mut self, site: Site) {
        if self.spans.is_some() {
            let end = self.path(site).time;
            self.span(Track::Warp(site.b, site.w), "runs".to_string(), 0, end, site.pc);
        }
    }

    pub(crate) fn span_transfer(&mut self, transfer: &Transfer, end: u64) {
        if self.spans.is_some() {
            let verb = if transfer.stage == Stage::Load { "load" } else { "store" };
            let name = match transfer.issued.what {
                What::CopyIn { block, address, .. } => format!("{verb} {}", self.name(block, address)),
                _ => format!("{verb} {}", self.name(transfer.block, transfer.address)),
            };
            self.span(Track::Copies(transfer.block), name, transfer.start, end, transfer.issued.pc);
        }
    }

    pub(crate) fn span_wgmma(&mut self, b: usize, group: usize, start: u64, end: u64, pc: u32) {
        if self.spans.is_some() {
            let name = if self.blocks[b].groups.len() > 1 { format!("wgmma group {group}") } else { "wgmma".to_string() };
            self.span(Track::TensorCores(b), name, start, end, pc);
        }
    }

    fn span(&mut self, track: Track, name: String, start: u64, end: u64, pc: u32) {
        let (cluster, line) = (self.id, self.cx.program.line(pc));
        if let Some(spans) = &mut self.spans {
            spans.push(Span { cluster, track, name, start, end, line });
        }
    }
}
