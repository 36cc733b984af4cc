//! Who last wrote each word of global memory, and what travels between clusters through it.
//!
//! Ordinary accesses to the same bytes, of which one writes, must be ordered: by what the threads of a cluster
//! know of each other ([`crate::clock`]), and between clusters by releasing and acquiring operations on words of
//! global memory. Earlier reads are not noted, so a write that comes too soon after a read is not found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

use crate::clock::{Clocks, Epoch};
use crate::launch::Options;
use crate::memory::Memory;
use crate::warp::lanes;

/// A write to global memory, or an atomic operation on it.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    /// Cluster of the grid.
    pub cluster: u64,
    /// What an observer of that cluster must know.
    pub epoch: Epoch,
    /// Whether it is one that may meet others of its kind.
    pub atomic: bool,
    /// Block of the grid.
    pub ctaid: [u32; 3],
    /// Warp of the block.
    pub warp: usize,
    /// Lanes of the warp.
    pub mask: u32,
    /// The instruction.
    pub pc: u32,
}

impl Write {
    /// Who: `block (0,0,0), warp 4, lane 0`.
    pub fn who(&self, options: &Options) -> String {
        let [x, y, z] = self.ctaid;
        format!("block ({x},{y},{z}), {}, {}", options.warp(self.warp), lanes(self.mask))
    }
}

/// Bits of an entry below the number of the write: one for each byte of the word.
const BYTES: u32 = 4;
/// Numbers that fit above them. Later writes are not noted.
const MOST_WRITES: usize = 1 << (32 - BYTES);

/// What a run notes about global memory.
#[derive(Default)]
pub struct Global {
    /// For each buffer that can be written, for each of its words: the number of the last write, and the bytes
    /// that it wrote. Zero for none.
    last: Vec<Box<[AtomicU32]>>,
    /// Writes by number; the first stands for none.
    writes: Mutex<Vec<Write>>,
    /// What releasing operations have passed on, by address.
    words: Mutex<BTreeMap<u64, Clocks>>,
    /// Whether two clusters were found to be in conflict. Which of them finds it depends on the host's threads.
    pub clusters_conflict: AtomicBool,
}

impl Global {
    /// For a run over `memory`.
    pub fn new(memory: &Memory) -> Global {
        let last = memory.writable_words().map(|words| (0..words).map(|_| AtomicU32::new(0)).collect());
        let nobody = Write {
            cluster: 0,
            epoch: Epoch { dimension: 0, time: 0 },
            atomic: true,
            ctaid: [0; 3],
            warp: 0,
            mask: 0,
            pc: 0,
        };
        Global { last: last.collect(), writes: Mutex::new(vec![nobody]), ..Global::default() }
    }

    /// The number of a write that is about to happen.
    pub fn number(&self, write: Write) -> u32 {
        let mut writes = self.writes.lock().unwrap_or_else(PoisonError::into_inner);
        if writes.len() == MOST_WRITES {
            return 0;
        }
        writes.push(write);
        (writes.len() - 1) as u32
    }

    /// The write with this number.
    pub fn write(&self, number: u32) -> Write {
        self.writes.lock().unwrap_or_else(PoisonError::into_inner)[number as usize]
    }

    /// Notes that write `number` wrote `length` bytes at `offset` of buffer `buffer`. Returns the numbers of those
    /// that wrote any of them before.
    pub fn note(&self, buffer: usize, offset: usize, length: usize, number: u32) -> Vec<u32> {
        self.each(buffer, offset, length, |word, mask| {
            let before = word.load(Relaxed);
            let own = if before >> BYTES == number { before } else { 0 };
            word.swap(number << BYTES | own | mask, Relaxed)
        })
    }

    /// The numbers of those that wrote any of `length` bytes at `offset` of buffer `buffer`.
    pub fn writers(&self, buffer: usize, offset: usize, length: usize) -> Vec<u32> {
        self.each(buffer, offset, length, |word, _| word.load(Relaxed))
    }

    /// Calls `visit` for each word with the mask of the bytes meant; collects the numbers of the entries that it
    /// returns which wrote such bytes.
    fn each(&self, buffer: usize, offset: usize, length: usize, visit: impl Fn(&AtomicU32, u32) -> u32) -> Vec<u32> {
        let mut found = Vec::new();
        let Some(words) = self.last.get(buffer).filter(|words| !words.is_empty()) else { return found };
        for index in offset / BYTES as usize..(offset + length).div_ceil(BYTES as usize) {
            let start = index * BYTES as usize;
            let (from, to) = (offset.max(start) - start, (offset + length).min(start + BYTES as usize) - start);
            let mask = (1 << to) - (1 << from);
            let entry = visit(&words[index], mask);
            if entry & mask != 0 && entry >> BYTES != 0 && found.last() != Some(&(entry >> BYTES)) {
                found.push(entry >> BYTES);
            }
        }
        found
    }

    /// Passes `clocks` on to those who acquire the word at `address`.
    pub fn release(&self, address: u64, clocks: &Clocks) {
        let mut words = self.words.lock().unwrap_or_else(PoisonError::into_inner);
        words.entry(address).or_default().join(clocks);
    }

    /// What was passed on at `address`.
    pub fn acquire(&self, address: u64) -> Option<Clocks> {
        self.words.lock().unwrap_or_else(PoisonError::into_inner).get(&address).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Access;

    #[test]
    fn bytes_are_told_apart() {
        let mut memory = Memory::new();
        memory.insert("a", &[0; 10], Access::Read);
        memory.insert("b", &[0; 10], Access::ReadWrite);
        let global = Global::new(&memory);
        let write = global.write(0);
        let (first, second) = (global.number(write), global.number(write));
        assert_eq!(global.note(1, 1, 5, first), []);
        assert_eq!(global.note(1, 6, 4, second), []);
        assert_eq!(global.writers(1, 0, 1), []);
        assert_eq!(global.writers(1, 4, 2), [], "another wrote to the word since");
        assert_eq!(global.writers(1, 2, 8), [first, second]);
        assert_eq!(global.note(1, 0, 2, second), [first]);
        assert_eq!(global.note(0, 0, 4, first), [], "what is read only is not noted");
    }
}
