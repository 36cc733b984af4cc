//! Device memory for clusters that share tiles: a workspace for each stream.
//!
//! A launch uses meetings that are zero, leaves them so, and uses partial sums that need no value before. So what
//! comes next in the same stream can use the same memory, and what runs in another stream must not.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::thread::ThreadId;

use kernels::workspace::Workspace;

use super::driver::Stream;
use super::matrix;
use super::memory::Memory;
use crate::error::Result;

/// Streams that keep a workspace; with more of them, all workspaces are freed.
const MOST_STREAMS: usize = 64;

/// The workspaces of a device.
#[derive(Default)]
pub struct Workspaces {
    by_stream: Mutex<HashMap<Key, Buffers>>,
}

/// Which stream it is.
///
/// The driver gives the handle of a stream to another one only after all work in the first is done
/// (`cuStreamDestroy`: "resources … will be released automatically once the device has completed all work").
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    handle: usize,
    /// The thread, where the handle means another stream in each.
    thread: Option<ThreadId>,
}

impl Key {
    /// `CU_STREAM_PER_THREAD`.
    const PER_THREAD: usize = 2;

    fn of(stream: &Stream) -> Key {
        let handle = stream.as_raw() as usize;
        Key { handle, thread: (handle == Key::PER_THREAD).then(|| std::thread::current().id()) }
    }
}

/// A workspace in memory.
struct Buffers {
    /// Zero whenever no launch is under way.
    meetings: Memory,
    partials: Memory,
}

/// Device addresses of a workspace; 0 where it has nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Addresses {
    /// Of the meetings.
    pub meetings: u64,
    /// Of the partial sums.
    pub partials: u64,
}

impl Workspaces {
    /// Calls `launch` with a workspace of the stream that is at least as large as `wanted`, to put one launch into
    /// the stream that uses it. A larger one than the stream has had is allocated, and then the call waits for the
    /// device.
    ///
    /// # Errors
    /// When the device has not enough memory; and those of `launch`.
    pub fn with<R>(
        &self,
        stream: &Stream,
        wanted: Workspace,
        launch: impl FnOnce(Addresses) -> Result<R>,
    ) -> Result<R> {
        if wanted.meetings == 0 {
            return launch(Addresses::default());
        }
        // Held until the launch is in the stream: no other thread frees what it uses, and where two threads use one
        // stream, their launches follow each other. A thread that panicked has left a map that is still true.
        let mut by_stream = self.by_stream.lock().unwrap_or_else(PoisonError::into_inner);
        let key = Key::of(stream);
        if by_stream.len() >= MOST_STREAMS && !by_stream.contains_key(&key) {
            by_stream.clear();
        }
        // Sizes that do not fit are more than any device has.
        let [meeting_bytes, partial_bytes] = [wanted.meetings.saturating_mul(8), wanted.partial_bytes]
            .map(|bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
        let device = stream.device();
        let buffers = match by_stream.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => {
                entry.insert(Buffers { meetings: Memory::new(device, 0)?, partials: Memory::new(device, 0)? })
            }
        };
        // The old memory is freed only once there is new, and after the work that uses it.
        if buffers.partials.bytes() < partial_bytes {
            buffers.partials = Memory::new(device, partial_bytes)?;
        }
        if buffers.meetings.bytes() < meeting_bytes {
            let meetings = Memory::new(device, meeting_bytes)?;
            // SAFETY: the memory has as many elements of 16 bits.
            unsafe { matrix::fill(stream, meetings.address(), 0, 1, meeting_bytes / 2, meeting_bytes / 2) }?;
            buffers.meetings = meetings;
        }
        launch(Addresses { meetings: buffers.meetings.address(), partials: buffers.partials.address() })
    }
}
