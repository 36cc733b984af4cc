//! Global memory: buffers at addresses of their own, with bounds.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Address of the first buffer. Far from zero, so that small numbers are never addresses.
const FIRST: u64 = 0x7f00_0000_0000;
/// Unmapped bytes between buffers, at least.
const GAP: u64 = 1 << 20;

/// What a kernel may do with a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Loads only.
    Read,
    /// Loads and stores.
    ReadWrite,
}

/// A buffer of [`Memory`], by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferId(usize);

#[derive(Debug)]
struct Buffer {
    name: String,
    address: u64,
    bytes: u64,
    access: Access,
    words: Box<[AtomicU32]>,
}

/// The global memory of the simulated GPU.
///
/// Blocks on different threads of the host access it at once, so words are atomic; kernels get no
/// ordering from that.
#[derive(Debug, Default)]
pub struct Memory {
    buffers: Vec<Buffer>,
}

/// Why an access to global memory is refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AccessError {
    /// It touches bytes of no buffer.
    OutOfBounds {
        /// First byte.
        address: u64,
        /// Number of bytes.
        bytes: u64,
        /// The nearest buffer, in words.
        nearest: String,
    },
    /// It stores to a read-only buffer.
    ReadOnly {
        /// First byte.
        address: u64,
        /// Name of the buffer.
        buffer: String,
    },
}

impl std::fmt::Display for AccessError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            AccessError::OutOfBounds { address, bytes, nearest } => {
                write!(f, "{bytes} bytes at global address {address:#x} are in no buffer ({nearest})")
            }
            AccessError::ReadOnly { address, buffer } => {
                write!(f, "global address {address:#x} is in buffer `{buffer}`, which is read-only")
            }
        }
    }
}

impl Memory {
    /// Memory without buffers.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A buffer with these bytes. Its address is a multiple of 256 plus `offset`, which lets tests place
    /// a base off its alignment.
    pub fn insert_at_offset(&mut self, name: &str, bytes: &[u8], access: Access, offset: u64) -> BufferId {
        let end = self.buffers.last().map_or(FIRST, |b| b.address + b.bytes + GAP);
        let address = end.next_multiple_of(256) + offset;
        let (whole, rest) = bytes.as_chunks::<4>();
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        let last = (!rest.is_empty()).then_some(&last);
        let words = whole.iter().chain(last).map(|word| AtomicU32::new(u32::from_le_bytes(*word))).collect();
        self.buffers.push(Buffer { name: name.to_string(), address, bytes: bytes.len() as u64, access, words });
        BufferId(self.buffers.len() - 1)
    }

    /// A buffer with these bytes, aligned to 256 bytes.
    pub fn insert(&mut self, name: &str, bytes: &[u8], access: Access) -> BufferId {
        self.insert_at_offset(name, bytes, access, 0)
    }

    /// Address of the first byte of a buffer.
    pub fn address(&self, id: BufferId) -> u64 {
        self.buffers[id.0].address
    }

    /// The bytes of a buffer, copied out.
    pub fn bytes(&self, id: BufferId) -> Vec<u8> {
        let buffer = &self.buffers[id.0];
        let mut out: Vec<u8> = buffer.words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
        out.truncate(buffer.bytes as usize);
        out
    }

    /// For each buffer, the number of its words of four bytes, or 0 if it cannot be written.
    pub(crate) fn writable_words(&self) -> impl Iterator<Item = usize> {
        self.buffers.iter().map(|b| if b.access == Access::ReadWrite { b.words.len() } else { 0 })
    }

    /// Number of the buffer that holds the bytes, and their offset in it.
    pub(crate) fn locate(&self, address: u64, bytes: u64) -> Option<(usize, usize)> {
        let index = self.buffers.partition_point(|b| b.address <= address).checked_sub(1)?;
        let (_, offset) = self.find(address, bytes).ok()?;
        Some((index, offset))
    }

    /// `C+32`: the buffer and the offset of an address.
    pub(crate) fn describe(&self, address: u64) -> String {
        match self.locate(address, 0) {
            Some((index, offset)) => format!("{}+{offset}", self.buffers[index].name),
            None => format!("global address {address:#x}"),
        }
    }

