"""The table of operations: every one of them, on every layout, through every surface.

Contract: an operation gives what its oracle says for each group of elements
alone, exactly or within its error; PyTorch's tensors and Dask arrays give the
bits of NumPy's, and so do files, in Python and on the command line (over ranks:
tests/test_distributed.py); a surface that does not serve a layout refuses it in words
before it computes anything, and the documentation's table (tests/test_site.py) says
which.  An operation of a program's own is served like tcu's.
"""

from __future__ import annotations

import io
import json
import re
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from operations import ROWS, all_cells, groups, names_of, needed

import tcu
from tcu import stubs
from tcu.cli.app import main
from tcu.engines import execute
from tcu.errors import ParameterError, UnknownNameError, UnknownOptionError
from tcu.formats.format import format_of
from tcu.formats.scalar import Number, decode, encode
from tcu.ops import OPERATIONS, Call, Operation, find_operation, register
from tcu.ops.layout import LABELS, WHOLE, Along, Layout, Ragged
from tcu.streams import passes
from tcu.streams.surface import run_on_files
from tcu.surfaces import functions, served
from tcu.surfaces.call import run
from tcu.surfaces.functions import FUNCTIONS, function_of

CONTRIBUTING = Path(__file__).parents[1] / "CONTRIBUTING.md"
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
CELLS = all_cells()


def named(cell: Any) -> str:
    operation, layout = cell
    return f"{operation.name}-{LABELS[type(layout)]}-{'-'.join(map(str, layout))}"


every_cell = pytest.mark.parametrize("cell", CELLS, ids=named)
every_dtype = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)


def mapped_axis(operation: Operation, layout: Layout) -> int | None:
    """The axis along which results lie that are as many as the elements."""
    return layout.axis if operation.kind != "reduce" and isinstance(layout, Along) else None


def operands(operation: Operation, layout: Layout, dtype: Any) -> tuple[Any, ...]:
    rng = np.random.default_rng(60)
    shape = (60,) if isinstance(layout, Ragged) else (3, 4, 5)
    return tuple(rng.standard_normal(shape).astype(dtype) for _ in operation.operands)


def call(operation: Operation, layout: Layout, arrays: tuple[Any, ...]) -> Call:
    return Call(operation, arrays, layout, operation.values({}))


def test_every_operation_has_a_row() -> None:
    assert ROWS.keys() == OPERATIONS.keys()


def test_operations_are_found_by_what_they_are() -> None:
    """Which other tests take their lists from."""
    assert {"var", "std", "fvar", "fstd"} <= set(names_of(moments=True))
    assert {"var", "std"} <= set(names_of(moments=True, exact=False)) <= set(names_of(arithmetic="planned"))
    assert set(names_of(moments=True, exact=True)) == set(names_of(moments=True)) & set(names_of(exact=True))
    assert {"dot", "norm", "fdot", "fnorm"} <= set(names_of(product=True))
    assert {"softmax", "logsumexp", "normalize"} <= set(names_of(in_parts=False))
    assert needed(tcu.segment_dot) == ["x", "y", "offsets"]


@every_cell
@every_dtype
def test_each_group_has_the_oracle_s_result(cell: Any, dtype: Any) -> None:
    operation, layout = cell
    row, arrays = ROWS[operation.name], operands(operation, layout, dtype)
    result, _ = execute(call(operation, layout, arrays))
    where, shape = groups(layout, arrays[0].shape)
    lines = [[Fraction(float(value)) for value in x.reshape(-1)] for x in arrays]
    axis = mapped_axis(operation, layout)
    found = np.asarray(result) if axis is None else np.moveaxis(result, axis, -1)
    if operation.kind == "scan":
        where = [group[: i + 1] for group in where for i in range(len(group))]
    elif operation.kind == "map":  # the oracle looks at the first element
        where = [[each, *(i for i in group if i != each)] for group in where for each in group]
    if operation.kind != "reduce":
        shape = found.shape
    assert found.shape == shape
    target = format_of(found.dtype)
    for place, value in zip(where, found.reshape(-1), strict=True):
        expected = row.oracle(*([line[i] for i in place] for line in lines))
        if expected is None:
            np.testing.assert_equal(float(value), row.nothing)
            continue
        code = int(np.array([value]).view(target.code_dtype)[0])
        if row.size is None:
            assert code == encode(rounded(expected), target), (place, value)
        else:
            size = row.size(*([line[i] for i in place] for line in lines))
            bound = len(place) * size * Fraction(2) ** -24
            if target.bits == 16:  # which a row that is mapped is rounded to
                bound += abs(expected) * Fraction(2) ** -(target.fraction_bits + 1)
            assert abs(decode(code, target).value - expected) <= bound, (place, value)


