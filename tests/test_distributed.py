"""Contract: reductions over the ranks of torch.distributed give every rank the same bits, which are right.

torchrun starts 2 and 4 processes on Gloo, each of which runs the checks at
the end of this file: the exact reductions equal those of the whole array
however it is cut, also into nothing for some ranks; the planned ones follow
their law; so does every operation along every axis, and one of a program's
own; DTensors count replicated numbers once; ranks that do not agree get
an error that says who has what.  What needs no second process is tested here.
"""

from __future__ import annotations

import subprocess
import sys
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from numbers_of_all_kinds import draw
from operations import names_of
from ranks import check_ranks, run_rank

import tcu
from tcu.distributed.words import agreed, share_of_words, signature_of, size_of, words_of
from tcu.engines import execute
from tcu.errors import DtypeError, InvalidOperationError, ParameterError, UnknownOptionError
from tcu.formats.format import format_of
from tcu.ops import OPERATIONS, Call, Operation, register
from tcu.ops.exact import Tally
from tcu.ops.layout import WHOLE, Along, Axes, Ragged, Whole
from tcu.surfaces.served import is_served
from tcu.surfaces.shares import Share, merged, rounded_share, share_of

EXACT = names_of(exact=True, kind="reduce", moments=False)


# Words


@pytest.mark.parametrize("product", [False, True])
def test_words_add_up_to_the_merged_share(product: bool) -> None:
    rng = np.random.default_rng(1)
    limit = 2 * (1024 + 1074) if product else 1024 + 1074
    for _ in range(200):
        shares = []
        for _ in range(rng.integers(1, 9)):
            integer = int.from_bytes(rng.bytes(limit // 8 + 4)) >> int(rng.integers(0, limit))
            counts = rng.integers(0, 3, 3).tolist() if rng.random() < 0.3 else [0, 0, 0]
            shares.append(
                Share(int(rng.integers(1 << 40)), Tally(-integer if rng.random() < 0.5 else integer, *counts))
            )
        summed = sum(words_of(share, [product], 7) for share in shares)
        assert summed.shape == (size_of([product]),)
        assert Share(*share_of_words(summed, [product])) == merged(shares)
        assert agreed(summed, len(shares), 7)


def test_a_share_may_have_several_sums() -> None:
    """As that of a variance has: of numbers, and of their squares."""
    kinds = [False, True, False]
    shares = [(n, Tally(-n, n), Tally(n << 2000, 0, 1), Tally(n * n, 0, 0, 2)) for n in range(1, 6)]
    summed = sum(words_of(share, kinds, 3) for share in shares)
    assert summed.shape == (size_of(kinds),) == (sum(size_of([kind]) for kind in kinds) - 6,)
    assert share_of_words(summed, kinds) == (15, Tally(-15, 15), Tally(15 << 2000, 0, 5), Tally(55, 0, 0, 10))
    assert agreed(summed, 5, 3)


def test_the_words_of_many_ranks_do_not_overflow() -> None:
    """2^31 ranks with the largest sum of 2^60 numbers each, without adding them up one by one."""
    largest = Share(1 << 32, Tally((1 << 1023 + 1074 + 60) - 1, 5, 5, 5))
    for sign in (1, -1):
        share = largest._replace(tally=largest.tally._replace(integer=sign * largest.tally.integer))
        words = words_of(share, [False], 0)
        assert abs(int(words[:-6].min()) * (1 << 31)) < 1 << 63
        assert int(words[:-6].max()) * (1 << 31) < 1 << 63


def test_a_signature_that_one_rank_does_not_share_is_noticed() -> None:
    rng = np.random.default_rng(2)
    share = Share(1, Tally(1))
    for ranks in (2, 3, 5, 100):
        for _ in range(50):
            given = [int(rng.integers(1 << 24))] * ranks
            for i in rng.integers(0, ranks, rng.integers(1, ranks)):
                given[i] = int(rng.integers(1 << 24))
            summed = sum(words_of(share, [False], each) for each in given)
            assert [agreed(summed, ranks, each) for each in given] == [len(set(given)) == 1] * ranks
    assert signature_of("a") != signature_of("b")
    assert signature_of("a") < 1 << 24


# Without processes


torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)


def test_what_is_refused_without_a_process_group() -> None:
    from tcu import distributed

    x = torch.ones(3)
    with pytest.raises(ParameterError, match=r"not initialized: call torch\.distributed\.init"):
        distributed.sum(x)
    with pytest.raises(
        ParameterError, match=r"takes PyTorch tensors, not numpy.ndarray: pass torch.from_numpy"
    ):
        distributed.fsum(np.ones(3))
    with pytest.raises(ParameterError, match=r"x requires grad.*x.detach\(\)"):
        distributed.fdot(x, x.clone().requires_grad_())


@pytest.mark.parametrize("operation", names_of(moments=True))
def test_parts_of_a_variance_lie_in_the_host_s_memory(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything asks for a GPU: there is no kernel for their shares, and that of an exact sum is not one."""
    monkeypatch.setattr("tcu.surfaces.shares.lives_on_gpu", lambda x: True)
    chosen = OPERATIONS[operation]
    with pytest.raises(ParameterError, match=rf"{operation} of an array in several places.*x\.cpu\(\)"):
        share_of(chosen, (np.ones(3),), chosen.values({}))


def test_the_module_is_loaded_when_it_is_asked_for() -> None:
    code = "import sys, tcu; assert 'torch' not in sys.modules; print(tcu.distributed.fsum.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fsum\n"


# With torchrun


@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.some(0)), 4])
def test_ranks(ranks: int) -> None:
    check_ranks(__file__, ranks)


def bits(value: Any) -> bytes:
    """Of a NumPy scalar or a 0-d tensor."""
    if isinstance(value, torch.Tensor):
        value = value.view(getattr(torch, f"int{8 * value.element_size()}")).numpy()
    return np.asarray(value).tobytes()


def tensor_of(x: Any) -> Any:
    from tcu.formats.tensor import tensor_of

    return tensor_of(x)


def pieces_for(rng: np.random.Generator, x: Any, ranks: int) -> list[Any]:
    """Cut anywhere; the same on all ranks, which draw the same numbers."""
    cuts = np.sort(rng.integers(0, x.size + 1, ranks - 1))
    return list(np.split(x, cuts))


def check_exact(distributed: Any, rank: int, ranks: int) -> None:
    rng = np.random.default_rng(3)
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for kind in ("finite", "cancelling", "special", "subnormal", "normal"):
            with np.errstate(all="ignore"):
                x = draw(rng, 3001, tcu.formats.get_format(dtype).dtype, kind)
            mine = tensor_of(pieces_for(rng, x, ranks)[rank])
            for operation in EXACT:
                arrays, shards = ([each for _ in OPERATIONS[operation].operands] for each in (x, mine))
                try:
                    wanted = getattr(tcu, operation)(*arrays)
                except InvalidOperationError:
                    with pytest.raises(InvalidOperationError):
                        getattr(distributed, operation)(*shards)
                    continue
                found = getattr(distributed, operation)(*shards)
                assert found.shape == ()
                assert bits(found) == bits(wanted), (operation, dtype, kind)


def check_planned(distributed: Any, rank: int, ranks: int) -> None:
    rng = np.random.default_rng(4)
    x = rng.standard_normal(50_001).astype(np.float32)
    for options in ({}, {"unit": "A100", "variant": "single-pass", "chain": 2}):
        parts = pieces_for(rng, x, ranks)
        totals = [Fraction(float(tcu.sum(part, dtype="float64", **options))) for part in parts]
        total = float(sum(totals))
        mine = torch.from_numpy(parts[rank])
        assert distributed.sum(mine, dtype=torch.float64, **options).item() == total
        assert distributed.mean(mine, dtype="float64", **options).item() == total / x.size
        pending = distributed.sum(mine, async_op=True, **options)
        assert bits(pending.wait()) == bits(np.float32(total))
        assert pending.wait() is pending.wait()
    totals = [Fraction(float(tcu.dot(part, part, dtype="float64"))) for part in parts]
    assert distributed.dot(mine, mine, dtype="float64").item() == float(sum(totals))
    assert distributed.norm(mine, dtype="float64").item() == float(sum(totals)) ** 0.5
    assert np.isnan(distributed.mean(torch.zeros(0)).item())
    assert bits(distributed.sum(torch.zeros(0, dtype=torch.float16))) == bits(np.float32(0))


def check_variances(distributed: Any, rank: int, ranks: int) -> None:
    """Any cut gives the exact variance; by plans it stays within the bound, and one rank has the bits of an array."""
    from operations import ROWS

    rng = np.random.default_rng(5)
    groups = [torch.distributed.new_group([each]) for each in range(ranks)]
    alone = groups[rank]
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        for kind in ("normal", "cancelling", "subnormal", "special"):
            with np.errstate(all="ignore"):
                x = draw(rng, 301, tcu.formats.get_format(dtype).dtype, kind)
            whole, mine = tensor_of(x), tensor_of(pieces_for(rng, x, ranks)[rank])
            for options in ({}, {"correction": 1}, {"correction": 2.5, "dtype": "float64"}):
                for name in names_of(moments=True, exact=True):
                    wanted = getattr(tcu, name)(x, **options)
                    assert bits(getattr(distributed, name)(mine, **options)) == bits(wanted), (
                        name,
                        dtype,
                        kind,
                    )
                for name in names_of(moments=True, exact=False):
                    given = {**options, "block": 64}
                    wanted = getattr(tcu, name)(x, **given)
                    assert bits(getattr(distributed, name)(whole, group=alone, **given)) == bits(wanted)
                    rows = getattr(distributed, name)(
                        whole.reshape(7, 43), 1, keepdims=True, group=alone, **given
                    )
                    assert (
                        bits(rows)
                        == getattr(tcu, name)(x.reshape(7, 43), 1, keepdims=True, **given).tobytes()
                    )
        x = draw(rng, 1001, tcu.formats.get_format(dtype).dtype, "normal")
        mine = tensor_of(pieces_for(rng, x, ranks)[rank])
        for name in names_of(moments=True, exact=False):
            found = Fraction(getattr(distributed, name)(mine, dtype="float64").item())
            exact = ROWS[name].oracle([Fraction(float(each)) for each in x])
            bound = getattr(tcu, f"{name}_error_bound")(x, dtype="float64")
            assert 0 < abs(found - exact) <= bound or dtype != "float64", (name, dtype)
            assert abs(found - exact) <= bound, (name, dtype)
    for name in names_of(moments=True):
        assert np.isnan(getattr(distributed, name)(torch.zeros(0)).item())
        assert np.isnan(getattr(distributed, name)(torch.full((2,), np.inf if rank else -np.inf)).item())
        with pytest.raises(ParameterError, match=r"rank 0: .*correction=0\.0; .*correction=1\.0"):
            getattr(distributed, name)(torch.ones(3), correction=float(bool(rank)))


class Split(NamedTuple):
    """Of an array of shape (3, 4, 5), or (4, 5): where ranks cut it along an axis, the same on all of them."""

    axis: int
    cuts: list[int]

    def parts(self, x: Any) -> list[Any]:
        return np.split(x, self.cuts, self.axis)


def wanted_of(operation: Operation, arrays: Any, layout: Any, split: Split) -> Any:
    """What the law of docs/distributed.md gives, row by row; None where the result has no value."""
    from operations import groups

    where, shape = groups(layout, arrays[0].shape)
    place = np.arange(arrays[0].size).reshape(arrays[0].shape)
    parts = [set(part.reshape(-1).tolist()) for part in split.parts(place)]
    results = []
    for group in where:
        lines = [x.reshape(-1)[group] for x in arrays]
        if operation.arithmetic != "planned":
            results.append(execute(Call(operation, tuple(lines), WHOLE, operation.values({})))[0])
            continue
        whole = OPERATIONS["dot" if operation.product else "sum"]
        own = [[x.reshape(-1)[[i for i in group if i in part]] for x in arrays] for part in parts]
        if operation.moments:  # whose shares tests/test_dask.py and tests/test_var.py look at
            share = merged(share_of(operation, each, operation.values({})) for each in own)
            results.append(rounded_share(operation, share, format_of(np.float32), operation.values({})))
            continue
        pairs = [(each[0], each[-1]) if operation.product else (each[0],) for each in own]
        totals = [execute(Call(whole, pair, WHOLE, whole.values({"dtype": "float64"})))[0] for pair in pairs]
        total = float(sum(map(Fraction, totals)))
        total = total / len(group) if operation.mean else total**0.5 if operation.root else total
        results.append(np.float64(total).astype(np.float32))
    return np.array(results, np.float32).reshape(shape)


def check_cells(distributed: Any, rank: int, ranks: int) -> None:
    """Every operation on every layout, where shards follow one another along any of its axes; one of a program's own."""
    from operations import all_cells

    from tcu.distributed.surface import run_over_ranks

    own = register(
        Operation(
            "peak", arithmetic="own", share=lambda rows: rows.max(1, initial=-np.inf, keepdims=True).astype(np.float64),
            merge=lambda parts: parts.max(0), finished=lambda shares, n: shares[:, 0] + n, layouts=(Whole, Along),
        )
    )  # fmt: skip
    rng = np.random.default_rng(8)
    for operation, layout in all_cells():
        arrays = tuple(rng.standard_normal((3, 4, 5)).astype(np.float32) for _ in operation.operands)
        line = tuple(torch.from_numpy(x.reshape(-1)) for x in arrays)
        call = operation, line if isinstance(layout, Ragged) else tuple(map(torch.from_numpy, arrays)), layout
        assert is_served(operation, type(layout), "ranks") == (
            operation.over_ranks and not isinstance(layout, Ragged)
        )
        if not operation.over_ranks:
            with pytest.raises(
                ParameterError, match=f"{operation} over ranks is not there, as it takes whole"
            ):
                run_over_ranks(*call)
            continue
        if isinstance(layout, Ragged):
            with pytest.raises(
                ParameterError, match=r"over ranks does not take segments.*on each rank's own"
            ):
                run_over_ranks(*call)
        # Scans: tests/test_carries.py; classes that ranks share: tests/test_vocabulary.py.
        elif operation.kind == "reduce" and operation.in_parts:
            axes = Axes.of(layout, (3, 4, 5)).reduced
            split = Split(axes[-1], np.sort(rng.integers(0, (3, 4, 5)[axes[-1]] + 1, ranks - 1)).tolist())
            shards = [tensor_of(split.parts(x)[rank].copy()) for x in arrays]
            for pending in (False, True):
                found = run_over_ranks(operation, tuple(shards), layout, async_op=pending)
                found = found.wait() if pending else found
                wanted = wanted_of(operation, arrays, layout, split)
                assert found.shape == wanted.shape
                assert bits(found) == wanted.tobytes(), (operation, layout, split)
    assert distributed.function_of(own)(torch.full((2, 3), float(rank)), 0).tolist() == [3.0 * ranks - 1] * 3
    none = torch.zeros((0 if rank else 2, 3))
    assert distributed.fsum(none, 0, keepdims=True).shape == (1, 3)
    assert distributed.fsum(torch.zeros((4, 0)), 0).shape == (0,)
    del OPERATIONS["peak"]
    infinite = torch.full((2, 1), np.inf if rank else -np.inf)
    with pytest.raises(InvalidOperationError):
        distributed.fsum(infinite, 0)
    with pytest.raises(
        UnknownOptionError,
        match="fsum has no option 'out': its options are dtype, beside axis, keepdims, group, async_op",
    ):
        distributed.fsum(infinite, out=infinite)
    with pytest.raises(ParameterError, match="async_op: cumsum waits for what comes before"):
        distributed.cumsum(infinite, async_op=True)
    with pytest.raises(ParameterError, match=r"rows \(2,\).*rows \(3,\)"):
        distributed.sum(torch.zeros((1, 2 + bool(rank))), 0)
    kind = DtypeError if rank else ParameterError
    with pytest.raises(kind, match=r"x has dtype torch\.int64"):
        distributed.sum(torch.zeros((1, 2), dtype=torch.int64 if rank else torch.float32), 0)


def check_groups(distributed: Any, rank: int, ranks: int) -> None:
    half = torch.distributed.new_group(list(range(ranks // 2)))
    if rank < ranks // 2:
        assert distributed.fsum(torch.ones(5), group=half).item() == 5 * (ranks // 2)
    else:
        with pytest.raises(ParameterError, match="not in the group"):
            distributed.fsum(torch.ones(5), group=half)
    torch.distributed.barrier()


def check_dtensors(distributed: Any, rank: int, ranks: int) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    x = np.random.default_rng(5).standard_normal((37, 11))
    whole = torch.from_numpy(x)
    line = init_device_mesh("cpu", (ranks,))
    square = init_device_mesh("cpu", (2, ranks // 2))
    for mesh, placements in (
        (line, [Shard(0)]), (line, [Shard(1)]), (line, [Replicate()]),
        (square, [Shard(0), Shard(1)]), (square, [Replicate(), Shard(0)]), (square, [Shard(1), Replicate()]),
    ):  # fmt: skip
        d = distribute_tensor(whole, mesh, placements)
        result = distributed.fsum(d)
        assert isinstance(result, DTensor)
        assert all(placement.is_replicate() for placement in result.placements)
        assert bits(result.to_local()) == bits(tcu.fsum(x)), placements
        assert bits(distributed.fdot(d, d).to_local()) == bits(tcu.fdot(x, x))
        for axis in (0, 1):
            for keepdims in (False, True):
                rows = distributed.fsum(d, axis, keepdims=keepdims)
                assert bits(rows.full_tensor()) == tcu.fsum(x, axis, keepdims=keepdims).tobytes(), placements
    refused = [
        (lambda: distributed.fsum(d, group=torch.distributed.group.WORLD), "leave group out"),
        (lambda: distributed.fdot(d, whole), "a tensor and a DTensor"),
        (lambda: distributed.fsum(DTensor.from_local(whole, line, [Partial()])), "redistribute it to Shard"),
        (lambda: distributed.fdot(d, distribute_tensor(whole, line, [Shard(0)])), "redistribute y as x"),
    ]
    for call, words in refused:
        with pytest.raises(ParameterError, match=words):
            call()


def check_disagreements(distributed: Any, rank: int, ranks: int) -> None:
    x = torch.ones(4, dtype=torch.float16 if rank else torch.float32)
    others = ", ".join(map(str, range(1, ranks)))
    with pytest.raises(ParameterError, match=f"rank 0: tcu .*{others}: tcu .*fsum of float16 to float32"):
        distributed.fsum(x)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tcu.version, "__version__", "9.9" if rank == ranks - 1 else "1.0")
        with pytest.raises(ParameterError, match=f"rank {ranks - 1}: tcu 9.9"):
            distributed.fsum(torch.ones(4))
    wrong, right = torch.ones(3, dtype=torch.int64), torch.ones(3)
    calls: list[Any] = [
        lambda a: distributed.fsum(a), lambda a: distributed.sum(a), lambda a: distributed.cumsum(a),
        lambda a: distributed.fdot(a, a), lambda a: distributed.fdot(right, a.int()),
    ]  # fmt: skip
    # One rank refuses: the others hear of it, and its next call is not taken for this one.
    for call in calls[:-1]:
        kind, words = (ParameterError, "rank 0: tcu .*, refused: x has dtype torch.int64") if rank else (
            DtypeError, "x has dtype torch.int64"
        )  # fmt: skip
        with pytest.raises(kind, match=words):
            call(right if rank else wrong)
        assert distributed.fsum(right).item() == 3 * ranks
    for call in calls:  # all do
        with pytest.raises(DtypeError):
            call(wrong)
    assert distributed.fsum(torch.ones(4)).item() == 4 * ranks  # and all is well again


def check_all(rank: int, ranks: int) -> None:
    from tcu import distributed

    for check in (
        check_exact,
        check_planned,
        check_variances,
        check_cells,
        check_groups,
        check_dtensors,
        check_disagreements,
    ):
        check(distributed, rank, ranks)


if __name__ == "__main__":
    run_rank(check_all)
