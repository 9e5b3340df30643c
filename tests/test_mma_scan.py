"""Contract of scans by MMAs: their plans are the paper's products, and ``cumsum`` has the bits that these say.

- A plan read literally (mma_scan_definition.py), matrix by matrix with the definition's dot products, has the bits of
  ``tcu.cumsum``, whatever the unit, the formats, R, the direction and the layout; infinities and NaN included.
- Running sums of integers that all formats hold are exact.
- A prefix does not depend on what follows it, where all numbers are finite.
- The numbers of MMAs and the depth are what is executed.
- The proved error bound holds; where an overflow cannot be excluded it is infinite.
- What has no such scan refuses it in words: other dtypes, units without the MMA, arrays in parts.
"""

from __future__ import annotations

import json
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from mma_scan_definition import OfAUnit, Steps, prefixes

import tcu
from tcu.cli.app import main
from tcu.errors import DtypeError, ParameterError, UnknownNameError
from tcu.formats import decode, encode, format_of, get_format
from tcu.plan import SCAN_VARIANTS, VERSIONS, MmaScanPlan, make_mma_scan_plan, make_scan_plan, scan_plan
from tcu.units import CATALOGUE, get_unit

BY_MMAS = [name for name, row in SCAN_VARIANTS.items() if row.uses_mma]
DTYPES = (np.float16, ml_dtypes.bfloat16)
every_variant = pytest.mark.parametrize("variant", BY_MMAS)
every_dtype = pytest.mark.parametrize("dtype", DTYPES)


def plan_of(x: Any, unit: str, **way: Any) -> MmaScanPlan:
    plan = scan_plan(x.size, format_of(x.dtype), get_unit(unit), **way)
    assert isinstance(plan, MmaScanPlan)
    return plan


def expected(
    x: npt.NDArray[Any], unit: str, target: str, exclusive: bool = False, reverse: bool = False, **way: Any
) -> npt.NDArray[Any]:
    """The codes of the running sums of a line, by nothing but the definition."""
    plan, fmt = plan_of(x, unit, **way), get_format(target)
    codes = x.view(format_of(x.dtype).code_dtype).tolist()
    found, *_ = prefixes(plan, codes, OfAUnit(plan, unit), exclusive, reverse)
    results = []
    for code in found:
        number = decode(code, plan.accumulator)
        rounded = fmt.nan_code if number.kind == "nan" else encode(number, fmt)
        results.append(0 if number.kind == "finite" and not number.significand else rounded)
    return np.array(results, fmt.code_dtype)


def same(found: Any, codes: npt.NDArray[Any], told: Any) -> None:
    found = np.asarray(found)
    mine = found.view(codes.dtype)
    assert mine.tobytes() == codes.tobytes(), (
        told, np.flatnonzero(mine.reshape(-1) != codes.reshape(-1))[:5]
    )  # fmt: skip


def numbers(rng: np.random.Generator, n: int, dtype: Any, kind: str) -> npt.NDArray[Any]:
    if kind == "wide":
        x = np.ldexp(rng.standard_normal(n), rng.integers(-20, 4, n))
    elif kind == "cancelling":
        x = rng.standard_normal(n) * 10
        x[1::2] = -x[: n - n % 2 : 2][: x[1::2].size] * (1 + 2.0**-9)
    else:
        x = rng.standard_normal(n)
        x[rng.random(n) < 0.02] = rng.choice([np.inf, -np.inf, np.nan, -0.0, 6e4, 1e-7])
    with np.errstate(over="ignore"):
        return x.astype(dtype)


_SHARES = 30
UNITS = [
    name for name in CATALOGUE
    if any((row.name, row.a, row.output) == ("mma", "binary16", "binary32") for row in CATALOGUE[name].instructions)
]  # fmt: skip


