//! Spaces of configurations, written as the product of a few lists.

/// `product!(then! { lists } )`: calls macro `then` with every choice of one item from each list, as
/// `[[[[] first] second] third] …`, the last list varying fastest.
///
/// The choices are nested to the left because a macro can append one item to one token, but cannot
/// repeat two lists inside each other.
macro_rules! product {
    ($then:ident ! { $($list:tt)* }) => {
        $crate::space::product! { @level $then, [[]], $($list)* }
    };
    (@level $then:ident, [$($choice:tt)*],) => {
        $then! { $($choice)* }
    };
    (@level $then:ident, [$($choice:tt)*], $list:tt $($rest:tt)*) => {
        $crate::space::product! { @extend $then, [], [$($choice)*], $list, $($rest)* }
    };
    (@extend $then:ident, $done:tt, [], $list:tt, $($rest:tt)*) => {
        $crate::space::product! { @level $then, $done, $($rest)* }
    };
    (@extend $then:ident, [$($done:tt)*], [$choice:tt $($choices:tt)*], [$($item:tt)*], $($rest:tt)*) => {
        $crate::space::product! { @extend $then, [$($done)* $([$choice $item])*], [$($choices)*], [$($item)*], $($rest)* }
    };
}
pub(crate) use product;

/// `compiled! { NAME, rows, entries { lists } }`: the catalogue rows of every choice as a constant `NAME` and, on
/// the device, their entry points, from one list.
macro_rules! compiled {
    ($name:ident, $rows:ident, $entries:ident { $($list:tt)* }) => {
        const $name: &[$crate::catalogue::Config] = $crate::space::product!($rows! { $($list)* });
        #[cfg(target_arch = "nvptx64")]
        $crate::space::product!($entries! { $($list)* });
    };
}
pub(crate) use compiled;

/// The name of an entry: `v3_f16_128x128x64_s2`, with what else tells it from others behind that.
macro_rules! entry_name {
    ($kernel:literal, $element:literal, $m:literal, $n:literal, $k:literal, $stages:literal $(, $more:literal)*) => {
        concat!($kernel, "_", $element, "_", $m, "x", $n, "x", $k, "_s", $stages $(, $more)*)
    };
}
pub(crate) use entry_name;

/// A row of the catalogue for the entry named `$entry`.
macro_rules! row {
    ($entry:expr, $kernel:ident, $element:ident, [$m:literal x $n:literal x $k:literal], $stages:literal,
        [$cm:literal x $cn:literal], $splits:literal) => {
        $crate::catalogue::Config {
            entry: $entry,
            kernel: $crate::catalogue::Kernel::$kernel,
            element: $crate::catalogue::Element::$element,
            tile: $crate::catalogue::Tile { m: $m, n: $n, k: $k },
            stages: $stages,
            cluster: $crate::catalogue::Cluster { m: $cm, n: $cn },
            splits: $splits,
        }
    };
}
pub(crate) use row;

