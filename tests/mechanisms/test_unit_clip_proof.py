"""unit_clip.v is checked by Coq, and what it proves something about is what the code computes."""

from __future__ import annotations

import shutil
import subprocess
from fractions import Fraction
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from mechanisms.unit_clip import clipped
from rewriter.emit.clipped_totals import MARGIN
from tests.mechanisms import clip_law

PROOF = Path(__file__).parents[2] / "mechanisms" / "unit_clip.v"
FLOCQ = Path("/usr/lib/ocaml/coq/user-contrib/Flocq")
AXIOMS = {"sig_not_dec", "sig_forall_dec", "functional_extensionality_dep", "classic"}
"""Those of Coq's real numbers."""
needs_coq = pytest.mark.skipif(
    shutil.which("coqc") is None or not FLOCQ.exists(),
    reason="Coq is not installed (Debian's packages coq and libcoq-flocq)",
)


def checked(text: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """What Coq says of a proof."""
    file = folder / PROOF.name
    file.write_text(text)
    return subprocess.run(["coqc", "-q", file], capture_output=True, text=True, timeout=120, check=False)


@needs_coq
@pytest.mark.service
def test_coq_checks_the_proof(tmp_path: Path) -> None:
    done = checked(PROOF.read_text(), tmp_path)
    assert done.returncode == 0, done.stderr
    heads = (line.split(" ")[0] for line in done.stdout.splitlines()[1:] if not line.startswith(" "))
    assert {head.split(".")[-1] for head in heads} == AXIOMS
    assert "dmitted" not in PROOF.read_text()


@needs_coq
@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("(- Zfloor (size q v))%Z else Zfloor (size q v)", "(- Zceil (size q v))%Z else Zceil (size q v)"),
        ("(q <=? C * C)%Z then", "(q <=? C * C + 1)%Z then"),
        ("enough : margin <= 1 - bpow radix2 (-40)", "enough : margin <= 1"),
        ("Z.max (- largest) (Z.min largest x)", "Z.max (- largest) (Z.min largest (2 * x))"),
        ("bpow radix2 (-50)) <= double q", "bpow radix2 (-30)) <= double q"),
    ],
)
def test_coq_takes_no_proof_of_something_else(old: str, new: str, tmp_path: Path) -> None:
    text = PROOF.read_text()
    assert old in text
    assert checked(text.replace(old, new), tmp_path).returncode != 0


def test_the_margin_is_what_the_proof_asks_for() -> None:
    assert Fraction(1, 2) <= Fraction(1 - MARGIN) <= 1 - Fraction(1, 1 << 40)
    assert Fraction(1 - MARGIN) == clip_law.MARGIN


def test_a_double_is_what_the_proof_takes_for_one() -> None:
    random = np.random.default_rng(28)
    for size in (1, 30, 53, 54, 63, 100, 126):
        for _ in range(50):
            number = int.from_bytes(random.bytes(size // 8 + 1)) >> (7 - size % 8) | 1
            assert clip_law.fl(Fraction(number)) == Fraction(float(number))
            assert clip_law.fl(Fraction(1, number)) == Fraction(1.0 / number) or number >= 1 << 53
            assert clip_law.fl_root(clip_law.fl(Fraction(number))) == Fraction(float(np.sqrt(float(number))))


def test_every_small_vector_is_clipped_as_in_the_proof() -> None:
    """All vectors of three cells from -3 to 3, at the scales at which rounding shows most."""
    for totals in combinations_with_replacement(range(-3, 4), 3):
        for length, scale in ((1, 1), (2, 1), (3, 1), (2, 2), (4, 1024)):
            found = clipped(np.array(totals), length, scale).tolist()
            assert found == clip_law.clipped(totals, length, scale)
            assert sum(v * v for v in found) <= (scale * length) ** 2


def test_large_vectors_are_clipped_as_in_the_proof() -> None:
    random = np.random.default_rng(29)
    for _ in range(100):
        totals = [int(v) for v in random.integers(-(2**50), 2**50, random.integers(1, 6))]
        totals = [v >> int(random.integers(0, 50)) for v in totals]
        length, scale = int(random.integers(1, 2**40)), 1 << int(random.integers(0, 11))
        found = clipped(np.array(totals), length, scale).tolist()
        assert found == clip_law.clipped(totals, length, scale)
        assert sum(v * v for v in found) <= (scale * length) ** 2
