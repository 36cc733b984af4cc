//! Shared memory of a block, and who last wrote and read each word of it.

use crate::clock::{Epoch, Knowledge};

/// Shared address of the first byte of a block's variables. The system keeps the first kilobyte.
pub const SHARED_BASE: u32 = 1024;

/// Which path an access takes to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proxy {
    /// Ordinary loads and stores.
    Generic,
    /// TMA and wgmma.
    Async,
}

/// Which lane of which warp makes an ordinary access.
///
/// Clocks are those of warps. What a lane wrote, another lane of its warp may use once the lanes have met at a
/// barrier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane {
    /// The warp's dimension.
    pub dimension: u32,
    /// The lane, or [`ALL_LANES`].
    pub lane: u8,
    /// Up to which of the warp's times lanes know of each other's stores.
    pub met: u32,
}

impl Lane {
    /// Whether a word of which `other` is noted as the last to have written may not be its own.
    const fn is_not(self, other: u8) -> bool {
        other != PART_OF_A_WORD && (self.lane != other || other == ALL_LANES)
    }
}

/// Stands for all lanes of a warp together, as in `stmatrix`.
pub const ALL_LANES: u8 = 32;

/// Noted for words of which lanes may have written parts; they are not told apart.
const PART_OF_A_WORD: u8 = 33;

/// An event that wrote shared memory.
#[derive(Clone, Debug)]
pub struct Writer {
    /// The epoch that an observer must know; `None` while the write is on its way.
    pub epoch: Option<Epoch>,
    /// The path that it took.
    pub proxy: Proxy,
    /// What it was, for reports: index into the world's list of actions.
    pub action: u32,
}

/// An event that read shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reader {
    /// The epoch that a later writer must know.
    pub epoch: Epoch,
    /// What it was.
    pub action: u32,
}

/// Readers of a word, sorted by dimension, one a dimension.
#[derive(Debug, Default)]
struct ReaderSet {
    readers: Vec<Reader>,
    /// For each dimension, the last reader that was added to this set, and the set with it.
    next: Vec<(Reader, u32)>,
}

/// Writers and sets of readers, by number.
#[derive(Debug, Default)]
pub struct Accesses {
    writers: Vec<Writer>,
    sets: Vec<ReaderSet>,
}

impl Accesses {
    /// With number 0 for "nobody" in both lists.
    pub fn new() -> Accesses {
        let nobody = Writer { epoch: Some(Epoch { dimension: 0, time: 0 }), proxy: Proxy::Async, action: 0 };
        Accesses { writers: vec![nobody], sets: vec![ReaderSet::default()] }
    }

    /// A new writer.
    pub fn writer(&mut self, writer: Writer) -> u32 {
        self.writers.push(writer);
        (self.writers.len() - 1) as u32
    }

    /// The writer with this number.
    pub fn get(&self, writer: u32) -> &Writer {
        &self.writers[writer as usize]
    }

    /// The write has landed; whoever knows `epoch` may read it.
    pub fn landed(&mut self, writer: u32, epoch: Epoch) {
        self.writers[writer as usize].epoch = Some(epoch);
    }

    /// The readers of a set.
    pub fn readers(&self, set: u32) -> &[Reader] {
        &self.sets[set as usize].readers
    }

    /// Whether someone who knows `knowledge` may read what `writer` wrote.
    ///
    /// # Errors
    /// What stands against it.
    pub fn readable(&self, writer: u32, knowledge: &Knowledge, proxy: Proxy) -> Result<(), Conflict> {
        let writer = self.get(writer);
        match writer.epoch {
            None => Err(Conflict::InFlight(writer.action)),
            Some(epoch) if !knowledge.all.knows(epoch) => Err(Conflict::Unordered(writer.action)),
            Some(epoch)
                if proxy == Proxy::Async && writer.proxy == Proxy::Generic && !knowledge.fenced.knows(epoch) =>
            {
                Err(Conflict::Unfenced(writer.action))
            }
            Some(_) => Ok(()),
        }
    }

    /// Whether `writer` is an ordinary store of `lane`'s warp since its lanes last met.
    fn is_of_a_lane(&self, writer: u32, lane: Option<Lane>) -> bool {
        let writer = self.get(writer);
        let (Some(lane), Some(epoch), Proxy::Generic) = (lane, writer.epoch, writer.proxy) else { return false };
        epoch.dimension == lane.dimension && epoch.time > lane.met
    }

    /// The set with `reader` added: it replaces an earlier reader of its dimension.
    fn with(&mut self, set: u32, reader: Reader) -> u32 {
        let from = &self.sets[set as usize];
        let dimension = reader.epoch.dimension;
        let known = from.next.iter().position(|(next, _)| next.epoch.dimension == dimension);
        if let Some(known) = known
            && from.next[known].0 == reader
        {
            return from.next[known].1;
        }
        let mut readers = from.readers.clone();
        match readers.binary_search_by_key(&dimension, |r| r.epoch.dimension) {
            Ok(at) if readers[at].epoch.time >= reader.epoch.time => return set,
            Ok(at) => readers[at] = reader,
            Err(at) => readers.insert(at, reader),
        }
        let new = self.sets.len() as u32;
        self.sets.push(ReaderSet { readers, next: Vec::new() });
        let next = &mut self.sets[set as usize].next;
        match known {
            Some(known) => next[known] = (reader, new),
            None => next.push((reader, new)),
        }
        new
    }
}

