//! How clusters that share a tile of C add up: the device's side of [`crate::workspace`].

use crate::catalogue::{WARP, WARPGROUP};
use crate::ptx::{barrier, global, sreg, warp};
use crate::unroll::{unroll, unroll_wide};
use crate::workspace::COUNTERS_PER_SLICE;

/// Parts of which a thread loads sums together, at the most: with few octets there would be more loads on their
/// way than there are parts.
const MOST_TOGETHER: usize = 8;

/// The clusters that share each tile of C, and their workspace.
#[derive(Clone, Copy)]
pub struct Parts {
    /// Clusters that share a tile.
    pub parts: u32,
    /// The counters. Not used where `parts` is 1.
    pub counters: *mut u32,
    /// The partial sums, aligned to 16 bytes. Not used where `parts` is 1.
    pub partials: *mut f32,
}

/// The meeting of one warp with the same warp of the other clusters that share its tile, about one slice of it:
/// `FRAGMENTS` fragments of 64 rows and `SLICE` columns.
pub struct Meeting<const FRAGMENTS: usize, const SLICE: usize> {
    parts: u32,
    /// Global address of the warp's counter.
    counter: u64,
    /// Global address of what this thread leaves of the slice's first octet, for part 0.
    partials: u64,
}

impl<const FRAGMENTS: usize, const SLICE: usize> Meeting<FRAGMENTS, SLICE> {
    /// Octets of columns.
    const OCTETS: usize = SLICE / 8;
    /// Bytes of an octet of a fragment: four f32 of each thread.
    const OCTET_BYTES: usize = WARPGROUP * 16;
    /// Bytes of what a part leaves.
    const PART_BYTES: usize = FRAGMENTS * Self::OCTETS * Self::OCTET_BYTES;
    /// Loads of 16 bytes that a thread has on their way at once while it sums, beside `SLICE` / 2 sums: as many as
    /// leave both in the registers of two blocks on a multiprocessor.
    const LOADS: usize = if Self::OCTETS <= 8 { 32 } else { 16 };
    /// Parts whose sums a thread loads together: one where the octets are as many as the loads, else several.
    const TOGETHER: usize = match Self::LOADS / Self::OCTETS {
        0 => 1,
        parts if parts < MOST_TOGETHER => parts,
        _ => MOST_TOGETHER,
    };
    /// Batches of loads for them.
    const BATCHES: usize = (Self::TOGETHER * Self::OCTETS).div_ceil(Self::LOADS);

    /// About slice `slice`, counted over all tiles.
    #[inline(always)]
    pub fn new(parts: &Parts, slice: u32) -> Self {
        let (slice, thread) = (slice as usize, sreg::thread() as usize % WARPGROUP);
        let counter = (slice * COUNTERS_PER_SLICE + thread / WARP) * 4;
        let partials = slice * parts.parts as usize * Self::PART_BYTES + thread * 16;
        Meeting {
            parts: parts.parts,
            counter: global::address(parts.counters) + counter as u64,
            partials: global::address(parts.partials) + partials as u64,
        }
    }

    /// Where part `part` leaves this thread's elements of an octet.
    #[inline(always)]
    fn partial(&self, part: u32, fragment: usize, octet: usize) -> u64 {
        let inside = (fragment * Self::OCTETS + octet) * Self::OCTET_BYTES;
        self.partials + part as u64 * Self::PART_BYTES as u64 + inside as u64
    }

    /// Leaves the partial sums of part `part` for fragment `fragment`: `SLICE` / 2 of them, as a wgmma orders its
    /// accumulators.
    ///
    /// # Safety
    /// The workspace is one for the grid, and nobody else calls this for the same part and slice.
    #[inline(always)]
    pub unsafe fn leave(&self, part: u32, fragment: usize, sums: &[f32]) {
        unroll_wide!(OCTET in 0..Self::OCTETS => {
            // SAFETY: the workspace has 16 bytes for each octet of each thread.
            unsafe {
                let sums = sums.as_ptr().add(4 * OCTET).cast::<[f32; 4]>();
                global::store_x4(self.partial(part, fragment, OCTET), *sums);
            }
        });
    }

    /// Counts this part, whose partial sums have been left, and returns whether it is the last: then this warp sees
    /// those of all, and the counter is at zero again for the next grid.
    ///
    /// # Safety
    /// All lanes of the warp call it, once in each part.
    #[inline(always)]
    // ANCHOR: is_last
    pub unsafe fn is_last(&self) -> bool {
        // SAFETY: the counter is the warp's. The first barrier orders the stores of all lanes before the count,
        // which releases them; the second orders what the count has acquired before the loads of all lanes.
        unsafe {
            barrier::sync_warp();
            let mut before = 0;
            if sreg::thread().is_multiple_of(WARP as u32) {
                before = global::count(self.counter, self.parts - 1);
            }
            let before = warp::broadcast(before);
            barrier::sync_warp();
            before == self.parts - 1
        }
    }
    // ANCHOR_END: is_last

    /// Which load of a thread is load `load` of batch `batch`: how many parts after the first of its turn, and the
    /// octet.
    const fn load_of(batch: usize, load: usize) -> (usize, usize) {
        let load = batch * Self::LOADS + load;
        (load / Self::OCTETS, load % Self::OCTETS)
    }

    /// The sums of fragment `fragment` over all parts, added to zero in the order of the parts whoever is last, so
    /// that the result is the same bits each time. `SLICE` / 2 of them, and zeros behind.
    ///
    /// # Safety
    /// [`Meeting::is_last`] has returned true.
    #[inline(always)]
    pub unsafe fn sum(&self, fragment: usize) -> [[f32; 4]; 32] {
        // SAFETY: all-zero bits are valid f32 values.
        let mut sum: [[f32; 4]; 32] = unsafe { core::mem::zeroed() };
        let mut first = 0;
        while first < self.parts {
            unroll!(BATCH in 0..Self::BATCHES => {
                // A load takes long: as many are issued together as there are registers for.
                // SAFETY: as above.
                let mut loaded: [[f32; 4]; 32] = unsafe { core::mem::zeroed() };
                unroll_wide!(LOAD in 0..Self::LOADS => {
                    let (later, octet) = const { Self::load_of(BATCH, LOAD) };
                    if later < Self::TOGETHER {
                        // Past the end, the last part is loaded again, and not added.
                        let part = first + later as u32;
                        let part = if later == 0 || part < self.parts { part } else { self.parts - 1 };
                        // SAFETY: all parts have left their sums, and this thread sees them.
                        unsafe {
                            *loaded.get_unchecked_mut(LOAD) = global::load_x4(self.partial(part, fragment, octet));
                        }
                    }
                });
                unroll_wide!(LOAD in 0..Self::LOADS => {
                    let (later, octet) = const { Self::load_of(BATCH, LOAD) };
                    if later < Self::TOGETHER {
                        let there = later == 0 || first + (later as u32) < self.parts;
                        // SAFETY: the octet and the load are each one of at most 32.
                        unsafe {
                            let [s0, s1, s2, s3] = *sum.get_unchecked(octet);
                            // A sum that began at zero is never -0: adding zero changes nothing.
                            let [d0, d1, d2, d3] = loaded.get_unchecked(LOAD).map(|d| if there { d } else { 0.0 });
                            *sum.get_unchecked_mut(octet) = [s0 + d0, s1 + d1, s2 + d2, s3 + d3];
                        }
                    }
                });
            });
            first += Self::TOGETHER as u32;
        }
        sum
    }
}