def rounded(value: Fraction) -> Number:
    """A fraction as a number of 300 bits, and one more that says whether something was cut off."""
    if not value:
        return Number("finite", False, 0, 0)
    shift = 300 - value.numerator.bit_length() + value.denominator.bit_length()
    scaled = abs(value) * Fraction(2) ** shift
    return Number("finite", value < 0, 2 * int(scaled) + (scaled.denominator != 1), -shift - 1)


@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell[0].kind == "reduce"], ids=named)
def test_a_group_has_the_bits_that_it_has_alone(cell: Any) -> None:
    operation, layout = cell
    arrays = operands(operation, layout, np.float16)
    result, _ = execute(call(operation, layout, arrays))
    where, _ = groups(layout, arrays[0].shape)
    lines = [x.reshape(-1) for x in arrays]
    alone = [execute(call(operation, WHOLE, tuple(line[place] for line in lines)))[0] for place in where]
    same(np.asarray(result).reshape(-1), np.array(alone, np.asarray(result).dtype))


def test_functions_of_segments_give_each_what_it_has_alone() -> None:
    x, offsets = np.random.default_rng(5).standard_normal(70).astype(np.float16), [0, 2, 35, 36, 70]
    given = {"x": x, "y": x[::-1].copy(), "offsets": offsets}
    of_segments = [name.removeprefix("segment_") for name in FUNCTIONS if name.startswith("segment_")]
    assert {"sum", "mean", "dot", "norm", "var", "fsum", "cumsum", "softmax"} <= set(of_segments)
    for name in of_segments:
        function = getattr(tcu, f"segment_{name}")
        result = function(*(given[each] for each in needed(function)))
        lines = [given[each] for each in OPERATIONS[name].operands]
        alone = [getattr(tcu, name)(*(line[begin:end] for line in lines)) for begin, end in pairwise(offsets)]
        same(result, np.hstack(alone).astype(result.dtype), name)