/// Two accesses that nothing orders, or the like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Conflict {
    /// The bytes were never written.
    Uninitialised,
    /// The bytes are still on their way: action of the copy.
    InFlight(u32),
    /// Nothing orders the write before this access: action of the write.
    Unordered(u32),
    /// Another lane of the same warp wrote, and the lanes have not met since: action of the write.
    BetweenLanes(u32),
    /// The write is ordered, but no proxy fence lies between: action of the write.
    Unfenced(u32),
    /// Nothing orders an earlier read before this write: action of the read.
    MayStillRead(u32),
    /// The bytes are an mbarrier.
    Barrier,
}

#[derive(Clone, Copy, Default)]
struct Word {
    writer: u32,
    readers: u32,
    /// One bit a byte: whether it was ever written.
    written: u8,
    /// Whether an mbarrier lies here.
    barrier: bool,
    /// The lane that wrote last, of an ordinary store.
    lane: u8,
}

/// Bits of all bytes of a word.
const WHOLE_WORD: u8 = 0b1111;

/// A read of several words.
struct Reading<'a> {
    accesses: &'a mut Accesses,
    reader: Reader,
    knowledge: &'a Knowledge,
    proxy: Proxy,
    /// Who reads, if it is an ordinary load.
    lane: Option<Lane>,
    /// A writer whose words may be read.
    good_writer: u32,
    /// Whether they may be read by the lane that wrote them only.
    same_lane: bool,
    /// The set of readers of the word before: without this one, and with it.
    last_set: Option<(u32, u32)>,
}

impl<'a> Reading<'a> {
    fn new(accesses: &'a mut Accesses, reader: Reader, knowledge: &'a Knowledge, lane: Option<Lane>) -> Reading<'a> {
        let proxy = if lane.is_some() { Proxy::Generic } else { Proxy::Async };
        Reading { accesses, reader, knowledge, proxy, lane, good_writer: 0, same_lane: false, last_set: None }
    }

    /// Notes that bytes of word `index` are read: those in `cover`.
    #[inline]
    fn word(&mut self, index: usize, word: &mut Word, cover: u8) -> Result<(), (u32, Conflict)> {
        let at = || SHARED_BASE + index as u32 * 4;
        if word.barrier {
            return Err((at(), Conflict::Barrier));
        }
        if word.written & cover != cover {
            return Err((at(), Conflict::Uninitialised));
        }
        if word.writer != self.good_writer {
            let readable = self.accesses.readable(word.writer, self.knowledge, self.proxy);
            readable.map_err(|conflict| (at(), conflict))?;
            self.good_writer = word.writer;
            self.same_lane = self.accesses.is_of_a_lane(word.writer, self.lane);
        }
        if self.same_lane && self.lane.is_some_and(|lane| lane.is_not(word.lane)) {
            return Err((at(), Conflict::BetweenLanes(self.accesses.get(word.writer).action)));
        }
        word.readers = match self.last_set {
            Some((without, with)) if without == word.readers => with,
            _ => {
                let with = self.accesses.with(word.readers, self.reader);
                self.last_set = Some((word.readers, with));
                with
            }
        };
        Ok(())
    }
}

/// The shared memory of one block.
pub struct Shared {
    bytes: Vec<u8>,
    words: Vec<Word>,
    version: u64,
}

impl Shared {
    /// `bytes` bytes from [`SHARED_BASE`] on.
    pub fn new(bytes: usize) -> Shared {
        let words = bytes.div_ceil(4);
        Shared { bytes: vec![0; words * 4], words: vec![Word::default(); words], version: 0 }
    }

    /// Whether `length` bytes from shared address `address` on exist.
    pub fn contains(&self, address: u32, length: usize) -> bool {
        address >= SHARED_BASE && (address - SHARED_BASE) as usize + length <= self.bytes.len()
    }

    /// The bytes at a shared address, which must exist.
    pub fn slice(&self, address: u32, length: usize) -> &[u8] {
        let start = (address - SHARED_BASE) as usize;
        &self.bytes[start..start + length]
    }

    /// The bytes at a shared address, which must exist.
    pub fn slice_mut(&mut self, address: u32, length: usize) -> &mut [u8] {
        let start = (address - SHARED_BASE) as usize;
        &mut self.bytes[start..start + length]
    }

    /// The number of the last writer of the word at `address`.
    pub fn writer_at(&self, address: u32) -> u32 {
        self.words[(address - SHARED_BASE) as usize / 4].writer
    }

