//! Who knows what: vector clocks.
//!
//! Each *source of events* (a warp, an mbarrier, a warpgroup's wgmma groups, a thread's bulk groups) has a
//! dimension. An [`Epoch`] is one point in a dimension: "warp 3's second interval", "barrier 5's fourth
//! completed phase". An event happened before an observer's present if the observer's clock has reached
//! its epoch. Clocks travel with synchronisation: whoever waits on a barrier learns what all who arrived
//! knew. So a missing handshake is found whatever the schedule was, not only when it bit.

use std::collections::BTreeMap;

/// A point in one dimension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Epoch {
    /// The dimension.
    pub dimension: u32,
    /// The time in it that an observer must have reached.
    pub time: u32,
}

/// For each dimension, how far it is known. Absent dimensions are at zero.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clock(Vec<u32>);

impl Clock {
    /// The time known in `dimension`.
    pub fn get(&self, dimension: u32) -> u32 {
        self.0.get(dimension as usize).copied().unwrap_or(0)
    }

    /// Whether `epoch` is known.
    pub fn knows(&self, epoch: Epoch) -> bool {
        self.get(epoch.dimension) >= epoch.time
    }

    /// Learns `epoch`.
    pub fn learn(&mut self, epoch: Epoch) {
        let index = epoch.dimension as usize;
        if index >= self.0.len() {
            self.0.resize(index + 1, 0);
        }
        self.0[index] = self.0[index].max(epoch.time);
    }

    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Clock) {
        if other.0.len() > self.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, &theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(theirs);
        }
    }
}

/// What is known of clusters: a clock for each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Clocks(BTreeMap<u64, Clock>);

impl Clocks {
    /// Whether `epoch` of cluster `cluster` is known.
    pub fn knows(&self, cluster: u64, epoch: Epoch) -> bool {
        self.0.get(&cluster).is_some_and(|clock| clock.knows(epoch))
    }

    /// Learns what is known of one cluster.
    pub fn learn(&mut self, cluster: u64, clock: &Clock) {
        self.0.entry(cluster).or_default().join(clock);
    }

    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Clocks) {
        for (&cluster, clock) in &other.0 {
            self.learn(cluster, clock);
        }
    }
}

/// What an observer knows, and how much of it has also passed a proxy fence.
///
/// Ordinary stores go through the generic proxy. TMA and wgmma read shared memory through the async proxy
/// and see such a store only if a `fence.proxy.async` lies on the path of synchronisation from the one to
/// the other (PTX ISA, "Proxies" and "Causality order").
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Knowledge {
    /// Everything known.
    pub all: Clock,
    /// The part that the async proxy sees too.
    pub fenced: Clock,
    /// What is known of other clusters.
    pub others: Clocks,
}

impl Knowledge {
    /// Learns all that `other` knows.
    pub fn join(&mut self, other: &Knowledge) {
        self.all.join(&other.all);
        self.fenced.join(&other.fenced);
        self.others.join(&other.others);
    }

    /// All of it, as an observer in cluster `cluster` passes it on to other clusters.
    pub fn abroad(&self, cluster: u64) -> Clocks {
        let mut clocks = self.others.clone();
        clocks.learn(cluster, &self.all);
        clocks
    }

    /// Learns what another cluster has passed on, as an observer in cluster `cluster`.
    pub fn learn_abroad(&mut self, cluster: u64, clocks: &Clocks) {
        if let Some(own) = clocks.0.get(&cluster) {
            self.all.join(own);
        }
        self.others.join(clocks);
    }

    /// `fence.proxy.async`: what is known now is visible to the async proxy.
    pub fn fence_proxy(&mut self) {
        let Knowledge { all, fenced, .. } = self;
        fenced.join(all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_travels_and_fences_hold_only_what_came_before() {
        let (x, y) = (Epoch { dimension: 3, time: 2 }, Epoch { dimension: 0, time: 1 });
        let mut writer = Knowledge::default();
        writer.all.learn(x);
        writer.fence_proxy();
        writer.all.learn(y);
        let mut reader = Knowledge::default();
        assert!(!reader.all.knows(x));
        reader.join(&writer);
        assert!(reader.all.knows(x) && reader.all.knows(y));
        assert!(reader.fenced.knows(x) && !reader.fenced.knows(y));
        assert!(!reader.all.knows(Epoch { dimension: 3, time: 3 }));
    }
}
