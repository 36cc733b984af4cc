//! Kernels without faults.

use kernels::catalogue::{COMPILED, Config};
use sim::gemm::{checked_gemm, explore_gemm};
use sim::{Control, Schedule};

use crate::problem::{Problem, program};

/// One host thread a run: the test harness runs tests side by side.
const CONTROL: Control<'static> = Control { trace: false, progress: None, threads: 1 };

fn check(entry: &str, size: [usize; 3], schedules: &[Schedule]) {
    let mut problem = Problem::new(entry, size);
    // Few enough that the blocks of persistent kernels walk over several tiles.
    problem.multiprocessors = 2 * problem.config.cluster.blocks();
    check_problem(&problem, schedules);
}

fn check_problem(problem: &Problem, schedules: &[Schedule]) {
    let config = problem.config;
    let program = program(config.entry);
    for schedule in schedules {
        if let Err(error) = checked_gemm(&program, config, &problem.product(), &problem.reference, schedule, CONTROL) {
            panic!("{} {:?}: {error}", config.entry, problem.size);
        }
    }
}

fn random(seeds: std::ops::Range<u64>) -> Vec<Schedule> {
    seeds.map(Schedule::Random).collect()
}

fn extremes(config: &Config) -> Vec<Schedule> {
    Schedule::extremes((config.threads() / 32 * config.cluster.blocks()) as u32)
}

/// A product one tile and a bit in each direction, with more K tiles than stages and a ragged last one.
fn ragged(config: &Config) -> [usize; 3] {
    let Config { tile, cluster, stages, .. } = config;
    [tile.m * cluster.m + 2, tile.n * cluster.n + 5, tile.k * (stages + 1) + 8]
}

/// Rows of the catalogue, of which test `part` of `parts` takes its share.
fn share(part: usize, parts: usize) -> impl Iterator<Item = &'static Config> {
    // The ceiling multiplies what happens to lie in shared memory.
    let products = COMPILED.iter().filter(|config| config.kernel.loads());
    products.enumerate().filter(move |(i, _)| i % parts == part).map(|(_, config)| config)
}

/// Every compiled configuration: ragged shapes, K shorter than the ring, under a few schedules of each kind.
fn every_configuration(part: usize, parts: usize) {
    for (i, config) in share(part, parts).enumerate() {
        check(config.entry, ragged(config), &[Schedule::Timed, Schedule::Random(i as u64)]);
        let mut few = extremes(config);
        few.rotate_left(i % 7);
        few.truncate(3);
        check(config.entry, [7, 9, 1], &few);
        check(config.entry, [config.tile.m - 1, 3, config.tile.k + 1], &few);
        if config.kernel.stores_by_tma() {
            // Rows of C that TMA can write, and tiles enough to reuse the staging buffers.
            let [m, n] = [2 * config.tile.m * config.cluster.m + 1, 2 * config.tile.n * config.cluster.n + 8];
            check(config.entry, [m, n, config.tile.k + 8], &[Schedule::Timed, Schedule::Random(i as u64)]);
        }
    }
}

#[test]
fn every_configuration_is_right_1() {
    every_configuration(0, 2);
}

#[test]
fn every_configuration_is_right_2() {
    every_configuration(1, 2);
}

/// One configuration of each kernel, type and stage count under all extreme and 200 random schedules.
#[test]
fn many_schedules_find_nothing() {
    for config in COMPILED.iter().filter(|config| config.tile.k == 16 && config.tile.n == 64) {
        let size = [config.tile.m / 2 + 1, 70, 16 * config.stages + 9];
        check(config.entry, size, &extremes(config));
        check(config.entry, size, &random(0..200));
    }
}

#[test]
fn larger_stages_under_many_schedules() {
    for entry in ["v3_f16_128x128x64_s2", "v3_bf16_128x64x32_s7", "v4_f16_128x128x64_s3", "v5_bf16_128x256x64_s4"] {
        let problem = Problem::new(entry, [150, 140, 330]);
        check_problem(&problem, &extremes(problem.config));
        check_problem(&problem, &random(0..20));
    }
}

#[test]
fn clusters_under_many_schedules() {
    for entry in ["persistent_f16_128x128x64_s4_c2x1", "persistent_bf16_128x128x64_s4_c1x2"] {
        let mut problem = Problem::new(entry, [260, 264, 72]);
        problem.multiprocessors = 4;
        check_problem(&problem, &extremes(problem.config));
        check_problem(&problem, &random(0..50));
    }
}

#[test]
fn wide_exponents_subnormals_and_special_values() {
    for entry in ["v3_f16_128x64x64_s2", "v3_bf16_128x64x64_s2"] {
        // Any bits at all, infinities and NaN among them.
        check_problem(&Problem::with(entry, [40, 40, 200], |bits| bits), &[Schedule::Timed]);
        // Subnormal halves; tiny bf16.
        check_problem(&Problem::with(entry, [40, 40, 200], |bits| bits & 0x83ff), &[Schedule::Timed]);
        // Any finite half; bf16 of large exponents.
        check_problem(&Problem::with(entry, [40, 40, 200], |bits| bits & 0xfbff), &[Schedule::Timed]);
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
