//! How clusters that share a tile of C add up: the device's side of [`crate::workspace`].

use crate::catalogue::{WARP, WARPGROUP};
use crate::epilogue::{Output, store_octet};
use crate::ptx::wgmma::MmaElement;
use crate::ptx::{barrier, global, sreg, warp};
use crate::unroll::{unroll, unroll_wide};
use crate::workspace::{ARRIVED, LEFT, LOADS, MEETINGS_PER_SLICE, arrived, given_up, has_given_up, left, shares};

/// How often a warp looks whether all have arrived before it gives up its share: some 50 µs, where those who run at the
/// same time differ by a few.
const LOOKS: u32 = 64;

/// The clusters that share each tile of C, and their workspace.
#[derive(Clone, Copy)]
pub struct Parts {
    /// Clusters that share a tile.
    pub parts: u32,
    /// The words of the meetings. Not used where `parts` is 1.
    pub meetings: *mut u64,
    /// The partial sums, aligned to 16 bytes. Not used where `parts` is 1.
    pub partials: *mut f32,
}

/// The meeting of one warp with the same warp of the other clusters that share its tile, about one slice of it:
/// `FRAGMENTS` fragments of 64 rows and `SLICE` columns.
pub struct Meeting<const FRAGMENTS: usize, const SLICE: usize> {
    parts: u32,
    /// Which of the clusters this is.
    part: u32,
    /// Global address of the warp's word.
    word: u64,
    /// Global address of what this thread leaves of the slice's first octet, for part 0.
    partials: u64,
}

/// How a meeting ended for one warp.
#[derive(Clone, Copy)]
pub struct Outcome {
    /// The shares that it has to sum, one bit each.
    pub shares: u32,
    /// In lane 0, the word before this warp left; zero in the other lanes.
    before: u64,
}

impl<const FRAGMENTS: usize, const SLICE: usize> Meeting<FRAGMENTS, SLICE> {
    /// Octets of columns.
    const OCTETS: usize = SLICE / 8;
    /// Octets of all fragments: what a share is made of.
    const PIECES: usize = FRAGMENTS * Self::OCTETS;
    /// Bytes of an octet of a fragment: four f32 of each thread.
    const OCTET_BYTES: usize = WARPGROUP * 16;
    /// Bytes of what a part leaves.
    const PART_BYTES: usize = Self::PIECES * Self::OCTET_BYTES;

    /// Of part `part`, about slice `slice`, counted over all tiles.
    #[inline(always)]
    pub fn new(parts: &Parts, part: u32, slice: u32) -> Self {
        let (slice, thread) = (slice as usize, sreg::thread() as usize % WARPGROUP);
        let word = (slice * MEETINGS_PER_SLICE + thread / WARP) * size_of::<u64>();
        let partials = slice * parts.parts as usize * Self::PART_BYTES + thread * 16;
        Meeting {
            parts: parts.parts,
            part,
            word: global::address(parts.meetings) + word as u64,
            partials: global::address(parts.partials) + partials as u64,
        }
    }

    /// Where part `part` leaves this thread's elements of piece `piece`.
    #[inline(always)]
    fn partial(&self, part: u32, piece: u32) -> u64 {
        self.partials + part as u64 * Self::PART_BYTES as u64 + piece as u64 * Self::OCTET_BYTES as u64
    }

    /// Leaves this part's partial sums for fragment `fragment`: `SLICE` / 2 of them, as a wgmma orders its accumulators.
    ///
    /// # Safety
    /// The workspace is one for the grid, and nobody else calls this for the same part and slice.
    #[inline(always)]
    pub unsafe fn leave(&self, fragment: usize, sums: &[f32]) {
        unroll_wide!(OCTET in 0..Self::OCTETS => {
            // SAFETY: the workspace has 16 bytes for each octet of each thread.
            unsafe {
                let sums = sums.as_ptr().add(4 * OCTET).cast::<[f32; 4]>();
                global::store_x4(self.partial(self.part, (fragment * Self::OCTETS + OCTET) as u32), *sums);
            }
        });
    }

    /// Arrives with this part's sums, which have been left, and waits for the others; says which shares this warp is to
    /// sum, for which it sees the partial sums of all.
    ///
    /// # Safety
    /// All lanes of the warp call it, once in each part.
    #[inline(always)]
    pub unsafe fn attend(&self) -> Outcome {
        // SAFETY: the word is the warp's. The first barrier orders the stores of all lanes before the arrival, which
        // releases them; the second orders what lane 0 has acquired before the loads of all lanes.
        unsafe {
            barrier::sync_warp();
            let mut outcome = Outcome { shares: 0, before: 0 };
            if sreg::thread().is_multiple_of(WARP as u32) {
                outcome = self.attend_alone();
            }
            outcome.shares = warp::broadcast(outcome.shares);
            barrier::sync_warp();
            outcome
        }
    }

