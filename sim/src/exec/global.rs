//! Global memory: which accesses are ordered, and by what.

use ptx::ast::*;

use super::{Exec, Site};
use crate::clock::{Epoch, Knowledge};
use crate::cluster::Cluster;
use crate::global::Write;
use crate::report::Kind;

/// How an access orders others: its semantics, and the threads that it reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Order {
    pub semantics: Semantics,
    pub scope: Scope,
}

impl Order {
    pub fn new(semantics: Semantics, scope: Option<Scope>) -> Order {
        Order { semantics, scope: scope.unwrap_or(Scope::System) }
    }

    pub fn is_weak(self) -> bool {
        self.semantics == Semantics::Weak
    }
}

/// Whether a scope holds threads of other clusters.
pub(crate) fn beyond_the_cluster(scope: Scope) -> bool {
    matches!(scope, Scope::Gpu | Scope::System)
}

impl Cluster<'_> {
    /// The number of a write of the site's threads that whoever knows `epoch` may build on.
    pub fn global_write(&self, site: Site, epoch: Epoch, atomic: bool) -> u32 {
        let ctaid = self.blocks[site.b].ctaid;
        let Site { w: warp, mask, pc, .. } = site;
        self.cx.global.number(Write { cluster: self.id, epoch, atomic, ctaid, warp, mask, pc })
    }

    /// Notes that write `number` writes global memory. The earlier writes there must be ordered before it.
    pub fn note_global(&self, site: Site, address: u64, length: usize, number: u32, what: &str) -> Exec<()> {
        let Some((buffer, offset)) = self.cx.memory.locate(address, length as u64) else { return Ok(()) };
        let others = self.cx.global.note(buffer, offset, length, number);
        let atomic = !others.is_empty() && self.cx.global.write(number).atomic;
        self.after(site, address, others.into_iter().filter(|&other| other != number), atomic, what)
    }

    /// Checks that the writes of what an ordinary load reads are ordered before it.
    pub fn check_global(&self, site: Site, address: u64, length: usize, atomic: bool) -> Exec<()> {
        let Some((buffer, offset)) = self.cx.memory.locate(address, length as u64) else { return Ok(()) };
        let others = self.cx.global.writers(buffer, offset, length);
        self.after(site, address, others.into_iter(), atomic, "an ordinary load")
    }

    /// Checks that the writes `others` to what lies at `address` are ordered before an access of the site.
    fn after(&self, site: Site, address: u64, others: impl Iterator<Item = u32>, atomic: bool, what: &str) -> Exec<()> {
        let knowledge = &self.blocks[site.b].warps[site.w].knowledge;
        for other in others {
            let other = self.cx.global.write(other);
            let known = if other.cluster == self.id {
                knowledge.all.knows(other.epoch)
            } else {
                knowledge.others.knows(other.cluster, other.epoch)
            };
            if known || (atomic && other.atomic) || !self.cx.options.ordered_global {
                continue;
            }
            if other.cluster != self.id {
                self.cx.global.clusters_conflict.store(true, std::sync::atomic::Ordering::Relaxed);
            }
            let place = self.cx.memory.describe(address);
            let verb = if what.ends_with("load") { "reads" } else { "overwrites" };
            let message = format!("{what} {verb} {place}, and nothing orders an earlier write of it before this");
            let mut finding = self.fault(Kind::Race, site, message);
            let (who, line) = (other.who(self.cx.options), self.cx.program.line(other.pc));
            finding.notes.push(format!("the other access: {who} (line {line})"));
            return Err(finding);
        }
        Ok(())
    }

    /// What an operation on a word passes on to those who acquire it: all that its warp knows if it releases, what
    /// the warp knew at its last fence if it is relaxed.
    pub fn passes_on(&mut self, site: Site, order: Order, beyond: bool) -> Option<Knowledge> {
        let warp = &mut self.blocks[site.b].warps[site.w];
        match order.semantics {
            Semantics::Weak => None,
            Semantics::Release | Semantics::AcquireRelease => Some(warp.knowledge.clone()),
            Semantics::Relaxed | Semantics::Volatile | Semantics::Acquire => {
                Some(warp.at_fence[usize::from(beyond)].clone())
            }
        }
    }

    /// What an operation learns from a word: at once if it acquires, at the next fence if it is relaxed.
    pub fn is_passed(&mut self, site: Site, order: Order, word: &Knowledge) {
        let warp = &mut self.blocks[site.b].warps[site.w];
        match order.semantics {
            Semantics::Weak => {}
            Semantics::Acquire | Semantics::AcquireRelease => {
                warp.knowledge.join(word);
                warp.meet();
            }
            Semantics::Relaxed | Semantics::Volatile | Semantics::Release => warp.heard.join(word),
        }
    }

    /// The acquiring side of an operation on the word of global memory at `address`.
    pub fn acquire_global(&mut self, site: Site, address: u64, order: Order) {
        if order.is_weak() {
            return;
        }
        let address = address & !3;
        let mut word = self.words.get(&address).cloned().unwrap_or_default();
        if beyond_the_cluster(order.scope)
            && let Some(clocks) = self.cx.global.acquire(address)
        {
            word.learn_abroad(self.id, &clocks);
        }
        self.is_passed(site, order, &word);
    }

    /// The releasing side.
    pub fn release_global(&mut self, site: Site, address: u64, order: Order) {
        let address = address & !3;
        if let Some(knowledge) = self.passes_on(site, order, false) {
            self.words.entry(address).or_default().join(&knowledge);
        }
        if beyond_the_cluster(order.scope)
            && let Some(knowledge) = self.passes_on(site, order, true)
        {
            self.cx.global.release(address, &knowledge.abroad(self.id));
        }
        if !order.is_weak() {
            self.blocks[site.b].warps[site.w].tick();
        }
    }
}