@pytest.mark.some(4)
@pytest.mark.slow
@pytest.mark.parametrize("share", range(_SHARES))
def test_the_bits_are_those_of_the_plan_read_literally(share: int) -> None:
    """1,020 random cases: lines, ragged segments and rows."""
    for case in range(34):
        rng = np.random.default_rng([34, share, case])
        variant = BY_MMAS[case % 4]
        chain = (
            int(rng.integers(1, 4)) if variant == "scan-16" else 1 + (variant != "scan-256" and case % 8 > 3)
        )
        tile = 16 if variant == "scan-16" else 256
        n = int(rng.integers(1, [20, 100, 250, tile * chain + 40][int(rng.integers(4))]))
        unit = UNITS[int(rng.integers(len(UNITS)))]
        has_bfloat = any(row.a == "bfloat16" and row.name == "mma" for row in CATALOGUE[unit].instructions)
        dtype = DTYPES[int(rng.integers(2))] if has_bfloat else np.float16
        halves = [
            row for row in CATALOGUE[unit].instructions
            if (row.name, row.a, row.output) == ("mma", "binary16", "binary16")
        ]  # fmt: skip
        accumulator = "float16" if dtype == np.float16 and halves and rng.random() < 0.25 else None
        x = numbers(rng, n, dtype, ("wide", "cancelling", "special")[case % 3])
        way = {"variant": variant, "chain": chain, "accumulator": accumulator}
        flags = {"exclusive": bool(rng.integers(2)), "reverse": bool(rng.integers(2))}
        target = ("float32", "float64", "float16", "bfloat16")[int(rng.integers(4))]
        given = {"unit": unit, "dtype": target, **way, **flags}
        codes = expected(x, unit, target, **flags, **way)
        if case % 3 == 0:
            found = tcu.cumsum(x, **given)
        elif case % 3 == 1:
            edges = [0, n, n, 2 * n, 2 * n + 1, 2 * n + 1 + n]
            found = tcu.segment_cumsum(np.concatenate([x, x, x[:1], x]), edges, **given)
            one = expected(x[:1], unit, target, **flags, **{**way, "chain": chain})
            codes = np.concatenate([codes, codes, one, codes])
        else:
            found = np.ascontiguousarray(tcu.cumsum(np.stack([x, x, x], axis=1), axis=0, **given).T)
            codes = np.concatenate([codes] * 3)
        same(np.asarray(found).reshape(-1), codes, (share, case, unit, dtype, n, given))


@pytest.mark.some(4)
@pytest.mark.slow
@every_variant
@every_dtype
def test_three_levels_of_totals_have_the_bits_of_the_plan(variant: str, dtype: Any) -> None:
    chain = None if variant == "scan-256" else 1
    n = 16 * 16 * 16 + 40 if variant == "scan-16" else 256 * 17 + 3
    x = numbers(np.random.default_rng(3), n, dtype, "wide")
    plan = plan_of(x, "A100", variant=variant, chain=chain)
    assert plan.levels == (3 if variant == "scan-16" else 2)
    codes = expected(x, "A100", "float32", variant=variant, chain=chain)
    same(tcu.cumsum(x, unit="A100", variant=variant, chain=chain), codes, variant)


@pytest.mark.slow(2)
@every_variant
@every_dtype
def test_running_sums_of_small_integers_are_exact(variant: str, dtype: Any) -> None:
    rng = np.random.default_rng(8)
    for n in (0, 1, 15, 16, 17, 255, 256, 257, 4095, 4097, 20000):
        x = rng.permutation(np.resize([1, -1], n)).astype(dtype)  # totals stay below 256
        exact = np.cumsum(x.astype(np.int64))
        assert np.abs(exact).max(initial=0) <= 256
        for reverse in (False, True):
            wanted = exact if not reverse else np.cumsum(x[::-1].astype(np.int64))[::-1]
            assert (tcu.cumsum(x, variant=variant, reverse=reverse) == wanted).all()
            found = tcu.cumsum(x, variant=variant, reverse=reverse, exclusive=True)
            assert (found == wanted - x.astype(np.int64)).all()


