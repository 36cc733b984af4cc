//! Tensor maps: what `cuTensorMapEncodeTiled` takes, with the rules that it checks.

use kernels::catalogue::{SHARED_LIMIT, Swizzle};

/// A tiled tensor in global memory, and the box that one copy moves.
///
/// Lists run from the innermost, contiguous dimension outward.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TensorMap {
    /// Address of the first element.
    pub address: u64,
    /// Bytes of one element.
    pub element_bytes: u32,
    /// Extent of each dimension, in elements.
    pub extents: Vec<u64>,
    /// Bytes from one index to the next, for each dimension but the innermost.
    pub strides: Vec<u64>,
    /// Extent of the box in each dimension, in elements.
    pub box_extents: Vec<u32>,
    /// How the box is permuted in shared memory.
    pub swizzle: Swizzle,
}

impl TensorMap {
    /// A row-major matrix of `rows` × `columns` elements with `leading` elements from row to row, copied
    /// in boxes of `box_columns` × `box_rows` elements.
    pub fn matrix(
        address: u64,
        element_bytes: u32,
        [rows, columns, leading]: [u64; 3],
        [box_columns, box_rows]: [u32; 2],
        swizzle: Swizzle,
    ) -> TensorMap {
        TensorMap {
            address,
            element_bytes,
            extents: vec![columns, rows],
            strides: vec![leading * u64::from(element_bytes)],
            box_extents: vec![box_columns, box_rows],
            swizzle,
        }
    }

    /// Bytes that one copy moves and its barrier counts, whatever lies outside the tensor.
    pub fn box_bytes(&self) -> u64 {
        self.box_extents.iter().map(|&e| u64::from(e)).product::<u64>() * u64::from(self.element_bytes)
    }

    /// Bytes of one row of the box.
    pub fn row_bytes(&self) -> u64 {
        u64::from(self.box_extents[0]) * u64::from(self.element_bytes)
    }

    /// Checks the rules of `cuTensorMapEncodeTiled` (CUDA driver API, "Tensor Map Object Management").
    ///
    /// # Errors
    /// The first rule that is broken, with its value.
    pub fn check(&self) -> Result<(), String> {
        let rank = self.extents.len();
        if !(1..=5).contains(&rank) || self.box_extents.len() != rank || self.strides.len() + 1 != rank {
            return Err(format!("a map of rank {rank} needs as many box extents and one stride fewer; rank 1 to 5"));
        }
        if !matches!(self.element_bytes, 1 | 2 | 4 | 8) {
            return Err(format!("elements of {} bytes: must be 1, 2, 4 or 8", self.element_bytes));
        }
        if !self.address.is_multiple_of(16) {
            return Err(format!("base address {:#x} is not a multiple of 16", self.address));
        }
        for (i, &extent) in self.extents.iter().enumerate() {
            if extent == 0 || extent > 1 << 32 {
                return Err(format!("extent {extent} of dimension {i} is not in 1 to 2^32"));
            }
        }
        for (i, &stride) in self.strides.iter().enumerate() {
            if !stride.is_multiple_of(16) || stride >= 1 << 40 {
                return Err(format!("stride {stride} of dimension {} is not a multiple of 16 below 2^40", i + 1));
            }
        }
        for (i, &extent) in self.box_extents.iter().enumerate() {
            if !(1..=256).contains(&extent) {
                return Err(format!("box extent {extent} of dimension {i} is not in 1 to 256"));
            }
        }
        if self.box_bytes() > SHARED_LIMIT as u64 {
            return Err(format!("a box of {} bytes does not fit in shared memory", self.box_bytes()));
        }
        let row = self.row_bytes();
        if !row.is_multiple_of(16) {
            return Err(format!("a box row of {row} bytes is not a multiple of 16"));
        }
        if self.swizzle != Swizzle::None && row > self.swizzle.span() as u64 {
            return Err(format!("a box row of {row} bytes is above the span of its {:?} swizzle", self.swizzle));
        }
        Ok(())
    }

    /// Calls `visit` for each row of the box at `coordinates`: the row's offset in the box in bytes, the
    /// global address of its first element inside the tensor, how many bytes of the row lie before that
    /// element, and how many bytes lie inside. Rows outside have no bytes inside.
    pub(crate) fn rows(&self, coordinates: &[i32], mut visit: impl FnMut(u64, u64, u64, u64)) {
        let rank = self.extents.len();
        let element = i64::from(self.element_bytes);
        let first = i64::from(coordinates[0]);
        let width = i64::from(self.box_extents[0]);
        // Part of the row that lies inside the tensor, in elements from the row's start.
        let skip = (-first).clamp(0, width);
        let end = (self.extents[0] as i64 - first).clamp(skip, width);
        let row_bytes = self.row_bytes();
        let mut index = vec![0u32; rank];
        let rows: u64 = self.box_extents[1..].iter().map(|&e| u64::from(e)).product();
        for row in 0..rows {
            let mut address = self.address as i64 + (first + skip) * element;
            let mut inside = true;
            for d in 1..rank {
                let at = i64::from(coordinates[d]) + i64::from(index[d]);
                inside &= (0..self.extents[d] as i64).contains(&at);
                address = address.wrapping_add(at.wrapping_mul(self.strides[d - 1] as i64));
            }
            let bytes = if inside { (end - skip) * element } else { 0 };
            visit(row * row_bytes, address as u64, (skip * element) as u64, bytes as u64);
            for (at, &extent) in index.iter_mut().zip(&self.box_extents).skip(1) {
                *at += 1;
                if *at < extent {
                    break;
                }
                *at = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map() -> TensorMap {
        TensorMap::matrix(0x1000, 2, [10, 20, 24], [8, 4], Swizzle::None)
    }

    #[test]
    fn rows_are_clipped_on_every_side() {
        let collect = |x, y| {
            let mut out = Vec::new();
            map().rows(&[x, y], |offset, address, skip, bytes| out.push((offset, address, skip, bytes)));
            out
        };
        assert_eq!(collect(0, 0)[1], (16, 0x1000 + 48, 0, 16));
        assert_eq!(collect(16, 8)[0], (0, 0x1000 + 8 * 48 + 32, 0, 8));
        assert_eq!(collect(16, 8)[2].3, 0, "row 10 is outside");
        assert_eq!(collect(-3, 0)[0], (0, 0x1000, 6, 10));
        assert!(collect(20, 0).iter().all(|row| row.3 == 0));
        assert!(collect(-8, -4).iter().all(|row| row.3 == 0));
    }

    #[test]
    fn rules_are_checked() {
        assert_eq!(map().check(), Ok(()));
        let broken = |change: fn(&mut TensorMap)| {
            let mut map = map();
            change(&mut map);
            map.check().unwrap_err()
        };
        assert!(broken(|m| m.address = 0x1008).contains("base address"));
        assert!(broken(|m| m.strides[0] = 50).contains("stride 50"));
        assert!(broken(|m| m.extents[1] = 0).contains("extent 0"));
        assert!(broken(|m| m.box_extents[1] = 257).contains("257"));
        assert!(broken(|m| m.box_extents[0] = 4).contains("row of 8 bytes"));
        assert!(broken(|m| (m.box_extents[0], m.swizzle) = (32, Swizzle::B32)).contains("swizzle"));
        assert!(broken(|m| m.strides.clear()).contains("rank 2"));
    }
}