/// The entry point named `$entry`: it takes a tensor map for each `$map`, if any, then what all kernels take, then each
/// `$more`, and is `$call`, in which each `$map` is the address of its map.
#[cfg(target_arch = "nvptx64")]
macro_rules! entry {
    ($entry:expr, [$($map:ident = $index:literal),*], $out:ident, $k:ident, $band:ident
        $(, $more:ident: $type:ty)* => $call:expr) => {
        const _: () = {
            #[allow(unused_imports)]
            use $crate::ptx::param::{TensorMap, param_address};
            /// # Safety
            /// Launched as the catalogue row of its name says.
            // A map is used by its place among the parameters.
            #[allow(unused_variables)]
            #[unsafe(export_name = $entry)]
            unsafe extern "ptx-kernel" fn entry(
                $($map: TensorMap,)* c: *mut u16, m: u32, n: u32, $k: u32, ldc: u64, $band: u32,
                $($more: $type,)*
            ) {
                $(let $map = param_address!($entry, $index);)*
                let $out = $crate::epilogue::Output { c, m, n, ldc };
                // SAFETY: as promised by whoever launches.
                unsafe { $call }
            }
        };
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use entry;

/// One catalogue row for each choice of `[[kernel name] …] [[element name] …] [[m x n] …] [k …] [stages …]`.
macro_rules! rows {
    ($([[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal])*) => {
        &[$($crate::space::row!(
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages),
            $kernel, $element, [$m x $n x $k], $stages, [1 x 1], 1
        )),*]
    };
}
pub(crate) use rows;

/// One entry point for each of the same choices: it calls `device::matmul` of the file where the macro
/// stands, with the 64-row fragments of one warpgroup, N, K and the stages as constants. The file's
/// `CONSUMERS` is the number of warpgroups that share the rows of a tile.
#[cfg(target_arch = "nvptx64")]
macro_rules! entries {
    ($([[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal])*) => {
        $($crate::space::entry! {
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages),
            [a_map = 0, b_map = 1], out, k, band =>
            device::matmul::<$crate::ptx::wgmma::$element, { $m / (64 * CONSUMERS) }, $n, $k, $stages>(
                a_map, b_map, out, k, band,
            )
        })*
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use entries;

/// As [`entries`], for a kernel that reads A and B without TMA: it takes their addresses and leading dimensions, and as
/// constants the octets of rows and of columns of a tile, K and the stages.
#[cfg(target_arch = "nvptx64")]
macro_rules! direct_entries {
    ($([[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal])*) => {
        $($crate::space::entry! {
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages),
            [], out, k, band, a: *mut u16, lda: u64, b: *mut u16, ldb: u64 =>
            device::matmul::<$crate::ptx::wgmma::$element, { $m / 8 }, { $n / 8 }, $k, $stages>(
                device::Operand { first: a, ld: lda }, device::Operand { first: b, ld: ldb }, out, k, band,
            )
        })*
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use direct_entries;

/// As [`rows`], with the cluster's tiles (`[m x n] …`) as a last list: `persistent_f16_128x256x64_s4_c2x1`.
macro_rules! clustered_rows {
    ($([[[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal] [$cm:literal x $cn:literal]])*) => {
        &[$($crate::space::row!(
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages, "_c", $cm, "x", $cn),
            $kernel, $element, [$m x $n x $k], $stages, [$cm x $cn], 1
        )),*]
    };
}
pub(crate) use clustered_rows;

/// As [`entries`], for kernels that also take a tensor map of C, and as constants the warpgroups that share the rows of a
/// tile, by the catalogue, and the cluster.
#[cfg(target_arch = "nvptx64")]
macro_rules! clustered_entries {
    ($([[[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal] [$cm:literal x $cn:literal]])*) => {
        $($crate::space::entry! {
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages, "_c", $cm, "x", $cn),
            [a_map = 0, b_map = 1, c_map = 2], out, k, band =>
            device::matmul::<
                $crate::ptx::wgmma::$element,
                { $crate::catalogue::Kernel::$kernel.tile_warpgroups($m) },
                { $m / (64 * $crate::catalogue::Kernel::$kernel.tile_warpgroups($m)) },
                $n, $k, $stages, $cm, $cn,
            >(a_map, b_map, c_map, out, k, band)
        })*
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use clustered_entries;

/// As [`rows`], with the blocks that share the K of a tile (`[splits …]`) as a last list: `split_f16_64x128x64_s4_k8`.
macro_rules! split_rows {
    ($([[[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal] $splits:literal])*) => {
        &[$($crate::space::row!(
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages, "_k", $splits),
            $kernel, $element, [$m x $n x $k], $stages, [1 x 1], $splits
        )),*]
    };
}
pub(crate) use split_rows;

/// As [`entries`], with the splits and the columns that each block stores as constants, and the clusters that share
/// a tile and their workspace as parameters.
#[cfg(target_arch = "nvptx64")]
macro_rules! split_entries {
    ($([[[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal] $splits:literal])*) => {
        $($crate::space::entry! {
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages, "_k", $splits),
            [a_map = 0, b_map = 1], out, k, band, parts: u32, meetings: *mut u64, partials: *mut f32 =>
            device::matmul::<
                $crate::ptx::wgmma::$element,
                { $crate::catalogue::Tile { m: $m, n: $n, k: $k }.mma_rows() / (64 * CONSUMERS) },
                { $crate::catalogue::Tile { m: $m, n: $n, k: $k }.mma_columns() },
                { $crate::catalogue::Tile { m: $m, n: $n, k: $k }.mma_columns() / $splits },
                $k, $stages, $splits,
                { $crate::catalogue::Tile { m: $m, n: $n, k: $k }.is_swapped() },
            >(a_map, b_map, out, k, band, $crate::meeting::Parts { parts, meetings, partials })
        })*
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use split_entries;

/// As [`clustered_entries`], for a kernel that takes no map of C, but the clusters that share a tile and their workspace.
#[cfg(target_arch = "nvptx64")]
macro_rules! parted_entries {
    ($([[[[[[[] [$kernel:ident $prefix:literal]] [$element:ident $name:literal]] [$m:literal x $n:literal]]
        $k:literal] $stages:literal] [$cm:literal x $cn:literal]])*) => {
        $($crate::space::entry! {
            $crate::space::entry_name!($prefix, $name, $m, $n, $k, $stages, "_c", $cm, "x", $cn),
            [a_map = 0, b_map = 1], out, k, band, parts: u32, meetings: *mut u64, partials: *mut f32 =>
            device::matmul::<
                $crate::ptx::wgmma::$element, { $m / (64 * CONSUMERS) }, $n, $k, $stages, $cm, $cn,
            >(a_map, b_map, out, k, band, $crate::meeting::Parts { parts, meetings, partials })
        })*
    };
}
#[cfg(target_arch = "nvptx64")]
pub(crate) use parted_entries;