@every_variant
def test_a_prefix_does_not_depend_on_what_follows(variant: str) -> None:
    rng = np.random.default_rng(2)
    x = numbers(rng, 9000, np.float16, "wide")
    whole = tcu.cumsum(x, variant=variant)
    for n in (1, 16, 33, 250, 256, 300, 4096, 4111, 8999):
        other = np.concatenate([x[:n], numbers(rng, 500, np.float16, "wide")])
        assert tcu.cumsum(x[:n], variant=variant).tobytes() == whole[:n].tobytes()
        assert tcu.cumsum(other, variant=variant)[:n].tobytes() == whole[:n].tobytes()


@pytest.mark.slow
@every_variant
def test_rows_columns_segments_and_places_have_the_bits_of_a_line(variant: str) -> None:
    x = numbers(np.random.default_rng(4), 3 * 5 * 290, np.float16, "wide").reshape(3, 5, 290)
    for axis, (reverse, exclusive) in zip((0, 1, 2, -1), ((0, 0), (0, 1), (1, 0), (1, 1)), strict=True):
        way: dict[str, Any] = {"variant": variant, "reverse": bool(reverse), "exclusive": bool(exclusive)}
        found = tcu.cumsum(x, axis=axis, **way)
        moved, lines = np.moveaxis(found, axis, -1), np.moveaxis(x, axis, -1)
        for where in np.ndindex(moved.shape[:-1]):
            assert moved[where].tobytes() == tcu.cumsum(lines[where], **way).tobytes()
        strided = np.asfortranarray(x)[:, ::-1]
        assert (
            tcu.cumsum(strided, axis=axis, **way).tobytes()
            == tcu.cumsum(strided.copy(), axis=axis, **way).tobytes()
        )
    line = tcu.cumsum(x, variant=variant)
    assert line.tobytes() == tcu.cumsum(x.reshape(-1), variant=variant).tobytes()
    place = np.empty((x.size, 2), np.float64)[:, 1]
    assert tcu.cumsum(x, variant=variant, out=place) is place
    assert (place == line).all()
    own = x.copy()
    tcu.cumsum(own, axis=1, variant=variant, out=own)
    assert own.tobytes() == tcu.cumsum(x, axis=1, variant=variant, dtype="float16").tobytes()
    edges = np.array([0, 0, 1, 17, 17 + 256, 17 + 256, 3000, x.size])
    ragged = tcu.segment_cumsum(x.reshape(-1), edges, variant=variant)
    for begin, end in pairwise(edges):
        alone = tcu.cumsum(x.reshape(-1)[begin:end], variant=variant)
        assert ragged[begin:end].tobytes() == alone.tobytes()
    done: list[int] = []
    tcu.cumsum(x, axis=1, variant=variant, progress=done.append)
    assert sum(done) == x.size


def test_results_do_not_depend_on_the_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers(np.random.default_rng(5), 400_000, ml_dtypes.bfloat16, "wide")
    found = set()
    for workers in ("1", "3"):
        monkeypatch.setenv("TCU_NUM_THREADS", workers)
        found.add(tcu.cumsum(x, variant="scan-256n").tobytes())
    assert len(found) == 1


@every_variant
@pytest.mark.parametrize("n", [1, 16, 40, 256, 300, 700, 16 * 256 + 1])
def test_mmas_and_depth_are_what_is_executed(variant: str, n: int) -> None:
    for chain in (1, 3):
        plan = make_mma_scan_plan(
            n, get_format("f16"), get_unit("H100"), variant, None if variant == "scan-256" else chain
        )
        steps, products, of_totals = prefixes(plan, [0] * n, Steps())
        assert plan.depth >= max(steps)
        if n > 2 * plan.strip or plan.levels == 0:
            assert plan.depth - max(steps) <= 1
        # Of 16 rows no place of a matrix is left over.
        tiles = products if plan.rows == 1 else 16 * products
        assert plan.mmas_of(16) == tiles + of_totals
        assert plan.mmas == plan.mmas_of(1)


