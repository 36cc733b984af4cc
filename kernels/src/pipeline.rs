//! The ring of stages as a type, with one value for each end.
//!
//! A stage has two barriers: *full*, on which the consumers wait, and *empty*, on which the producer waits.
//! Both ends walk the ring in the same order and flip the parity that they wait for at each lap. They
//! differ only in where they start:
//!
//! | end | waits on | first parity | because a fresh barrier is in phase 0 |
//! |---|---|---|---|
//! | [`Producer`] | empty | 1 | the phase before, of parity 1, counts as complete: all stages are free |
//! | [`Consumer`] | full | 0 | phase 0 is not complete: nothing has landed yet |

use crate::ptx::mbarrier;
use crate::shared::MBARRIER_BYTES;

/// The barriers of a ring of `STAGES` stages in this block's shared memory.
#[derive(Clone, Copy)]
pub struct Ring<const STAGES: usize> {
    full: u32,
    empty: u32,
}

impl<const STAGES: usize> Ring<STAGES> {
    /// The ring whose barriers lie at shared address `barriers`: all the full ones, then all the empty ones.
    #[inline(always)]
    pub fn at(barriers: u32) -> Self {
        Ring { full: barriers, empty: barriers + (STAGES * MBARRIER_BYTES) as u32 }
    }

    /// Initialises the barriers: one arrival fills a stage, `releases` arrivals empty it.
    ///
    /// # Safety
    /// One thread of the block calls it, before any use; see [`mbarrier::init`] for what must follow.
    #[inline(always)]
    pub unsafe fn init(&self, releases: u32) {
        let mut stage = 0;
        while stage < STAGES as u32 {
            // SAFETY: the ring's barriers are not in use yet, as the caller promises.
            unsafe {
                mbarrier::init(self.full(stage), 1);
                mbarrier::init(self.empty(stage), releases);
            }
            stage += 1;
        }
    }

    /// Shared address of the barrier that says "stage `stage` is full".
    #[inline(always)]
    pub fn full(&self, stage: u32) -> u32 {
        self.full + stage * MBARRIER_BYTES as u32
    }

    /// Shared address of the barrier that says "stage `stage` is empty".
    #[inline(always)]
    pub fn empty(&self, stage: u32) -> u32 {
        self.empty + stage * MBARRIER_BYTES as u32
    }

    // ANCHOR: ends
    /// The producer's end, at its start.
    #[inline(always)]
    pub fn producer(self) -> Producer<STAGES> {
        Producer { ring: self, place: Place { stage: 0, parity: 1 } }
    }

    /// A consumer's end, at its start.
    #[inline(always)]
    pub fn consumer(self) -> Consumer<STAGES> {
        Consumer { ring: self, place: Place { stage: 0, parity: 0 } }
    }
    // ANCHOR_END: ends
}

/// A stage of the ring and the parity to wait for there.
#[derive(Clone, Copy)]
struct Place<const STAGES: usize> {
    stage: u32,
    parity: u32,
}

// ANCHOR: advance
impl<const STAGES: usize> Place<STAGES> {
    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == STAGES as u32 {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}
// ANCHOR_END: advance

/// The end that fills stages.
pub struct Producer<const STAGES: usize> {
    ring: Ring<STAGES>,
    place: Place<STAGES>,
}

impl<const STAGES: usize> Producer<STAGES> {
    /// Waits until the current stage is empty and returns it.
    ///
    /// # Safety
    /// The ring is initialised, and the consumers will release the stage.
    #[inline(always)]
    pub unsafe fn acquire(&self) -> u32 {
        // SAFETY: as promised by the caller.
        unsafe { mbarrier::wait(self.ring.empty(self.place.stage), self.place.parity) };
        self.place.stage
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.place.advance();
    }

    /// Waits until the consumers have released all that was filled. `filled` is how often a stage was
    /// filled in all. Until then the block must not exit, since loads may still be on their way to it.
    ///
    /// # Safety
    /// As [`Producer::acquire`].
    #[inline(always)]
    pub unsafe fn drain(mut self, filled: u32) {
        // The walk stands behind the last filled stage, so one more lap meets every filled stage once. With
        // less than a lap filled, the filled stages are the first ones, in their first phase of parity 0.
        if filled < STAGES as u32 {
            self.place = Place { stage: 0, parity: 0 };
        }
        let mut left = if filled < STAGES as u32 { filled } else { STAGES as u32 };
        while left > 0 {
            // SAFETY: as promised by the caller.
            unsafe { self.acquire() };
            self.advance();
            left -= 1;
        }
    }
}

/// The end that empties stages.
pub struct Consumer<const STAGES: usize> {
    ring: Ring<STAGES>,
    place: Place<STAGES>,
}

impl<const STAGES: usize> Consumer<STAGES> {
    /// Waits until the current stage is full and returns it.
    ///
    /// # Safety
    /// The ring is initialised, and the producer will fill the stage.
    #[inline(always)]
    pub unsafe fn acquire(&self) -> u32 {
        // SAFETY: as promised by the caller.
        unsafe { mbarrier::wait(self.ring.full(self.place.stage), self.place.parity) };
        self.place.stage
    }

    /// Waits until the current stage has been filled for the first time, and returns it: for a ring whose
    /// stages are filled once and never released.
    ///
    /// # Safety
    /// As [`Consumer::acquire`].
    #[inline(always)]
    pub unsafe fn acquire_first_fill(&self) -> u32 {
        // SAFETY: as promised by the caller.
        unsafe { mbarrier::wait(self.ring.full(self.place.stage), 0) };
        self.place.stage
    }

    /// Goes on to the next stage.
    #[inline(always)]
    pub fn advance(&mut self) {
        self.place.advance();
    }

    /// Goes on by `stages` stages, which another consumer takes.
    #[inline(always)]
    pub fn skip(&mut self, stages: u32) {
        let place = self.place.stage + stages;
        self.place.stage = place % STAGES as u32;
        self.place.parity ^= place / STAGES as u32 % 2;
    }

    /// The stages in the order in which they come from here on.
    #[inline(always)]
    pub fn lap(&self) -> Lap<STAGES> {
        let mut lap = Lap { ring: self.ring, places: [self.place; STAGES] };
        let mut i = 1;
        while i < STAGES {
            lap.places[i] = lap.places[i - 1];
            lap.places[i].advance();
            i += 1;
        }
        lap
    }
}

/// A lap of the ring from where a consumer stands, which may be any stage: for a loop that is unrolled by laps, to which
/// the stage of each step is then the same in every turn.
pub struct Lap<const STAGES: usize> {
    ring: Ring<STAGES>,
    places: [Place<STAGES>; STAGES],
}

impl<const STAGES: usize> Lap<STAGES> {
    /// The `i`-th stage of the lap.
    #[inline(always)]
    pub fn stage(&self, i: usize) -> u32 {
        self.places[i].stage
    }

    /// The stage before the `i`-th; before the first, the last of the lap before.
    #[inline(always)]
    pub fn before(&self, i: usize) -> u32 {
        self.places[(i + STAGES - 1) % STAGES].stage
    }

    /// Waits until the `i`-th stage is full. The next wait for it is for the next lap.
    ///
    /// # Safety
    /// As [`Consumer::acquire`].
    #[inline(always)]
    pub unsafe fn acquire(&mut self, i: usize) {
        let Place { stage, parity } = self.places[i];
        // SAFETY: as promised by the caller.
        unsafe { mbarrier::wait(self.ring.full(stage), parity) };
        self.places[i].parity ^= 1;
    }
}
