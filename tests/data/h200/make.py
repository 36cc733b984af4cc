#!/usr/bin/env python3
"""Makes the operands of the products whose results an H200 recorded here (needs numpy).

    python3 make.py            writes NAME-a.npy and NAME-b.npy
    hopper-gemm matmul --a NAME-a.npy --b NAME-b.npy --out NAME-c.npy --device cuda:0 \\
        --kernel v3 --tile 128x64x64 --stages 2          (--bf16-as-u16 --type bf16 where NAME starts with bf16)

The simulator must give the same bits. Shapes are ragged; K is longer than two stages. Operands: normal; of widely
different exponents, so that small terms are cut off when a product is aligned to a large one; with subnormals;
and random finite bits.
"""
import numpy as np

M, N, K = 37, 26, 200


def finite_bits(rng, shape, exponent):
    """Random 16-bit patterns without NaN and infinity, whose exponent field is `exponent`."""
    bits = rng.integers(0, 1 << 16, shape, dtype=np.uint16)
    special = (bits & exponent) == exponent
    return np.where(special, bits & np.uint16(~exponent & 0xFFFF), bits)


def to_bf16(values):
    """Bits of bfloat16, cut off."""
    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def operands(rng, kind, shape):
    normal = rng.standard_normal(shape)
    if kind == "normal":
        return normal
    if kind == "wide":
        return normal * np.exp2(rng.integers(-7, 7, shape))
    return normal * np.exp2(rng.integers(-24, -14, shape))


def main():
    rng = np.random.default_rng(20261129)
    for kind in ("normal", "wide", "small"):
        for name, shape in (("a", (M, K)), ("b", (N, K))):
            values = operands(rng, kind, shape)
            # Subnormals meet large factors, so that their products survive the rounding of C.
            if kind == "small" and name == "b":
                values = values * np.exp2(24)
            np.save(f"f16-{kind}-{name}.npy", values.astype(np.float16))
            np.save(f"bf16-{kind}-{name}.npy", to_bf16(values))
    for name, shape in (("a", (M, K)), ("b", (N, K))):
        bits = finite_bits(rng, shape, 0x7C00)
        # B is kept small: else every sum overflows the range of f16.
        if name == "b":
            bits = bits & np.uint16(0x83FF) | np.uint16(0x0400)
        np.save(f"f16-bits-{name}.npy", bits.view(np.float16))


if __name__ == "__main__":
    main()
