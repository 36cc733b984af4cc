#!/usr/bin/env python3
"""Makes digits.npy and axes.npy beside this file.

    pip install scikit-learn==1.7.2
    python3 make.py
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

AXES = 10


def main():
    folder = Path(__file__).parent
    pixels = load_digits().data  # 1797 images of 8×8 pixels, whole numbers from 0 to 16
    np.save(folder / "digits.npy", pixels.astype(np.float16))

    # Principal axes: eigenvectors of the covariance, the largest eigenvalue first.
    _, vectors = np.linalg.eigh(np.cov(pixels, rowvar=False))
    axes = vectors[:, ::-1][:, :AXES].T
    # An eigenvector and its negative are equally right: let the largest component be positive.
    largest = np.abs(axes).argmax(axis=1)
    axes *= np.sign(axes[np.arange(AXES), largest])[:, None]
    np.save(folder / "axes.npy", np.ascontiguousarray(axes).astype(np.float16))


if __name__ == "__main__":
    main()