def test_the_number_of_mmas_for_256_numbers() -> None:
    """What the formulas of the page say, of long lines."""
    n, wide = 1 << 24, {}
    for variant in BY_MMAS:
        plan = make_mma_scan_plan(n, get_format("f16"), get_unit("H100"), variant)
        wide[variant] = plan.mmas / (n / 256)
        above = 1 / 15 / 16 / (plan.strip / 256)
        assert wide[variant] == pytest.approx((1 if plan.rows == 1 else plan.products) + above, rel=1e-3)
    assert [round(each, 2) for each in wide.values()] == [1.0, 3.0, 3.0, 2.0]


@pytest.mark.some(36)
@pytest.mark.slow(2)
@every_variant
@pytest.mark.parametrize("unit", ["V100", "A100", "H100", "MI300"])
@pytest.mark.parametrize("kind", ["wide", "cancelling", "tiny", "large"])
def test_the_error_bound_holds(variant: str, unit: str, kind: str) -> None:
    for seed, dtype in enumerate(DTYPES):
        if dtype != np.float16 and unit == "V100":
            continue
        rng = np.random.default_rng([seed, 9])
        if kind in ("tiny", "large"):
            scale = {"tiny": -22 if dtype == np.float16 else -125, "large": 3}[kind]
            x = np.ldexp(rng.standard_normal(1200), scale).astype(dtype)
        else:
            x = numbers(rng, 1200, dtype, kind)
        exact, total = [], Fraction(0)
        for value in x.tolist():
            total += Fraction(float(value))
            exact.append(total)
        for target in ("float32", "float16", "bfloat16"):
            way: dict[str, Any] = {"unit": unit, "variant": variant, "dtype": target}
            way["chain"] = None if variant == "scan-256" else 2
            found, bounds = tcu.cumsum(x, **way), tcu.cumsum_error_bound(x, **way)
            assert bounds.shape == x.shape
            for value, wanted, bound in zip(found.tolist(), exact, bounds.tolist(), strict=True):
                if not np.isinf(bound):
                    assert abs(Fraction(float(value)) - wanted) <= Fraction(bound)
            assert np.isfinite(bounds).any()
        # Not by the elements' own format alone, which a test that cannot fail would be.
        assert (
            tcu.cumsum_error_bound(x, unit=unit, variant=variant)[-1:] < np.abs(x.astype(float)).sum()
        ).all()


@every_variant
def test_the_error_bound_says_where_nothing_is_sure(variant: str) -> None:
    x = np.full(100_000, 2.0, np.float16)
    assert np.isinf(tcu.cumsum_error_bound(x, variant=variant)).all()
    assert not np.isfinite(tcu.cumsum(x, variant=variant)).all()
    assert np.isfinite(tcu.cumsum_error_bound(x.astype(ml_dtypes.bfloat16), variant=variant)).all()
    rows = np.ones((2, 300), np.float16)
    rows[0, 299] = np.nan
    bounds = tcu.cumsum_error_bound(rows, axis=1, variant=variant)
    assert np.isnan(bounds[0]).all()
    assert np.isfinite(bounds[1]).all()
    assert not tcu.cumsum_error_bound(np.zeros((3, 40), np.float16), 1, variant=variant).any()
    assert tcu.cumsum_error_bound(np.zeros((2, 0), np.float16), 1, variant=variant).shape == (2, 0)
    first = tcu.cumsum_error_bound(rows[1], variant=variant, exclusive=True)
    assert first[0] == 0


@pytest.mark.slow
def test_a_number_that_is_not_finite_makes_nan_of_its_neighbours() -> None:
    """Products with zeros do it, as the docstring says; the definition does the same, above."""
    x = np.ones(600, np.float16)
    x[300] = np.inf
    found = tcu.cumsum(x, variant="scan-256n", chain=1)
    assert np.isfinite(found[:256]).all()
    assert np.isnan(found[256:300]).any()
    assert tcu.cumsum(x)[:300].tolist() == list(range(1, 301))