    /// The words of all buffers that can be written, to be put back by [`Memory::restore`].
    pub(crate) fn save(&self) -> Vec<Vec<u32>> {
        let words = |b: &Buffer| b.words.iter().map(|word| word.load(Relaxed)).collect();
        self.buffers.iter().map(|b| if b.access == Access::ReadWrite { words(b) } else { Vec::new() }).collect()
    }

    /// Puts back what [`Memory::save`] returned.
    pub(crate) fn restore(&self, saved: &[Vec<u32>]) {
        for (buffer, saved) in self.buffers.iter().zip(saved) {
            for (word, &value) in buffer.words.iter().zip(saved) {
                word.store(value, Relaxed);
            }
        }
    }

    fn find(&self, address: u64, bytes: u64) -> Result<(&Buffer, usize), AccessError> {
        let next = self.buffers.partition_point(|b| b.address <= address);
        let found = next.checked_sub(1).map(|i| &self.buffers[i]);
        if let Some(buffer) = found {
            let offset = address - buffer.address;
            if offset <= buffer.bytes && bytes <= buffer.bytes - offset {
                return Ok((buffer, offset as usize));
            }
        }
        let nearest = match found {
            Some(b) => format!("`{}` ends {} bytes before the end of the access", b.name, {
                address.saturating_add(bytes).saturating_sub(b.address + b.bytes)
            }),
            None => "it is below every buffer".to_string(),
        };
        Err(AccessError::OutOfBounds { address, bytes, nearest })
    }

    /// Whether the bytes lie in one buffer.
    pub fn contains(&self, address: u64, bytes: u64) -> bool {
        self.find(address, bytes).is_ok()
    }

    /// Copies bytes out.
    pub fn read(&self, address: u64, out: &mut [u8]) -> Result<(), AccessError> {
        let (buffer, mut offset) = self.find(address, out.len() as u64)?;
        let mut rest = out;
        while !rest.is_empty() {
            let inside = offset % 4;
            let take = (4 - inside).min(rest.len());
            let word = buffer.words[offset / 4].load(Relaxed).to_le_bytes();
            let (head, tail) = rest.split_at_mut(take);
            head.copy_from_slice(&word[inside..inside + take]);
            rest = tail;
            offset += take;
        }
        Ok(())
    }

    /// Copies bytes in.
    pub fn write(&self, address: u64, bytes: &[u8]) -> Result<(), AccessError> {
        let (buffer, mut offset) = self.find(address, bytes.len() as u64)?;
        if buffer.access == Access::Read {
            return Err(AccessError::ReadOnly { address, buffer: buffer.name.clone() });
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let inside = offset % 4;
            let take = (4 - inside).min(rest.len());
            let word = &buffer.words[offset / 4];
            if take == 4 {
                word.store(u32::from_le_bytes([rest[0], rest[1], rest[2], rest[3]]), Relaxed);
            } else {
                // Another thread may be storing to the other bytes of this word.
                let _ = word.fetch_update(Relaxed, Relaxed, |old| {
                    let mut new = old.to_le_bytes();
                    new[inside..inside + take].copy_from_slice(&rest[..take]);
                    Some(u32::from_le_bytes(new))
                });
            }
            rest = &rest[take..];
            offset += take;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_and_access_are_kept() {
        let mut memory = Memory::new();
        let a = memory.insert("a", &[1, 2, 3, 4, 5, 6, 7], Access::ReadWrite);
        let b = memory.insert_at_offset("b", &[0; 8], Access::Read, 2);
        let at = memory.address(a);
        assert_eq!(memory.address(b) % 256, 2);
        let mut out = [0; 3];
        memory.read(at + 2, &mut out).unwrap();
        assert_eq!(out, [3, 4, 5]);
        memory.write(at + 3, &[9, 9]).unwrap();
        assert_eq!(memory.bytes(a), [1, 2, 3, 9, 9, 6, 7]);
        assert!(matches!(memory.read(at + 5, &mut out), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(memory.read(0, &mut out), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(memory.read(u64::MAX, &mut out), Err(AccessError::OutOfBounds { .. })));
        assert!(matches!(memory.write(memory.address(b), &[1]), Err(AccessError::ReadOnly { .. })));
    }
}
