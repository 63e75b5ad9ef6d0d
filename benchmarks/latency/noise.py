"""`make bench-noise`: our samplers and releases beside opendp, numpy and plain Python, as ratios in one run.

opendp lives in a virtual environment of this benchmark's own. Exit code 1 where a target is missed.
"""

from __future__ import annotations

import importlib
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.latency.cks20 import PlainSampler
from mechanisms.count_release import PrivateCountRelease
from mechanisms.histogram import Histogram
from mechanisms.noise import discrete_gaussian, discrete_laplace
from mechanisms.randomness import Stream
from mechanisms.unknown_domain import UnkGumb

N = 10_000
"""Samples in a vector."""
SCALE, SIGMA_SQUARED = Fraction(40, 3), Fraction(1600, 9)
"""Noise at eps_per 0.15: b = sigma = 13.3 counts."""
FASTER = 10
"""How many times faster than opendp a vector must be."""
GUMB_SECONDS, RELEASE_SECONDS = 0.002, 1.0

Task = Callable[[Stream], object]


@dataclass(frozen=True)
class Timing:
    """The least of several measured times of a task, in seconds: the others were disturbed."""

    name: str
    seconds: float


def measured(name: str, task: Task, turns: int) -> Timing:
    """Time a task, each turn with a stream of its own."""
    root, times = Stream(bytes(32)).child(name), []
    for turn in range(turns):
        stream = root.child(turn)
        start = time.perf_counter()
        task(stream)
        times.append(time.perf_counter() - start)
    return Timing(name, min(times))


def opendp_tasks() -> dict[str, Task]:
    """Give opendp's vector measurements over N integers, which take the same noise."""
    dp = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    domain, zeros = dp.vector_domain(dp.atom_domain(T=int)), [0] * N
    laplace = dp.m.make_laplace(domain, dp.l1_distance(T=int), scale=float(SCALE))
    gaussian = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=math.sqrt(SIGMA_SQUARED))
    return {"laplace": lambda stream: laplace(zeros), "gaussian": lambda stream: gaussian(zeros)}


def vectors(turns: int) -> dict[str, list[Timing]]:
    """Time vectors of N samples: ours first, then opendp, numpy and plain Python."""
    theirs, plain = opendp_tasks(), PlainSampler(seed=1)
    generator = np.random.default_rng(1)
    tasks: dict[str, dict[str, Task]] = {
        "laplace": {
            "dpproxy": lambda stream: discrete_laplace(stream, SCALE, N),
            "opendp": theirs["laplace"],
            "numpy, continuous": lambda stream: generator.laplace(0, float(SCALE), N),
            "CKS20, plain Python": lambda stream: [plain.laplace(SCALE) for _ in range(N)],
        },
        "gaussian": {
            "dpproxy": lambda stream: discrete_gaussian(stream, SIGMA_SQUARED, N),
            "opendp": theirs["gaussian"],
            "numpy, continuous": lambda stream: generator.normal(0, math.sqrt(SIGMA_SQUARED), N),
            "CKS20, plain Python": lambda stream: [plain.gaussian(SIGMA_SQUARED) for _ in range(N)],
        },
    }
    slow = {"opendp": 5, "CKS20, plain Python": 1}
    return {
        law: [measured(name, task, slow.get(name, turns)) for name, task in group.items()]
        for law, group in tasks.items()
    }


def zipf(n: int) -> Histogram:
    """Counts that fall like 1/rank from a million, of a histogram cut after n rows."""
    ranks = np.arange(1, n + 1)
    return Histogram((1_000_000 // ranks).astype(np.int64), complete=False)


def releases(turns: int) -> list[Timing]:
    """Time UnkGumb at d_bar 1,000 and PrivateCountRelease on 10,000 elements at rho 1."""
    eps, delta = Fraction(3, 20), Fraction(1, 10**10)
    gumb = UnkGumb(eps, delta, 1, 10, 1000, True)
    rows = zipf(gumb.fetch)
    release = PrivateCountRelease(
        eps_per=eps, information=8 / eps**2, delta_per=delta, calls=Fraction(10_000)
    )
    elements = zipf(release.fetch)
    return [
        measured("UnkGumb, d_bar 1,000, k 10", lambda stream: gumb.release(rows, stream), turns),
        measured(
            "PrivateCountRelease, 10,000 elements, rho 1",
            lambda stream: release.release(elements, stream),
            max(3, turns // 10),
        ),
    ]


def vector_table(timings: dict[str, list[Timing]]) -> Table:
    """What a vector takes, and how many times as long as ours."""
    table = Table("vector of 10,000", "sampler", "ms", "ns a sample", "times ours", title="Noise")
    for law, (ours, *others) in timings.items():
        for timing in (ours, *others):
            nanoseconds = timing.seconds / N * 1e9
            ratio = timing.seconds / ours.seconds
            table.add_row(
                law, timing.name, f"{timing.seconds * 1e3:.2f}", f"{nanoseconds:.0f}", f"{ratio:.2f}"
            )
    return table


def release_table(timings: list[Timing], targets: tuple[float, ...]) -> Table:
    """What a release takes, and what it may take."""
    table = Table("release", "ms", "target, ms", title="Releases")
    for timing, target in zip(timings, targets, strict=True):
        table.add_row(timing.name, f"{timing.seconds * 1e3:.2f}", f"{target * 1e3:.0f}")
    return table


def missed(timings: dict[str, list[Timing]], others: list[Timing], targets: tuple[float, ...]) -> list[str]:
    """Name the targets that were missed."""
    slow = [
        f"{law} is {theirs.seconds / ours.seconds:.1f} times faster than opendp, not {FASTER}"
        for law, (ours, theirs, *_) in timings.items()
        if theirs.seconds < FASTER * ours.seconds
    ]
    return slow + [
        f"{timing.name} takes {timing.seconds * 1e3:.1f} ms, not {target * 1e3:.0f}"
        for timing, target in zip(others, targets, strict=True)
        if timing.seconds >= target
    ]


def main(turns: int = 60) -> int:
    """Measure, print both tables, say what missed its target."""
    console, targets = Console(), (GUMB_SECONDS, RELEASE_SECONDS)
    timings, others = vectors(turns), releases(turns)
    console.print(vector_table(timings))
    console.print(release_table(others, targets))
    misses = missed(timings, others, targets)
    for miss in misses:
        console.print(f"[red]missed: {miss}")
    return 1 if misses else 0


if __name__ == "__main__":
    sys.exit(main())