def test_plans_say_what_they_are() -> None:
    half, unit = get_format("f16"), get_unit("H100")
    plan = make_mma_scan_plan(5000, half, unit, "scan-256n")
    assert str(plan) == (
        "scan-256n of 5,000 binary16: 2 strips of 16 × 256, 1 level of radix 16, depth 34, 97 MMAs → binary32; "
        "each tile AU = A·U + S, LA = L·A, R = LA·J + AU"
    )
    assert plan.version == VERSIONS["triangular"]
    assert (plan.strip, plan.strips, plan.totals) == (4096, 2, (2,))
    short = make_mma_scan_plan(40, half, unit, "scan-16")
    assert (short.chain, short.totals, short.mmas_of(100)) == (3, (), 21)
    efficient = make_mma_scan_plan(256, half, unit, "scan-256n-work-efficient")
    assert "AU = A·U, E = L·T + S, R = E + AU" in str(efficient)
    assert scan_plan(5, half, unit) == make_scan_plan(5, half)
    _, info = tcu.cumsum(np.ones((7, 5000), np.float16), axis=1, variant="scan-256n", return_info=True)
    assert (info.plan, info.rows, info.unit, info.mmas) == (plan, 7, "H100", plan.mmas_of(7))
    _, info = tcu.cumsum(np.ones(4), return_info=True)
    assert (info.unit, info.mmas) == (None, 0)


@pytest.mark.parametrize(
    ("options", "kind", "words"),
    [
        ({"variant": "scan-257"}, UnknownNameError, ["unknown variant 'scan-257': did you mean scan-16 or scan-256"]),
        ({"variant": None}, UnknownNameError, ["unknown variant None: available: binary64, scan-16"]),
        ({"variant": "split"}, UnknownNameError, ["unknown variant 'split'"]),
        ({"unit": "H1000"}, UnknownNameError, ["unknown unit 'H1000'"]),
        ({"variant": "scan-256", "chain": 2}, ParameterError, ["chain (R) = 2: scan-256 chains no tiles"]),
        ({"variant": "scan-16", "chain": 0}, ParameterError, ["chain (R) = 0: choose a whole number from 1 to 1024"]),
        ({"variant": "scan-16", "chain": True}, ParameterError, ["chain (R) = True"]),
        ({"chain": 2}, ParameterError, ["chain (R) = 2: binary64 scans have no MMAs", "variant='scan-256n'"]),
        ({"accumulator": "float16"}, ParameterError, ["accumulator = 'float16': binary64 scans have no MMAs"]),
        ({"variant": "scan-16", "accumulator": "float64"}, DtypeError, ["H100 has no MMA binary16 → binary64"]),
    ],
)  # fmt: skip
def test_wrong_options(options: dict[str, Any], kind: type[Exception], words: list[str]) -> None:
    x = np.ones(40, np.float16)
    for call in (
        lambda: tcu.cumsum(x, **options),
        lambda: tcu.segment_cumsum(x, [0, 40], **options),
        lambda: tcu.cumsum_error_bound(x, **options),
    ):
        with pytest.raises(kind) as raised:
            call()
        assert all(word in str(raised.value) for word in words), raised.value


def test_numbers_that_no_variant_takes() -> None:
    for dtype in (np.float32, np.float64):
        with pytest.raises(DtypeError, match=f"scan-16 scans float16 and bfloat16, x has {np.dtype(dtype)}"):
            tcu.cumsum(np.ones(3, dtype), variant="scan-16")
    with pytest.raises(DtypeError, match="V100 has no MMA bfloat16 → binary32 to scan bfloat16 by scan-256"):
        tcu.cumsum(np.ones(3, ml_dtypes.bfloat16), variant="scan-256", unit="V100")
    # Integers are added exactly, and whoever names a variant has one.
    assert tcu.cumsum(np.arange(5), variant="scan-256").tolist() == [0, 1, 3, 6, 10]
    with pytest.raises(UnknownNameError, match="unknown variant 'reduction-16'"):
        tcu.cumsum(np.arange(5), variant="reduction-16")


