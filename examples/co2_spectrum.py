"""The seasons of atmospheric CO2: a trend by a convolution, and a spectrum of what is left, with the same bits however it is run.

2,225 weekly measurements at Mauna Loa (data/mauna-loa-co2.csv) are smoothed over a year by a convolution; the rest is cut into
windows that overlap, and the transforms of all windows are averaged (P. D. Welch, 1967).  The transforms are made all at once, in small
batches, one by one, along another axis, and on a GPU where there is one: no bit differs.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tcu

DATA = Path(__file__).parents[1] / "data" / "mauna-loa-co2.csv"
Array = npt.NDArray[Any]


def smoothed(co2: Array, weeks: int) -> Array:
    """A mean over so many weeks, those at both ends at half weight."""
    weights = np.ones(weeks + 1, co2.dtype)
    weights[[0, -1]] = 0.5
    return np.asarray(tcu.fft.convolve(co2, weights / np.float32(weeks), mode="valid"))


def windows(x: Array, length: int, step: int) -> Array:
    """Pieces that overlap, under Hann's window."""
    pieces = np.lib.stride_tricks.sliding_window_view(x, length)[::step]
    return np.asarray(pieces * np.hanning(length).astype(x.dtype))


def on_gpu(x: Array) -> Array | None:
    """The same transforms by a GPU, if PyTorch finds one."""
    try:
        import torch
    except ImportError:
        return None
    if not torch.cuda.is_available():
        return None
    return np.asarray(tcu.fft.rfft(torch.from_numpy(x).cuda()).cpu().numpy())


def differing(found: Array, right: Array) -> str:
    count = int(
        (np.ascontiguousarray(found).view(np.uint32) != np.ascontiguousarray(right).view(np.uint32)).sum()
    )
    return f"{count} of {2 * right.size:,} numbers differ"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--length", type=int, default=520, help="weeks of a window")
    given = parser.parse_args()
    co2 = np.loadtxt(DATA, np.float32, comments=("#", "co2"))
    trend = smoothed(co2, 52)
    print(f"{co2.size:,} weeks; the trend goes from {trend[0]:.1f} to {trend[-1]:.1f} ppm")

    tenths = np.rint(co2 * 10).astype(np.int64)
    exact = tcu.fft.convolve(tenths, np.ones(52, np.int64), mode="valid")
    same = bool((exact == np.convolve(tenths, np.ones(52, np.int64), mode="valid")).all())
    print(f"sums over a year in tenths, as whole numbers: {'exact' if same else 'wrong'}")

    pieces = windows(co2[26:-26] - trend, given.length, given.length // 8)
    spectra = tcu.fft.rfft(pieces)
    power = np.asarray(tcu.mean(spectra.real**2 + spectra.imag**2, axis=0))
    peaks = [k for k in range(2, power.size - 1) if power[k - 1] < power[k] > power[k + 1]]
    best = sorted(peaks, key=lambda k: -power[k])[:2]
    print("strongest periods:", ", ".join(f"{given.length / k:.1f} weeks" for k in best))

    for size in (1, 2, 3):
        parts = [tcu.fft.rfft(pieces[at : at + size]) for at in range(0, len(pieces), size)]
        print(f"in batches of {size}: {differing(np.concatenate(parts), spectra)}")
    print(f"along columns: {differing(tcu.fft.rfft(pieces.T, axis=0).T, spectra)}")
    found = on_gpu(pieces)
    print(f"on the GPU: {'none here' if found is None else differing(found, spectra)}")


if __name__ == "__main__":
    main()
