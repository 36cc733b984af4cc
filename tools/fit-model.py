#!/usr/bin/env python3
"""Fits the constants of the cost model (host/src/model.rs) to measurements.

    python tools/fit-model.py [benches/results/h200-f16-configurations.json]

Needs numpy and scipy. Prints the constants as host/src/model.rs holds them, how well they choose, and how well
constants choose that were fitted without the shapes that they are judged by. The formulas are those of
`host/src/model.rs`, which explains them: whoever changes one changes the other.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares, minimize

DATA = Path(__file__).parents[1] / "benches/results/h200-f16-configurations.json"
ENTRY = re.compile(
    r"(gemv|split|parts|persistent|wide|pingpong)_f16_(\d+)x(\d+)x(\d+)_s(\d+)(?:_c(\d)x(\d))?(?:_k(\d))?(?:/(\d+))?@(\d+)"
)

# Kernels that differ in more than their numbers.
KERNELS = ["gemv", "split", "parts", "wide", "pingpong"]

# Not fitted: of the device, of the kernels' shared memory, and estimates of how clusters meet.
CLOCK = 1755.0  # MHz
CLUSTERS_AT_ONCE = {1: 132, 2: 66, 4: 30, 8: 14}
SHARED_PER_MULTIPROCESSOR = 228 * 1024
LOADS = 16  # of partial sums, together
TOGETHER = 8  # rows and columns of tiles
SIDE_BY_SIDE = 4  # the same
PARTIALS = 0.9  # microseconds for so many
PARTIALS_ALL = 7.0  # terabytes a second
L2_BYTES = 60 * 1024 * 1024

# Name, first guess, lower and upper bound. Microseconds unless said otherwise.
PARAMETERS = [
    ("LAUNCH", 0.5, 0.2, 4.0),
    ("FILL", 1.3, 0.0, 4.0),
    ("NARROW", 0.05, 0.0, 1.0),  # share of an MMA's time
    ("L2", 110.0, 20.0, 250.0),  # bytes a clock and multiprocessor
    ("SHORT_RING", 0.1, 0.0, 0.6),  # share of the L2's time and of the latency
    ("STRADDLING", 2.5, 0.0, 8.0),  # clocks a row
    ("STRADDLING_LATENCY", 0.1, 0.0, 1.0),  # share of the latency
    ("SHARPNESS", 1.35, 1.1, 8.0),  # exponent
    ("LATENCY", 0.6, 0.1, 20.0),
    ("LATENCY_LOADED", 0.8, 0.4, 6.0),
    ("DRAM", 3.9, 3.0, 4.4),  # terabytes a second
    ("OUTSIDE", 0.3, 0.0, 2.0),  # share of DRAM's time
    ("SCATTER", 0.03, 0.0, 0.2),  # share of the time for C, a doubling of the band
    ("EPILOGUE", 1.9, 0.0, 5.0),  # for 128x256
    ("SLAB", 0.4, 0.0, 2.0),  # share of the epilogue
    ("EXPOSED", 0.6, 0.0, 1.0),  # share of the epilogue
    ("REDUCTION", 2.6, 0.0, 5.0),
    ("CLUSTER", 0.6, 0.0, 2.0),
    ("GEMV_START", 1.1, 0.0, 3.0),
    ("GEMV_ROUND", 0.8, 0.6, 3.0),
    ("GEMV_FEW_WARPS", 0.2, 0.1, 1.0),  # share of a round
    ("GLOBAL_MEETING", 2.5, 0.0, 10.0),
]
NAMES = [name for name, *_ in PARAMETERS]


def read(path):
    """The measurements, a column each, and the index of the shape of each row."""
    shapes = json.loads(Path(path).read_text())["shapes"]
    rows = []
    for index, shape in enumerate(shapes):
        for name, us in shape["microseconds"].items():
            kernel, tile_m, tile_n, tile_k, stages, cluster_m, cluster_n, splits, parts, band = ENTRY.fullmatch(name).groups()
            numbers = [tile_m, tile_n, tile_k, stages, cluster_m or 1, cluster_n or 1, splits or 1, parts or 1, band]
            rows.append([index, shape["m"], shape["n"], shape["k"], us, *(kernel == name for name in KERNELS), *map(float, numbers)])
    columns = "shape m n k us gemv split parts_kernel wide pingpong tile_m tile_n tile_k stages cluster_m cluster_n splits parts band".split()
    return shapes, dict(zip(columns, np.array(rows, float).T))


def mma(r):
    """`Tile::mma_rows` and `Tile::mma_columns`."""
    swapped = r["tile_m"] < 64
    return np.where(swapped, r["tile_n"], r["tile_m"]), np.where(swapped, r["tile_m"], r["tile_n"])


def slab_columns(stored):
    conditions = [stored % 64 == 0, stored % 32 == 0, stored >= 200, stored > 128]
    return np.select(conditions, [64, 32, stored, stored // 2], 16)


def resident_blocks(r):
    """`Config::min_blocks`."""
    slab = slab_columns(mma(r)[1] // r["splits"])
    exchange = np.where(r["splits"] > 1, r["tile_m"] * r["tile_n"] * 4, 0)
    stages = r["stages"] * (r["tile_m"] + r["tile_n"]) * 128
    shared = np.maximum(stages, exchange + 2 * 64 * slab * 2) + 16 * r["stages"]
    blocks = np.clip(SHARED_PER_MULTIPROCESSOR // (shared + 1024), 1, 3)
    registers = r["tile_m"] * r["tile_n"] / 128 + 26
    for count in (3, 2):
        budget = np.minimum(255, 512 // np.ceil(count * 5 / 4) // 8 * 8)
        blocks = np.where((blocks == count) & (registers > budget), count - 1, blocks)
    return np.where(r["split"] == 1, blocks, 1)


def predict(values, r):
    """Microseconds for each row: `Prediction::of` in host/src/model.rs."""
    p = dict(zip(NAMES, values))
    split, parts_kernel = r["split"] == 1, r["parts_kernel"] == 1
    ceil = lambda a, b: np.ceil(a / b)
    blocks = r["cluster_m"] * r["cluster_n"] * r["splits"]
    at_once = np.select([blocks == size for size in CLUSTERS_AT_ONCE], list(CLUSTERS_AT_ONCE.values()))
    tiles = ceil(r["m"], r["tile_m"] * r["cluster_m"]) * ceil(r["n"], r["tile_n"] * r["cluster_n"])
    turns = ceil(tiles * r["parts"], at_once)
    steps = ceil(ceil(r["k"], 64), r["splits"] * r["parts"])
    resident = resident_blocks(r)

    mma_rows, mma_columns = mma(r)
    width = np.maximum(mma_columns, 64)
    tensor = mma_rows / 64 * 4 * width / 2 * (1 + p["NARROW"] * (256 / width - 1)) / CLOCK
    share_straddling = 1 - np.gcd(ceil(r["k"], 8).astype(int) * 16, 128) / 128
    rows, columns = ceil(r["m"], r["tile_m"] * r["cluster_m"]), ceil(r["n"], r["tile_n"] * r["cluster_n"])
    together = (np.minimum(rows, columns) >= TOGETHER) & (turns > 1)
    merged = np.where((r["stages"] <= 3) & (share_straddling == 0) & together, 1 - p["SHORT_RING"], 1)
    whole = (r["tile_m"] + r["tile_n"]) * 128
    own_rows = r["tile_m"] / r["cluster_n"] + r["tile_n"] / r["cluster_m"]
    b_bytes = r["n"] * r["k"] * 2
    side_by_side = lambda tiles: np.sqrt(np.minimum(tiles, SIDE_BY_SIDE))
    merging = (r["tile_m"] / side_by_side(columns) + r["tile_n"] / side_by_side(rows)) * 128
    loaded = np.select([parts_kernel & (blocks == 1) & (r["parts"] > 1), parts_kernel], [merging, own_rows * 128], whole)
    l2 = merged * loaded / p["L2"] / CLOCK
    straddling = own_rows * share_straddling * p["STRADDLING"] / CLOCK
    busy = sum(time ** p["SHARPNESS"] for time in (tensor, l2, straddling)) ** (1 / p["SHARPNESS"])

    band = np.minimum(r["band"], rows)
    passes = np.where(b_bytes > L2_BYTES / 2, ceil(rows, band), 1)
    c_bytes = r["m"] * r["n"] * 2 * (1 + p["SCATTER"] * np.log2(band))
    outside = np.maximum(r["tile_m"] - r["m"], 0) + np.maximum(r["tile_n"] - r["n"], 0)
    zeros = 1 + p["OUTSIDE"] * outside / (r["tile_m"] + r["tile_n"])
    dram = zeros * (r["m"] * r["k"] * 2 + passes * b_bytes + c_bytes) / (p["DRAM"] * 1e6)
    load = dram / (dram + turns * steps * busy)
    in_flight = (r["stages"] - 1) * np.minimum(turns, resident)
    step = np.maximum(busy, merged * (1 + share_straddling * p["STRADDLING_LATENCY"]) * (p["LATENCY"] + p["LATENCY_LOADED"] * load) / in_flight)

    slab = np.minimum(slab_columns(mma_columns // r["splits"]), 64)
    tile = p["EPILOGUE"] * r["tile_m"] * r["tile_n"] / (128 * 256) * (1 + p["SLAB"] * (64 / slab - 1))
    fill = p["FILL"] * np.where(split | parts_kernel, ceil(turns, resident), 1)
    exposed = np.select([r["wide"] == 1, r["pingpong"] == 1], [1, 0], p["EXPOSED"])
    epilogue = tile * np.where(split | parts_kernel, turns / r["splits"], 1 + exposed * (turns - 1))
    meet = np.where(split, p["REDUCTION"] * np.log2(r["splits"]), p["CLUSTER"] * np.log2(blocks))
    partials = r["parts"] * r["tile_m"] * r["tile_n"] * 4
    octets = mma_rows // 64 // np.where(parts_kernel, 2, 1) * mma_columns // r["splits"] // 8
    sharers = np.minimum(np.minimum(r["parts"], octets), 32)
    share = ceil(ceil(octets, sharers) * r["parts"], LOADS) * PARTIALS
    everyone = 2 * tiles * r["cluster_m"] * r["cluster_n"] * partials / (PARTIALS_ALL * 1e6)
    meet += np.where(r["parts"] > 1, p["GLOBAL_MEETING"] + share + everyone, 0)
    on_chip = turns * steps * step + fill + epilogue + meet
    return np.where(r["gemv"] == 1, predict_gemv(p, r), p["LAUNCH"] + (on_chip**4 + dram**4) ** 0.25)


def predict_gemv(p, r):
    """The same for gemv: `predict_gemv` in host/src/model.rs. Of other kernels it means nothing."""
    threads = np.maximum(r["tile_k"] / r["stages"], 32)
    registers = r["tile_n"] / 2 + r["stages"] * (r["tile_m"] + r["tile_n"]) / 8 * 4 + 26
    resident = np.ones_like(threads)
    for count in range(2, 17):
        budget = np.minimum(255, 512 // np.ceil(count * threads / 128) // 8 * 8)
        resident = np.where((count * threads <= 2048) & (registers <= budget), count, resident)
    rows = np.ceil(r["m"] / r["tile_m"])
    tiles = rows * np.ceil(r["n"] / r["tile_n"])
    few = 1 + p["GEMV_FEW_WARPS"] * np.maximum(256 / threads - 1, 0)
    chain = np.ceil(tiles / (132 * resident)) * np.ceil(r["k"] / r["tile_k"]) * few
    dram = (r["m"] * r["k"] + rows * r["n"] * r["k"] + r["m"] * r["n"]) * 2 / (p["DRAM"] * 1e6)
    return p["GEMV_START"] + np.hypot(chain * p["GEMV_ROUND"], dram)


def fit(r):
    """The constants, in two steps.

    First least squares of the logarithms of all times; the farther behind the best of its shape, the less a row
    counts. Then, from there, what is wanted: that the predicted best of each shape is a fast one. A choice of one
    row has no slope to follow, so rows are taken in proportion to exp(-predicted / 1 %).
    """
    order = np.argsort(r["shape"], kind="stable")
    r = {name: column[order] for name, column in r.items()}
    starts = np.flatnonzero(np.diff(r["shape"], prepend=-1))
    spread = lambda values: np.repeat(values, np.diff(np.append(starts, len(order))))
    behind = r["us"] / spread(np.minimum.reduceat(r["us"], starts))
    weight = np.maximum(0.1, behind**-3)
    errors = lambda x: weight * np.log(predict(x, r) / r["us"])
    _, guess, low, high = (np.array(column) for column in zip(*PARAMETERS))
    first = np.maximum(least_squares(errors, guess, bounds=(low, high)).x, 1e-3)

    def loss(logarithms):
        x = first * np.exp(logarithms)
        predicted = np.log(predict(x, r))
        likely = np.exp((spread(np.minimum.reduceat(predicted, starts)) - predicted) / 0.01)
        regret = likely * np.minimum(behind - 1, 0.5)
        regret = np.add.reduceat(regret, starts) / np.add.reduceat(likely, starts)
        return np.minimum(regret, 0.15).mean() + 0.3 * np.sqrt(np.mean(errors(x) ** 2))

    bounds = list(zip(np.log(np.maximum(low, 1e-3) / first), np.log(high / first)))
    options = {"maxiter": 6, "xtol": 1e-3, "ftol": 1e-4}
    found = minimize(loss, np.zeros(len(first)), method="Powell", bounds=bounds, options=options)
    values = first * np.exp(found.x)
    return values, np.sqrt(np.mean(errors(values) ** 2))


def regrets(values, r):
    """For each shape in `r`: the time of the predicted best over that of the measured best, less 1.

    Of those that are predicted alike, the one is taken that the catalogue has first: of split the shallower ring, of
    the others the deeper."""
    predicted = predict(values, r) * (1 + np.where(r["split"] == 1, 1e-9, -1e-9) * r["stages"])
    found = {}
    for shape in np.unique(r["shape"]):
        rows = np.flatnonzero(r["shape"] == shape)
        found[int(shape)] = r["us"][rows[np.argmin(predicted[rows])]] / r["us"][rows].min() - 1
    return found


def said(found):
    values = np.array(list(found.values()))
    return (
        f"{np.mean(values <= 0.03):.0%} of {len(values)} shapes within 3 %, {np.mean(values <= 0.10):.0%} within 10 %, "
        f"mean {values.mean():.1%}, worst {values.max():.1%}"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("measurements", nargs="?", type=Path, default=DATA, help="default: %(default)s")
    shapes, rows = read(parser.parse_args().measurements)
    values, residual = fit(rows)
    for name, value in zip(NAMES, values):
        print(f"pub const {name}: f64 = {value:.3f};")
    print(f"{len(rows['us'])} measurements, weighted residual {residual:.1%}")
    print("choice:         ", said(regrets(values, rows)))
    held_out = {}
    for part in range(7):
        test = rows["shape"] % 7 == part
        pick = lambda mask: {name: column[mask] for name, column in rows.items()}
        held_out |= regrets(fit(pick(~test))[0], pick(test))
    print("shapes held out:", said(held_out))


if __name__ == "__main__":
    main()