def test_arrays_in_parts_are_scanned_by_additions_alone(tmp_path: Path) -> None:
    da = pytest.importorskip("dask.array")
    lazy = da.from_array(np.ones(40, np.float16), chunks=10)
    np.save(tmp_path / "x.npy", np.ones(40, np.float16))
    for what, call in (
        ("Dask arrays", lambda **how: tcu.cumsum(lazy, **how)),
        ("files", lambda **how: tcu.streams.cumsum(tmp_path / "x.npy", out=tmp_path / "y.npy", **how)),
    ):
        with pytest.raises(
            ParameterError, match=f"variant='scan-16': running sums of {what} are by binary64 additions alone"
        ):
            call(variant="scan-16")
        with pytest.raises(ParameterError, match="unit='V100', chain=4: running sums"):
            call(unit="V100", chain=4)
        with pytest.raises(UnknownNameError, match="unknown variant 'scan'"):
            call(variant="scan")


def test_tensors_have_the_same_bits_and_gradients_by_additions() -> None:
    torch = pytest.importorskip("torch")
    x = numbers(np.random.default_rng(6), 2 * 300, np.float16, "wide").reshape(2, 300)
    tensor = torch.from_numpy(x).requires_grad_()
    for variant in BY_MMAS:
        result = tcu.cumsum(tensor, dim=1, variant=variant, unit="A100", chain=None)
        wanted = tcu.cumsum(x, axis=1, variant=variant, unit="A100")
        assert result.detach().numpy().tobytes() == wanted.tobytes()
        (gradient,) = torch.autograd.grad(result.sum(), tensor)
        assert gradient.tolist() == [list(range(300, 0, -1))] * 2
        ragged = tcu.segment_cumsum(tensor[0], torch.tensor([0, 17, 300]), variant=variant)
        (gradient,) = torch.autograd.grad(ragged.sum(), tensor)
        assert gradient[0].tolist() == [*range(17, 0, -1), *range(283, 0, -1)]
    with pytest.raises(UnknownNameError, match="unknown variant b'scan-16': did you mean scan-16"):
        tcu.cumsum(tensor, variant=b"scan-16")
    with pytest.raises(DtypeError, match="scans float16 and bfloat16, x has float32"):
        tcu.cumsum(tensor.float(), variant="scan-16")


def test_the_command_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    x = numbers(np.random.default_rng(7), 4 * 700, np.float16, "wide").reshape(4, 700)
    np.save("x.npy", x)
    how = ["cumsum", "x.npy", "--variant", "scan-256n", "--unit", "A100", "-R", "2", "-o", "y.npy"]
    assert main(how) == 0
    found = np.load("y.npy")
    assert found.tobytes() == tcu.cumsum(x, variant="scan-256n", unit="A100", chain=2).tobytes()
    assert "1 × scan-256n of 2,800 binary16: 6 strips of 2 × 256" in capsys.readouterr().out
    assert main([*how, "--axis", "1", "--accumulator", "float16", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {key: document[key] for key in ("unit", "variant", "chain", "accumulator", "strip", "levels", "rows")} == {
        "unit": "A100", "variant": "scan-256n", "chain": 2, "accumulator": "binary16", "strip": 512, "levels": 1,
        "rows": 4,
    }  # fmt: skip
    wanted = tcu.cumsum(x, 1, variant="scan-256n", unit="A100", chain=2, accumulator="float16")
    assert np.load("y.npy").tobytes() == wanted.tobytes()
    for arguments, message in (
        ([*how, "--checkpoint", "c.json"], "--checkpoint c.json: sums along an axis are not kept on the way"),
        (["cumsum", "x.npy", "-o", "y.npy", "--variant", "scan"], "unknown variant 'scan'"),
        (["cumsum", "x.npy", "-o", "y.npy", "-R", "2"], "chain (R) = 2: binary64 scans have no MMAs"),
    ):
        assert main(arguments) == 2
        assert message in capsys.readouterr().err


def test_every_variant_says_where_it_is_from() -> None:
    for row in SCAN_VARIANTS.values():
        assert row.source
        assert row.summary
        assert row.name == "binary64" or row.uses_mma
