//! Kernels without faults.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use kernels::catalogue::{COMPILED, Config, Element, WARP};
use sim::gemm::{checked_gemm, explore_gemm};
use sim::{Control, Program, Schedule};

use crate::problem::{Problem, program};

/// One host thread a run: the test harness runs tests side by side.
const CONTROL: Control<'static> = Control { trace: false, progress: None, threads: 1 };

fn check(problem: &Problem, program: &Program, schedules: &[Schedule]) {
    for schedule in schedules {
        let (config, product) = (problem.config, problem.product());
        if let Err(error) = checked_gemm(program, config, &product, &problem.reference, schedule, CONTROL) {
            panic!("{} {:?}: {error}", config.entry, problem.size);
        }
    }
}

/// Calls `each` for every configuration that multiplies, on all of the host's cores.
fn every_configuration(each: impl Fn(&'static Config) + Sync) {
    // The ceiling multiplies what happens to lie in shared memory.
    let products: Vec<_> = COMPILED.iter().filter(|config| config.kernel.loads()).collect();
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(config) = products.get(next.fetch_add(1, Relaxed)) {
                    each(config);
                }
            });
        }
    });
}

/// All operands random: a tile and a bit each way, K once around the ring and a ragged tile more; small products;
/// and rows of C that can be stored 16 bytes at a time.
#[test]
fn every_configuration_is_right() {
    every_configuration(|config| {
        let program = program(config.entry);
        let Config { tile, cluster, stages, .. } = config;
        let [m, n] = [tile.m * cluster.m, tile.n * cluster.n];
        // Blocks that stay need tiles enough to use their staging buffers again.
        let tiles = if config.kernel.is_persistent() { 2 } else { 1 };
        let aligned = [tiles * m + 1, tiles * n + 8, tile.k + 8];
        for size in [[m + 2, n + 5, tile.k * (stages + 1) + 8], [7, 9, 1], [tile.m - 1, 3, tile.k + 1], aligned] {
            let mut problem = Problem::new(config.entry, size);
            // Few enough that the blocks of persistent kernels walk over several tiles.
            problem.multiprocessors = 2 * config.cluster_blocks();
            check(&problem, &program, &[Schedule::Timed, Schedule::Random(size[0] as u64)]);
        }
    });
}

/// Every configuration under every extreme schedule, on a ragged product that goes around the ring and on one whose K
/// is shorter than the ring, and under 200 random ones, most of them on the first.
///
/// Most rows of A and B are zero, which takes the simulator no time to multiply, and changes nothing about who waits
/// for whom and who reads what.
#[test]
fn no_schedule_finds_anything() {
    every_configuration(|config| {
        let program = program(config.entry);
        let Config { tile, cluster, stages, splits, kernel, .. } = config;
        let warps = config.threads() / WARP * config.cluster_blocks();
        let [rows, columns] = [tile.m * cluster.m, tile.n * cluster.n];
        // A corner of the last block's tile, which takes less time to store than all of it.
        let corner = [rows - tile.m + (tile.m / 2 + 3).min(35), columns - tile.n + (tile.n / 2 + 5).min(37)];
        let short = tile.k * stages.saturating_sub(1).max(1) - 7;
        // TMA can store rows of C only if they are multiples of eight elements.
        let whole = [rows - 5, (columns - 8).max(8), short];
        let sizes = if kernel.is_persistent() {
            // Each block walks over two tiles, of which the second may lie outside C.
            [[corner[0], columns + corner[1], tile.k * (stages / 2) + 8], [rows + whole[0], whole[1], short]]
        } else {
            // Two blocks that share K go round the ring too; more have a few tiles each, not the same number.
            let k_tiles = if *splits > 2 { splits + 1 } else { (stages + 1) * splits };
            [[corner[0], corner[1], tile.k * k_tiles + 8], whole]
        };
        for (size, seeds) in sizes.into_iter().zip([0..150, 150..200]) {
            let mut problem = Problem::sparse(config.entry, size);
            problem.multiprocessors = config.cluster_blocks();
            let mut schedules = Schedule::extremes(warps as u32);
            schedules.extend(seeds.map(Schedule::Random));
            check(&problem, &program, &schedules);
        }
    });
}

/// Tiles shared by several clusters, for every configuration that can: on a ragged product of which each cluster has
/// some K, those of f16 under every extreme schedule; on one of whole tiles; and on one of which most have no K.
#[test]
fn clusters_share_tiles() {
    every_configuration(|config| {
        if !config.kernel.takes_parts() {
            return;
        }
        let program = program(config.entry);
        let Config { tile, splits, element, .. } = config;
        let size = |k| [tile.m.saturating_sub(64) + (tile.m / 2 + 3).min(35), tile.n + tile.n.min(37), k];
        let warps = (config.threads() / WARP * config.cluster_blocks()) as u32;
        let few = [Schedule::Timed, Schedule::Random(tile.n as u64)];
        let many = if *element == Element::F16 { Schedule::extremes(warps) } else { Vec::new() };
        for (parts, k, more) in
            [(3, tile.k * (3 * splits + 1) + 8, many), (2, tile.k * 4 * splits, Vec::new()), (5, 9, Vec::new())]
        {
            let problem = Problem::sparse(config.entry, size(k)).shared(parts);
            check(&problem, &program, &[&few[..], &more].concat());
        }
    });
}