@every_cell
@every_dtype
def test_tensors_have_the_bits_of_arrays(cell: Any, dtype: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    from tcu.formats.tensor import host_view, tensor_of

    operation, layout = cell
    arrays = operands(operation, layout, dtype)
    expected = run(*call(operation, layout, arrays))
    found = run(*call(operation, layout, tuple(map(tensor_of, arrays))))
    assert type(found) is torch.Tensor
    same(host_view(found), np.asarray(expected))
    watched = tuple(tensor_of(x).requires_grad_() for x in arrays)
    recorded = run(*call(operation, layout, watched))
    assert recorded.requires_grad
    same(host_view(recorded), np.asarray(expected))
    recorded.double().nansum().backward()
    assert all(x.grad is not None and x.grad.shape == x.shape for x in watched)


@every_cell
def test_dask_arrays_have_the_bits_of_arrays_or_are_refused(cell: Any) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    operation, layout = cell
    arrays = operands(operation, layout, np.float32)

    def fail(block: Any) -> Any:
        raise AssertionError("computed")

    lazy = tuple(da.from_array(x).map_blocks(fail, dtype=x.dtype, meta=x[:0]) for x in arrays)
    if not served.is_served(operation, type(layout), "Dask"):
        with pytest.raises(ParameterError, match="Dask array"):
            run(*call(operation, layout, lazy))
        return
    assert isinstance(run(*call(operation, layout, lazy)), da.Array)
    found = run(*call(operation, layout, tuple(map(da.from_array, arrays)))).compute()
    same(np.asarray(found), np.asarray(run(*call(operation, layout, arrays))))


def saved(folder: Path, arrays: tuple[Any, ...]) -> list[str]:
    paths = [str(folder / f"{name}.npy") for name in "xy"[: len(arrays)]]
    for path, x in zip(paths, arrays, strict=True):
        np.save(path, x)
    return paths


@every_cell
@pytest.mark.parametrize("dtype", [np.float16, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_files_have_the_bits_of_arrays_or_are_refused(cell: Any, dtype: Any, tmp_path: Path) -> None:
    operation, layout = cell
    arrays = operands(operation, layout, dtype)
    paths, out = saved(tmp_path, arrays), tmp_path / "out.npy"
    scan = operation.kind == "scan"
    one_line = layout.axis is None if scan and isinstance(layout, Along) else True
    if not (served.is_served(operation, type(layout), "files") and one_line):
        words = (
            "of files takes all numbers, as one line: for axes" if operation.in_parts else "takes whole rows"
        )
        with pytest.raises(ParameterError, match=f"{operation} {words}"):
            run_on_files(operation, tuple(paths), layout)
        return
    found = run_on_files(operation, tuple(paths), layout, **({"out": out} if scan else {}))
    same(np.load(out) if scan else np.asarray(found), np.asarray(run(*call(operation, layout, arrays))))


@every_cell
def test_the_command_line_has_the_bits_of_arrays_or_refuses(
    cell: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operation, layout = cell
    arrays = operands(operation, layout, np.float32)
    out = str(tmp_path / "out.npy")
    axes = layout.axis if isinstance(layout, Along) else None
    axes = axes if isinstance(axes, tuple) else () if axes is None else (axes,)
    into_file = axes or operation.kind == "scan"
    options = [text for axis in axes for text in ("--axis", str(axis))]
    options += ["-o", out] if into_file else ["--json"]
    options += ["--offsets", "0"] if isinstance(layout, Ragged) else []
    code = main([operation.name, *saved(tmp_path, arrays), *options])
    printed = capsys.readouterr()
    if not served.is_served(operation, type(layout), "command line"):
        assert code == 2
        assert re.search(r"error: no such (option: --offsets|command)", printed.err)
        return
    assert code == 0, printed.err
    expected = np.asarray(run(*call(operation, layout, arrays)))
    if into_file:
        same(np.load(out), expected.reshape(np.load(out).shape))
    else:  # all axes are the whole array
        assert int(json.loads(printed.out)["bits"], 16) == int(expected.reshape(()).view(np.uint32))


@pytest.mark.parametrize("name", [each.name for each in OPERATIONS.values() if each.moments])
def test_a_correction_reaches_files_and_the_command_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """From a pipe, too, which is read once."""
    x = operands(OPERATIONS[name], WHOLE, np.float32)[0]
    (path,), out = saved(tmp_path, (x,)), tmp_path / "out.npy"
    expected = getattr(tcu, name)(x, correction=1.5)
    assert expected != getattr(tcu, name)(x)
    same(np.asarray(run_on_files(OPERATIONS[name], (path,), WHOLE, correction=1.5)), np.asarray(expected))
    with open(path, "rb") as file:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(file.read())))
    for given in (path, "-"):
        assert main([name, given, "--correction", "1.5", "--json"]) == 0
        assert int(json.loads(capsys.readouterr().out)["bits"], 16) == int(expected.view(np.uint32))
    assert main([name, path, "--correction", "1.5", "--axis", "1", "-o", str(out)]) == 0
    same(np.load(out), getattr(tcu, name)(x, 1, correction=1.5))
    assert main(["sum", path, "--correction", "1"]) == 2
    assert "no such option: --correction" in capsys.readouterr().err


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=str)
@pytest.mark.parametrize(
    "layout", [WHOLE, Along(0), Ragged([0, 60])], ids=lambda layout: LABELS[type(layout)]
)
def test_a_layout_that_is_not_served_is_refused_in_words(operation: Operation, layout: Layout) -> None:
    served_here = served.is_served(operation, type(layout), "NumPy")
    assert served_here == (type(layout) in operation.layouts)
    if served_here:
        return
    arrays = operands(operation, layout, np.float32)
    words = f"{operation.name} does not take {LABELS[type(layout)]}, only "
    with pytest.raises(ParameterError, match=re.escape(words)):
        run(*call(operation, layout, arrays))
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    with pytest.raises(ParameterError, match=re.escape(words)):
        run(*call(operation, layout, tuple(map(torch.from_numpy, arrays))))


def test_sums_by_index_are_served_where_the_table_says_so() -> None:
    """tests/test_slot_shares.py and its neighbours compare what they give."""
    pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    for module, surface in ((tcu.streams, "files"), (tcu.distributed, "ranks")):
        there = {name for name in served.BY_INDEX if hasattr(module, name)}
        assert there == {name for name, row in served.BY_INDEX.items() if surface in row}
        assert all(getattr(module, name).__doc__ for name in there)
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    x, index = da.ones((4, 1), chunks=2), np.arange(4)
    calls: dict[str, Any] = {
        "bincount": lambda: tcu.bincount(index, x[:, 0], 4), "histogram": lambda: tcu.histogram(x, 2, (0, 1))[0],
        "reduce_by_key": lambda: tcu.reduce_by_key(index, x)[1],
    }  # fmt: skip
    for name, row in served.BY_INDEX.items():
        result = calls.get(name, lambda name=name: getattr(tcu, name)(x, index, 4))()
        assert isinstance(result, da.Array) == ("Dask" in row), name


def test_the_stubs_have_the_signatures() -> None:
    for module in stubs.HEADS:
        assert Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8") == stubs.stub(module)
    assert FUNCTIONS.keys() <= set(dir(tcu))
    assert all(function.__doc__ for function in FUNCTIONS.values())
    others = {name for name, function in FUNCTIONS.items() if getattr(tcu, name) is not function}
    assert others == {"layer_norm", "rms_norm"}  # which take weights besides: tcu.surfaces.row_norms
    assert set(functions.__all__) == FUNCTIONS.keys() - others  # or a type checker takes the wrong ones


def test_an_option_that_a_function_does_not_have_is_named() -> None:
    with pytest.raises(UnknownOptionError, match="dot has no option 'unit': its options are block, dtype"):
        tcu.dot(np.ones(3), np.ones(3), unit="V100")
    with pytest.raises(
        TypeError,
        match="cumsum has no option 'block': its options are exclusive, reverse, unit, variant, chain, accumulator, dtype",
    ):
        tcu.segment_cumsum(np.ones(3), [0, 3], block=64)
    with pytest.raises(
        UnknownOptionError,
        match=r"^fsum has no option 'axes': did you mean axis\? its options are dtype, beside axis, keepdims, dim, keepdim, where, out$",
    ):
        tcu.fsum(np.ones(3), axes=0)
    with pytest.raises(
        UnknownOptionError,
        match=r"^softmax has no option 'foo': its options are dtype, beside axis, dim, out$",
    ):
        tcu.softmax(np.ones(3), foo=1)
    with pytest.raises(
        UnknownOptionError,
        match=r"^segment_fsum has no option 'foo': its options are dtype, beside out, check$",
    ):
        tcu.segment_fsum(np.ones(3), [0, 3], foo=1)


def test_names_are_looked_up_and_taken_once() -> None:
    assert find_operation("sum") is OPERATIONS["sum"]
    with pytest.raises(UnknownNameError, match="unknown operation 'sums': did you mean"):
        find_operation("sums")
    with pytest.raises(ParameterError, match="there is an operation 'sum' already: choose another name"):
        register(Operation("sum"))
    with pytest.raises(ParameterError, match="the operation 'spread' needs share, merge and finished"):
        register(Operation("spread", arithmetic="own"))


@pytest.fixture(scope="module")
def example() -> Any:
    """The operation of CONTRIBUTING.md, made as it says."""
    text = CONTRIBUTING.read_text(encoding="utf-8")
    section = text[text.index("## A new operation") :]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    names: dict[str, Any] = {}
    exec(code[1], names)
    yield names
    del OPERATIONS["peak_to_peak"]


def test_the_guide_s_operation_on_the_host(example: Any) -> None:
    peak_to_peak, segments = example["peak_to_peak"], example["segment_peak_to_peak"]
    x = operands(OPERATIONS["sum"], WHOLE, np.float32)[0]
    assert peak_to_peak(x) == np.ptp(x)
    for axis in (0, -1, (0, 2)):
        same(peak_to_peak(x, axis, keepdims=True), np.ptp(x, axis, keepdims=True))
    found = segments(x.reshape(-1), [0, 7, 7, 60])
    assert found[0] == np.ptp(x.reshape(-1)[:7])
    assert np.isnan(found[1])
    assert peak_to_peak(x, dtype="float16").dtype == np.float16
    out = np.empty(4, np.float32)
    assert peak_to_peak(x, (0, 2), out=out) is out


def test_the_guide_s_operation_on_tensors(example: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    peak_to_peak = example["peak_to_peak"]
    x = torch.from_numpy(operands(OPERATIONS["sum"], WHOLE, np.float64)[0]).requires_grad_()
    for axis in (0, (1, 2)):
        assert torch.equal(peak_to_peak(x, axis), x.amax(axis) - x.amin(axis))
        assert torch.autograd.gradcheck(lambda x, axis=axis: peak_to_peak(x, axis), x)
    assert torch.autograd.gradcheck(peak_to_peak, x)
    compiled = torch.compile(lambda x: peak_to_peak(2 * x, -1), backend="eager", fullgraph=True)
    assert torch.equal(compiled(x), 2 * peak_to_peak(x, -1))
    assert torch.equal(torch.vmap(lambda x: peak_to_peak(x, 0))(x), peak_to_peak(x, 1))


def test_the_guide_s_operation_on_dask_arrays(example: Any) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    peak_to_peak = example["peak_to_peak"]
    x = operands(OPERATIONS["sum"], WHOLE, np.float32)[0]
    for chunks in ((3, 4, 5), (1, 2, 2)):
        lazy = da.from_array(x, chunks=chunks)
        assert peak_to_peak(lazy).compute() == np.ptp(x)
        for axis in (0, (0, 2)):
            for keepdims in (False, True):
                found = peak_to_peak(lazy, axis, keepdims=keepdims)
                same(found.compute(), np.ptp(x, axis, keepdims=keepdims))
                assert found.shape == np.ptp(x, axis, keepdims=keepdims).shape


def test_the_guide_s_operation_on_files(example: Any, tmp_path: Path) -> None:
    """In strips of seven numbers, from a pass that was interrupted."""
    operation = OPERATIONS["peak_to_peak"]
    x = operands(OPERATIONS["sum"], WHOLE, np.float32)[0]
    (path,) = saved(tmp_path, (x,))
    kept: dict[str, Any] = {"checkpoint": tmp_path / "state.json"}
    peak_to_peak = tcu.streams.function_of(operation)

    def stop(count: int) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passes, "_STRIP", 7 * 4)
        patch.setattr(passes, "_STRIPS", 20 * 4)
        with pytest.raises(KeyboardInterrupt):
            peak_to_peak(path, progress=stop, **kept)
        done: list[int] = []
        assert peak_to_peak(path, progress=done.append, **kept) == np.ptp(x)
        assert done == [20, 20, 20]
    np.save(path, x[:0])
    assert np.isnan(peak_to_peak(path))


def test_an_operation_without_a_derivative_says_so() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    operation = register(
        Operation(
            "first", arithmetic="own", share=lambda rows: rows[:, :1].astype(np.float64), merge=lambda parts: parts[0],
            finished=lambda shares, n: shares[:, 0],
        )
    )  # fmt: skip
    try:
        result = function_of(operation)(torch.ones(3, requires_grad=True))
        with pytest.raises(
            ParameterError, match="first has no gradient: detach x, or register it with a derivative"
        ):
            result.backward()
    finally:
        del OPERATIONS["first"]