    /// Counts writes: while it stays the same, so does what [`Shared::read`] says of the same bytes to the same reader.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Marks eight bytes as an mbarrier, or as ordinary memory again.
    pub fn set_barrier(&mut self, address: u32, barrier: bool) {
        self.version += 1;
        let first = (address - SHARED_BASE) as usize / 4;
        for word in &mut self.words[first..first + 2] {
            word.barrier = barrier;
        }
    }

    fn range(address: u32, length: usize) -> (usize, usize) {
        let start = (address - SHARED_BASE) as usize;
        (start / 4, (start + length).div_ceil(4))
    }

    /// Bits of the bytes of word `word` that `[address, address + length)` covers.
    #[inline]
    fn cover(address: u32, length: usize, word: usize) -> u8 {
        let start = (address - SHARED_BASE) as usize;
        if start <= word * 4 && word * 4 + 4 <= start + length {
            return WHOLE_WORD;
        }
        let (from, to) = (start.max(word * 4) - word * 4, (start + length).min(word * 4 + 4) - word * 4);
        ((1u8 << to) - 1) & !((1u8 << from) - 1)
    }

    /// Notes reads of `length` bytes that exist at each of `places`, by someone who knows `knowledge`: by a lane, or
    /// through the async proxy.
    ///
    /// # Errors
    /// The first conflict, with the index of its place.
    pub fn read(
        &mut self,
        accesses: &mut Accesses,
        places: &[(u32, Option<Lane>)],
        length: usize,
        reader: Reader,
        knowledge: &Knowledge,
    ) -> Result<(), (usize, u32, Conflict)> {
        let Some(&(_, lane)) = places.first() else { return Ok(()) };
        let mut reading = Reading::new(accesses, reader, knowledge, lane);
        for (i, &(address, lane)) in places.iter().enumerate() {
            reading.lane = lane;
            let (first, end) = Self::range(address, length);
            for index in first..end {
                let cover = Self::cover(address, length, index);
                reading.word(index, &mut self.words[index], cover).map_err(|(at, conflict)| (i, at, conflict))?;
            }
        }
        Ok(())
    }

    /// Notes reads through the async proxy of pieces of 16 bytes at the addresses `pieces`, which are multiples of 16.
    /// Puts those who wrote them into `writers`.
    ///
    /// # Errors
    /// The first conflict.
    pub fn read_pieces(
        &mut self,
        accesses: &mut Accesses,
        pieces: &[u32],
        reader: Reader,
        knowledge: &Knowledge,
        writers: &mut Vec<u32>,
    ) -> Result<(), (u32, Conflict)> {
        let mut reading = Reading::new(accesses, reader, knowledge, None);
        for &address in pieces {
            let first = (address - SHARED_BASE) as usize / 4;
            for (i, word) in self.words[first..first + 4].iter_mut().enumerate() {
                reading.word(first + i, word, WHOLE_WORD)?;
                if writers.last() != Some(&word.writer) {
                    writers.push(word.writer);
                }
            }
        }
        writers.sort_unstable();
        writers.dedup();
        Ok(())
    }

    /// Notes writes of `length` bytes that exist at each of `places`, by someone who knows `knowledge`: by a lane, or
    /// through the async proxy.
    ///
    /// # Errors
    /// The first conflict, with the index of its place.
    pub fn write(
        &mut self,
        accesses: &Accesses,
        places: &[(u32, Option<Lane>)],
        length: usize,
        writer: u32,
        knowledge: &Knowledge,
    ) -> Result<(), (usize, u32, Conflict)> {
        self.version += 1;
        let mut good = (0, 0);
        for (i, &(address, lane)) in places.iter().enumerate() {
            let proxy = if lane.is_some() { Proxy::Generic } else { Proxy::Async };
            let (first, end) = Self::range(address, length);
            for index in first..end {
                let word = self.words[index];
                let fault = |conflict| (i, SHARED_BASE + index as u32 * 4, conflict);
                if word.barrier {
                    return Err(fault(Conflict::Barrier));
                }
                let cover = Self::cover(address, length, index);
                // Threads may write different bytes of one word at once.
                if (word.writer, word.readers) != good && (cover == WHOLE_WORD || word.written & cover != 0) {
                    accesses.readable(word.writer, knowledge, proxy).map_err(fault)?;
                    if let Some(reader) = accesses.readers(word.readers).iter().find(|r| !knowledge.all.knows(r.epoch))
                    {
                        return Err(fault(Conflict::MayStillRead(reader.action)));
                    }
                    if word.writer != writer && accesses.is_of_a_lane(word.writer, lane) {
                        if lane.is_some_and(|lane| lane.is_not(word.lane)) {
                            return Err(fault(Conflict::BetweenLanes(accesses.get(word.writer).action)));
                        }
                    } else {
                        good = (word.writer, word.readers);
                    }
                }
                let lane = if cover == WHOLE_WORD { lane.map_or(ALL_LANES, |lane| lane.lane) } else { PART_OF_A_WORD };
                self.words[index] = Word { writer, readers: 0, written: word.written | cover, barrier: false, lane };
            }
        }
        Ok(())
    }
}
