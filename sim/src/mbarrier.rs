//! The mbarrier object: pending arrivals, pending bytes, phases (PTX ISA, "mbarrier").

use crate::clock::{Epoch, Knowledge};

/// Largest count of an mbarrier, and largest magnitude of its pending bytes: 2^20 - 1 (PTX ISA, "Contents
/// of the mbarrier object").
pub const LIMIT: i64 = (1 << 20) - 1;

/// An mbarrier in shared memory.
#[derive(Clone, Debug)]
pub struct Mbarrier {
    /// Arrivals that each phase expects.
    pub count: i64,
    /// Arrivals that the current phase still waits for.
    pub pending: i64,
    /// Bytes that the current phase still waits for; negative when more came than were announced so far.
    pub bytes: i64,
    /// Completed phases. The current phase has the parity of this number.
    pub phase: u64,
    /// Bytes announced in the current phase.
    pub announced: i64,
    /// Bytes landed in the current phase.
    pub landed: i64,
    /// Bytes that landed in the last completed phase.
    pub last_landed: i64,
    /// Dimension whose time is the number of completed phases.
    pub dimension: u32,
    /// What those who arrived in the current phase know.
    pub arriving: Knowledge,
    /// What a thread learns that waits for the last completed phase.
    pub released: Knowledge,
    /// For each thread of the cluster that ever arrived, the phase of its last arrival plus one.
    pub arrived: Vec<u32>,
    /// The warp that initialised it, as its dimension, and the time in it.
    pub initialised: Epoch,
    /// Whether a fence has made the initialisation visible to the async proxy and the cluster.
    pub visible: bool,
    /// When its last phase completed, in the timing model.
    pub time: u64,
    /// PTX line of its init.
    pub line: u32,
}

/// What an operation on an mbarrier must not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overflow {
    /// More arrivals than the phase still waits for.
    Arrivals {
        /// Arrivals asked for.
        arriving: i64,
        /// Arrivals that were pending.
        pending: i64,
    },
    /// Pending bytes outside ±(2^20 - 1).
    Bytes {
        /// The value that they would have.
        bytes: i64,
    },
}

impl Mbarrier {
    /// Changes the pending bytes by `change`: announced bytes are positive, landed ones negative.
    ///
    /// # Errors
    /// [`Overflow::Bytes`]
    pub fn transact(&mut self, change: i64) -> Result<(), Overflow> {
        let bytes = self.bytes + change;
        if bytes.abs() > LIMIT {
            return Err(Overflow::Bytes { bytes });
        }
        self.bytes = bytes;
        if change > 0 {
            self.announced += change;
        } else {
            self.landed -= change;
        }
        Ok(())
    }

    /// Arrives `count` times.
    ///
    /// # Errors
    /// [`Overflow::Arrivals`]
    pub fn arrive(&mut self, count: i64) -> Result<(), Overflow> {
        if count > self.pending {
            return Err(Overflow::Arrivals { arriving: count, pending: self.pending });
        }
        self.pending -= count;
        Ok(())
    }

    /// Notes that thread `thread` of the cluster arrives. If it has arrived before, returns the epoch that
    /// says that the phase of that arrival is over: a thread that does not know it may be arriving twice in
    /// one phase.
    pub fn note_arrival(&mut self, thread: usize) -> Option<Epoch> {
        if thread >= self.arrived.len() {
            self.arrived.resize(thread + 1, 0);
        }
        let last = std::mem::replace(&mut self.arrived[thread], self.phase as u32 + 1);
        (last > 0).then_some(Epoch { dimension: self.dimension, time: last })
    }

    /// Completes the phase if nothing is pending, and arms the next one. Returns whether it did.
    pub fn complete(&mut self) -> bool {
        if self.pending != 0 || self.bytes != 0 {
            return false;
        }
        self.phase += 1;
        self.pending = self.count;
        self.announced = 0;
        self.landed = 0;
        self.arriving.all.learn(Epoch { dimension: self.dimension, time: self.phase as u32 });
        self.arriving.fenced.learn(Epoch { dimension: self.dimension, time: self.phase as u32 });
        self.released.join(&self.arriving);
        true
    }

    /// Whether a wait on `parity` passes: the phase that completed last has that parity. A fresh barrier
    /// counts as having completed one of parity 1.
    pub fn passes(&self, parity: u64) -> bool {
        self.phase & 1 != parity & 1
    }

    /// The state that an arrival returns: the phase that it arrived in.
    pub fn state(&self) -> u64 {
        self.phase << 21 | (self.pending as u64 & 0x1f_ffff)
    }

    /// The phase of a state.
    pub fn phase_of(state: u64) -> u64 {
        state >> 21
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn barrier(count: i64) -> Mbarrier {
        Mbarrier {
            count,
            pending: count,
            bytes: 0,
            phase: 0,
            announced: 0,
            landed: 0,
            last_landed: 0,
            dimension: 9,
            arriving: Knowledge::default(),
            released: Knowledge::default(),
            arrived: Vec::new(),
            initialised: Epoch { dimension: 0, time: 1 },
            visible: true,
            time: 0,
            line: 1,
        }
    }

    #[test]
    fn a_phase_completes_when_arrivals_and_bytes_are_in() {
        let mut b = barrier(1);
        assert!(b.passes(1) && !b.passes(0));
        b.transact(4096).unwrap();
        b.arrive(1).unwrap();
        assert!(!b.complete());
        b.transact(-4096).unwrap();
        assert!(b.complete());
        assert!(b.passes(0) && !b.passes(1));
        assert_eq!((b.pending, b.phase), (1, 1));
    }

    #[test]
    fn bytes_may_land_before_they_are_announced() {
        let mut b = barrier(1);
        b.transact(-64).unwrap();
        assert!(!b.complete());
        b.transact(64).unwrap();
        b.arrive(1).unwrap();
        assert!(b.complete());
    }

    #[test]
    fn overflow_is_a_fault() {
        let mut b = barrier(2);
        assert_eq!(b.arrive(3), Err(Overflow::Arrivals { arriving: 3, pending: 2 }));
        assert_eq!(b.transact(1 << 20), Err(Overflow::Bytes { bytes: 1 << 20 }));
        assert!(b.transact(-LIMIT).is_ok() && b.transact(-1).is_err());
        assert_eq!(b.note_arrival(130), None);
        assert_eq!(b.note_arrival(130), Some(Epoch { dimension: 9, time: 1 }));
    }
}