    /// As [`Meeting::attend`], by one lane.
    ///
    /// # Safety
    /// As [`Meeting::attend`].
    #[inline(always)]
    // ANCHOR: attend
    unsafe fn attend_alone(&self) -> Outcome {
        let (word, parts, part) = (self.word, self.parts, self.part);
        // SAFETY: the word is accessed by these operations only.
        unsafe {
            if part >= shares(parts, Self::PIECES as u32) {
                // No share of its own: the last to arrive has those that others gave up, the others nothing.
                let before = global::add(word, ARRIVED + LEFT);
                let last = arrived(before) + 1 == parts;
                return Outcome { shares: if last { given_up(before) } else { 0 }, before };
            }
            let own = 1 << part;
            let before = global::add(word, ARRIVED);
            if arrived(before) + 1 == parts {
                return Outcome { shares: own | given_up(before), before: global::add_relaxed(word, LEFT) };
            }
            let mut look = 0;
            while look < LOOKS {
                if arrived(global::load_acquire(word)) == parts {
                    return Outcome { shares: own, before: global::add_relaxed(word, LEFT) };
                }
                look += 1;
            }
            // Who has not arrived may be waiting for this block's multiprocessor. If the last came just now, it has
            // not seen that the share was given up.
            let before = global::add(word, LEFT + has_given_up(part));
            Outcome { shares: if arrived(before) == parts { own } else { 0 }, before }
        }
    }
    // ANCHOR_END: attend

    /// Sums the shares of `outcome` over all parts, and stores them to C: element (0, 0) of D's slice to row and column
    /// `corner`. The last warp to come here leaves the word as the next grid needs it.
    ///
    /// The sums of an element are added to zero in the order of the parts, whoever adds them, so that the result is the
    /// same bits each time.
    ///
    /// # Safety
    /// [`Meeting::attend`] has returned `outcome` to all lanes of the warp, which come here together. `out` describes
    /// memory that nobody else writes in the slice's area.
    #[inline(always)]
    pub unsafe fn conclude<E: MmaElement, const SWAPPED: bool>(
        &self,
        outcome: Outcome,
        out: &Output,
        corner: (u32, u32),
    ) {
        let shares = shares(self.parts, Self::PIECES as u32);
        let mut left_to_sum = outcome.shares;
        while left_to_sum != 0 {
            let share = left_to_sum.trailing_zeros();
            left_to_sum &= left_to_sum - 1;
            // Loads take long: as many are issued together as may be, of several pieces where parts are few.
            // SAFETY: as promised by the caller.
            unsafe {
                if shares * 2 > Self::PIECES as u32 {
                    self.sum::<E, 1, SWAPPED>(share, shares, out, corner);
                } else if shares * 4 > Self::PIECES as u32 {
                    self.sum::<E, 2, SWAPPED>(share, shares, out, corner);
                } else {
                    self.sum::<E, 4, SWAPPED>(share, shares, out, corner);
                }
            }
        }
        if sreg::thread().is_multiple_of(WARP as u32) && left(outcome.before) + 1 == self.parts {
            // SAFETY: all others have left, and do not come back to the word.
            unsafe { global::store_relaxed(self.word, 0) };
        }
    }

    /// Sums and stores pieces `share`, `share` + `shares` and so on, `TOGETHER` at a time.
    ///
    /// # Safety
    /// As [`Meeting::conclude`].
    #[inline(always)]
    unsafe fn sum<E: MmaElement, const TOGETHER: usize, const SWAPPED: bool>(
        &self,
        share: u32,
        shares: u32,
        out: &Output,
        (row, column): (u32, u32),
    ) {
        let pieces = Self::PIECES as u32;
        let mut first = share;
        while first < pieces {
            let mut sums = [[0f32; 4]; TOGETHER];
            let mut first_part = 0;
            while first_part < self.parts {
                // Which piece and which part load LOAD is of: past the end it is of the last, and not added.
                let of = |load: usize| {
                    let piece = first + (load % TOGETHER) as u32 * shares;
                    let part = first_part + (load / TOGETHER) as u32;
                    (piece.min(pieces - 1), part.min(self.parts - 1), part < self.parts)
                };
                let mut loaded = [[0f32; 4]; LOADS];
                unroll_wide!(LOAD in 0..LOADS => {
                    let (piece, part, _) = of(LOAD);
                    // SAFETY: all parts have left their sums, and this thread sees them; LOAD is in bounds.
                    unsafe { *loaded.get_unchecked_mut(LOAD) = global::load_x4(self.partial(part, piece)) };
                });
                unroll_wide!(LOAD in 0..LOADS => {
                    let (_, _, there) = of(LOAD);
                    // SAFETY: in bounds.
                    unsafe {
                        let [s0, s1, s2, s3] = *sums.get_unchecked(LOAD % TOGETHER);
                        // A sum that began at zero is never -0: adding zero changes nothing.
                        let [d0, d1, d2, d3] = loaded.get_unchecked(LOAD).map(|d| if there { d } else { 0.0 });
                        *sums.get_unchecked_mut(LOAD % TOGETHER) = [s0 + d0, s1 + d1, s2 + d2, s3 + d3];
                    }
                });
                first_part += (LOADS / TOGETHER) as u32;
            }
            unroll!(PIECE in 0..TOGETHER => {
                let piece = first + PIECE as u32 * shares;
                if piece < pieces {
                    let (fragment, octet) = (piece / Self::OCTETS as u32, piece % Self::OCTETS as u32);
                    let rows = 64 * fragment + sreg::thread() % WARPGROUP as u32 / WARP as u32 * 16;
                    // SAFETY: as promised by the caller; PIECE is in bounds.
                    unsafe {
                        let sums = *sums.get_unchecked(PIECE);
                        if SWAPPED {
                            store_octet::<E, true>(out, row + 8 * octet, column + rows, sums);
                        } else {
                            store_octet::<E, false>(out, row + rows, column + 8 * octet, sums);
                        }
                    }
                }
            });
            first += TOGETHER as u32 * shares;
        }
    }
}
