//! What cuBLASLt says of an algorithm.

use std::collections::BTreeMap;

use cudarc::cublaslt::sys::{
    self, cublasLtClusterShape_t as ClusterShape, cublasLtMatmulAlgo_t,
    cublasLtMatmulAlgoConfigAttributes_t as Attribute, cublasLtMatmulStages_t as Stages, cublasLtMatmulTile_t as Tile,
};
use serde_json::Value;

/// An algorithm that cuBLASLt proposes.
#[derive(Clone, Debug)]
pub struct Algorithm {
    raw: cublasLtMatmulAlgo_t,
    workspace_bytes: usize,
    waves: f32,
}

impl Algorithm {
    pub(super) fn new(raw: cublasLtMatmulAlgo_t, workspace_bytes: usize, waves: f32) -> Algorithm {
        Algorithm { raw, workspace_bytes, waves }
    }

    pub(super) fn raw(&self) -> *const cublasLtMatmulAlgo_t {
        &self.raw
    }

    /// Its configuration: numbers as cuBLASLt has them, and names for those that have one. Tile and cluster
    /// are in cuBLAS's column-major terms, so their first figure is along our N.
    pub fn facts(&self) -> BTreeMap<&'static str, Value> {
        let mut facts = BTreeMap::new();
        let numbers = [
            ("id", Attribute::CUBLASLT_ALGO_CONFIG_ID),
            ("split_k", Attribute::CUBLASLT_ALGO_CONFIG_SPLITK_NUM),
            ("reduction_scheme", Attribute::CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME),
            ("swizzling", Attribute::CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING),
            ("custom_option", Attribute::CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION),
        ];
        for (name, attribute) in numbers {
            if let Some(value) = self.attribute::<u32>(attribute) {
                facts.insert(name, value.into());
            }
        }
        if let Some(id) = self.attribute::<u32>(Attribute::CUBLASLT_ALGO_CONFIG_TILE_ID) {
            facts.insert("tile", named(id, tile(id)));
        }
        if let Some(id) = self.attribute::<u32>(Attribute::CUBLASLT_ALGO_CONFIG_STAGES_ID) {
            facts.insert("stages", named(id, stages(id)));
        }
        if let Some(id) = self.attribute::<u16>(Attribute::CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID) {
            facts.insert("cluster", named(id.into(), cluster(id.into())));
        }
        facts.insert("workspace_bytes", self.workspace_bytes.into());
        facts.insert("waves", self.waves.into());
        facts
    }

    /// An attribute of type `T`; `None` when the library does not have it.
    fn attribute<T: Default>(&self, attribute: Attribute) -> Option<T> {
        let (mut value, mut written) = (T::default(), 0);
        // SAFETY: the algorithm is one that the library filled in; the call writes at most the size it is
        // told, and `T` is an integer, for which any bytes will do.
        let status = unsafe {
            sys::cublasLtMatmulAlgoConfigGetAttribute(
                &self.raw,
                attribute,
                std::ptr::from_mut(&mut value).cast(),
                size_of::<T>(),
                &mut written,
            )
        };
        (status == sys::cublasStatus_t::CUBLAS_STATUS_SUCCESS && written == size_of::<T>()).then_some(value)
    }
}

/// The name, or else the number.
fn named(id: u32, name: Option<String>) -> Value {
    name.map_or(Value::from(id), Value::from)
}

/// What follows `prefix` in the name of a variant.
fn suffix(variant: impl std::fmt::Debug, prefix: &str) -> Option<String> {
    format!("{variant:?}").strip_prefix(prefix).map(str::to_string)
}

fn tile(id: u32) -> Option<String> {
    if id >= Tile::CUBLASLT_MATMUL_TILE_END as u32 {
        return None;
    }
    // SAFETY: the variants are numbered from 0 to END without a gap.
    suffix(unsafe { std::mem::transmute::<u32, Tile>(id) }, "CUBLASLT_MATMUL_TILE_")
}

fn stages(id: u32) -> Option<String> {
    if id >= Stages::CUBLASLT_MATMUL_STAGES_END as u32 || matches!(id, 29 | 30) {
        return None;
    }
    // SAFETY: the variants are numbered from 0 to END, with a gap at 29 and 30.
    suffix(unsafe { std::mem::transmute::<u32, Stages>(id) }, "CUBLASLT_MATMUL_STAGES_")
}

fn cluster(id: u32) -> Option<String> {
    if id >= ClusterShape::CUBLASLT_CLUSTER_SHAPE_END as u32 || id == 1 {
        return None;
    }
    // SAFETY: the variants are numbered from 0 to END, with a gap at 1.
    suffix(unsafe { std::mem::transmute::<u32, ClusterShape>(id) }, "CUBLASLT_CLUSTER_SHAPE_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_in_range_has_a_name() {
        assert_eq!(tile(23).unwrap(), "128x256");
        assert_eq!(tile(248).unwrap(), "320x128");
        assert_eq!(stages(15).unwrap(), "64x3");
        assert_eq!(cluster(3).unwrap(), "2x1x1");
        // Each of these would be undefined behaviour, and seen by Miri or as a garbled name, if a number had
        // no variant.
        for id in 0..Tile::CUBLASLT_MATMUL_TILE_END as u32 {
            assert!(tile(id).is_some(), "{id}");
        }
        for id in (0..Stages::CUBLASLT_MATMUL_STAGES_END as u32).filter(|id| !matches!(id, 29 | 30)) {
            assert!(stages(id).is_some(), "{id}");
        }
        for id in (0..ClusterShape::CUBLASLT_CLUSTER_SHAPE_END as u32).filter(|&id| id != 1) {
            assert!(cluster(id).is_some(), "{id}");
        }
        assert_eq!((tile(5000), stages(29), stages(5000), cluster(1), cluster(5000)), (None, None, None, None, None));
    }
}
