//! Thread block clusters (PTX ISA, "Cluster of Cooperative Thread Arrays").

use core::arch::asm;

/// `%cluster_ctarank`: index of the block in its cluster.
#[inline(always)]
pub fn rank() -> u32 {
    let rank: u32;
    // SAFETY: reads a special register that is constant for the life of the thread.
    unsafe { asm!("mov.u32 {0}, %cluster_ctarank;", out(reg32) rank, options(pure, nomem, nostack)) }
    rank
}

/// `barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;` — waits until every thread of every
/// block of the cluster has arrived; orders their memory accesses (PTX ISA, "barrier.cluster").
///
/// # Safety
/// All threads of the cluster that have not exited execute it, each warp converged.
#[inline(always)]
pub unsafe fn sync() {
    // SAFETY: the caller promises that the whole cluster arrives.
    unsafe {
        asm!("barrier.cluster.arrive.aligned;", options(nostack));
        asm!("barrier.cluster.wait.aligned;", options(nostack));
    }
}

/// `mapa.shared::cluster.u32 r, address, rank;` — the address, in the cluster's shared window, of what lies
/// at shared address `address` in block `rank` (PTX ISA, "mapa").
#[inline(always)]
pub fn map_shared(address: u32, rank: u32) -> u32 {
    let mapped: u32;
    // SAFETY: computes an address; touches no memory.
    unsafe {
        asm!("mapa.shared::cluster.u32 {0}, {1}, {2};", out(reg32) mapped, in(reg32) address, in(reg32) rank,
            options(pure, nomem, nostack));
    }
    mapped
}

/// `ld.shared::cluster.v4.f32 {r0, r1, r2, r3}, [address];` — 16 bytes of the shared memory of a block of the
/// cluster, at an address from [`map_shared`].
///
/// # Safety
/// `address` is a multiple of 16, the bytes have been written and are visible to this thread, and the block that
/// has them has not exited.
#[inline(always)]
pub unsafe fn load_x4(address: u32) -> [f32; 4] {
    let (r0, r1, r2, r3): (f32, f32, f32, f32);
    // SAFETY: as promised by the caller.
    unsafe {
        asm!("ld.shared::cluster.v4.f32 {{{0}, {1}, {2}, {3}}}, [{4}];",
            out(reg32) r0, out(reg32) r1, out(reg32) r2, out(reg32) r3, in(reg32) address, options(nostack));
    }
    [r0, r1, r2, r3]
}