/// The same with all operands random, for a few configurations.
#[test]
fn dense_products_of_clusters_that_share_tiles() {
    for (entry, size) in [
        ("split_f16_64x32x64_s16_k1", [70, 40, 1000]),
        ("split_f16_64x64x64_s6_k4", [70, 72, 2000]),
        ("split_bf16_128x128x64_s3_k2", [130, 136, 1400]),
        ("split_f16_64x256x64_s5_k1", [70, 300, 700]),
        ("split_f16_16x64x64_s10_k2", [17, 70, 1400]),
        ("split_bf16_32x192x64_s8_k1", [40, 200, 900]),
        ("parts_f16_128x128x64_s6_c2x2", [150, 270, 1400]),
        ("parts_bf16_128x64x64_s9_c1x2", [130, 140, 1400]),
    ] {
        let program = program(entry);
        for parts in [2, 3, 5, 19] {
            let problem = Problem::new(entry, size).shared(parts);
            check(&problem, &program, &[Schedule::Timed, Schedule::Random(1), Schedule::Random(2)]);
        }
    }
}

/// A tile begins at the stage behind the one where the tile before it ended, whichever that is: of four tiles in a row,
/// with K of one stage, and up to two laps of the ring and one stage.
#[test]
fn tiles_begin_at_any_stage() {
    for entry in [
        "persistent_f16_128x256x64_s3_c1x1",
        "persistent_bf16_128x256x64_s3_c2x1",
        "persistent_f16_192x192x64_s4_c1x2",
        "pingpong_f16_128x128x64_s5_c1x1",
    ] {
        let program = program(entry);
        let Config { tile, cluster, stages, .. } = Problem::sparse(entry, [1; 3]).config;
        let [m, n] = [2 * tile.m * cluster.m - 3, 2 * tile.n * cluster.n - 8];
        for k_tiles in 1..=2 * stages + 1 {
            let mut problem = Problem::new(entry, [m, n, tile.k * k_tiles - 7]);
            problem.multiprocessors = cluster.blocks();
            check(&problem, &program, &[Schedule::Timed, Schedule::Random(k_tiles as u64)]);
        }
    }
}

/// Where K is long and a turn is of whole patches of tiles, they are taken in another order: each still once.
#[test]
fn a_long_k_is_taken_in_patches() {
    let entry = "persistent_f16_128x64x64_s6_c1x1";
    let program = program(entry);
    let tile = Problem::sparse(entry, [1; 3]).config.tile;
    // Four rows of eight tiles, for sixteen blocks and for one fewer.
    for multiprocessors in [16, 15] {
        let mut problem = Problem::sparse(entry, [4 * tile.m - 5, 8 * tile.n - 8, 8192]);
        problem.multiprocessors = multiprocessors;
        check(&problem, &program, &[Schedule::Timed]);
    }
}

/// Where the L2 cache is told to keep a band of A, loads and stores are other instructions: 512 rows of
/// 12 MiB and more, in several turns, for each kernel that does so.
#[test]
fn a_band_that_is_kept() {
    for entry in [
        "persistent_f16_128x64x64_s6_c1x1",
        "persistent_f16_128x64x64_s6_c1x2",
        "wide_f16_256x160x64_s4_c1x2",
        "pingpong_f16_128x192x64_s4_c2x1",
    ] {
        let program = program(entry);
        let Config { tile, cluster, .. } = Problem::sparse(entry, [1; 3]).config;
        let mut problem = Problem::sparse(entry, [509, 2 * tile.n - 8, 12296]);
        problem.multiprocessors = cluster.blocks();
        check(&problem, &program, &[Schedule::Timed]);
    }
}

/// Products under many schedules with all operands random, for a few configurations.
#[test]
fn dense_products_under_many_schedules() {
    for (entry, size) in [
        ("v3_f16_128x128x64_s2", [150, 140, 330]),
        ("v3_bf16_128x64x32_s7", [150, 140, 330]),
        ("v4_f16_128x128x64_s3", [150, 140, 330]),
        ("v5_bf16_128x256x64_s4", [150, 140, 330]),
        ("persistent_f16_128x128x64_s6_c2x1", [260, 264, 136]),
        ("persistent_bf16_128x128x64_s6_c1x2", [260, 264, 136]),
    ] {
        let mut problem = Problem::new(entry, size);
        problem.multiprocessors = 4;
        let mut schedules =
            Schedule::extremes((problem.config.threads() / WARP * problem.config.cluster_blocks()) as u32);
        schedules.extend((0..20).map(Schedule::Random));
        check(&problem, &program(entry), &schedules);
    }
}

#[test]
fn wide_exponents_subnormals_and_special_values() {
    for entry in ["v3_f16_128x64x64_s2", "v3_bf16_128x64x64_s2"] {
        let any: fn(u16) -> u16 = |bits| bits; // infinities and NaN among them
        let tiny = |bits| bits & 0x83ff; // subnormal halves
        let finite = |bits| bits & 0xfbff; // any finite half; bf16 of large exponents
        for element in [any, tiny, finite] {
            check(&Problem::with(entry, [40, 40, 200], element), &program(entry), &[Schedule::Timed]);
        }
    }
}

#[test]
fn tiny_grids_in_every_order_of_few_preemptions() {
    let entry = "v3_f16_128x64x16_s2";
    let problem = Problem::new(entry, [5, 6, 40]);
    let program = program(entry);
    let explored = explore_gemm(&program, problem.config, &problem.product(), &problem.reference, 3000);
    let explored = explored.unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(explored.orders, 3000);
}
