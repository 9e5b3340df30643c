"""Contract of ``where=``: reductions of the elements that a mask selects, as if the others were not there.

Each result has the bits that the function gives for its selected elements
alone: of whole arrays, along axes, by every reduction, whatever stands in the
other places, NaN and inf included.  Where nothing is selected a sum is 0 and a
mean NaN.  Masks broadcast to x as NumPy's do.  Tensors and Dask arrays give
the same, in a batch of vmap with a mask for each, too; no gradient reaches what is left out.  Other masks are refused in words.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from bits import same
from operations import LAYOUTS, groups

import tcu
from tcu.errors import DtypeError, ParameterError, ShapeError
from tcu.ops import OPERATIONS
from tcu.ops.layout import Along, Ragged, Whole

# PyTorch warns about itself: of torch.jit.script in forward mode, of what torch.compile imports.
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

REDUCTIONS = [each for each in OPERATIONS.values() if each.kind == "reduce" and Ragged in each.layouts]
ALONG = [*LAYOUTS[Whole], *LAYOUTS[Along]]
every_reduction = pytest.mark.parametrize("operation", REDUCTIONS, ids=str)


def drawn(operation: Any, dtype: Any = np.float32) -> tuple[Any, ...]:
    """Arrays (3, 4, 5) and a mask that selects nothing of some rows; NaN and inf stand where it is false."""
    rng = np.random.default_rng(11)
    mask = rng.random((3, 4, 5)) < 0.6
    mask[1, 2], mask[:, 1, 3] = False, False
    arrays = tuple(rng.standard_normal((3, 4, 5)).astype(dtype) for _ in operation.operands)
    for x in arrays:
        x[~mask] = rng.choice([np.nan, np.inf, -np.inf, 1.0], np.count_nonzero(~mask))
    return (*arrays, mask)


def given_for(layout: Any) -> dict[str, Any]:
    return {"axis": layout.axis, "keepdims": layout.keepdims} if isinstance(layout, Along) else {}


def alone(operation: Any, arrays: Any, mask: Any, layout: Any, **given: Any) -> Any:
    """Group by group, of the selected elements."""
    function, (where, shape) = getattr(tcu, operation.name), groups(layout, mask.shape)
    chosen = [[i for i in places if mask.reshape(-1)[i]] for places in where]
    found = [function(*(x.reshape(-1)[places] for x in arrays), **given) for places in chosen]
    return np.array(found).reshape(shape)


@every_reduction
@pytest.mark.parametrize("layout", ALONG, ids=str)
def test_results_are_those_of_the_selected_elements_alone(operation: Any, layout: Any) -> None:
    for dtype in (np.float16, ml_dtypes.bfloat16, np.float32, np.float64):
        *arrays, mask = drawn(operation, dtype)
        for given in ({}, {"dtype": "float64"}):
            found = getattr(tcu, operation.name)(*arrays, where=mask, **given_for(layout), **given)
            same(np.asarray(found), alone(operation, arrays, mask, layout, **given), dtype)


def test_nothing_selected_and_nan_skipped() -> None:
    x = np.array([[1.0, np.nan, 2.5], [np.nan, np.nan, np.nan], [-0.0, -0.0, np.nan]])
    seen = ~np.isnan(x)
    assert tcu.sum(x, 1, where=seen).tolist() == [3.5, 0.0, 0.0]
    assert not np.signbit(tcu.fsum(x, 1, where=seen)).any()
    np.testing.assert_array_equal(tcu.mean(x, 1, where=seen), [1.75, np.nan, 0.0])
    assert tcu.fsum(x, where=seen) == np.nansum(x) == 3.5
    assert tcu.norm(x, where=False) == 0
    assert np.isnan(tcu.var(x, where=False))
    assert tcu.sum(np.float64(3.0), where=np.True_) == 3


def test_masks_broadcast_and_integers_count() -> None:
    x = np.arange(24).reshape(2, 3, 4)
    rows = np.array([[True], [False], [True]])
    assert tcu.sum(x, where=rows) == x.sum(where=rows)
    assert tcu.sum(x, axis=(0, 1), where=rows).tolist() == x.sum(axis=(0, 1), where=rows).tolist()
    assert tcu.mean(x, where=x % 2 == 1) == x.mean(where=x % 2 == 1)
    big = np.array([2**62, 2**62, 2**62], np.int64)
    assert tcu.sum(big, where=[True, False, False]) == 2**62
    assert tcu.logsumexp(np.array([1.0, 2.0, 3.0]), where=[True, False, True]) == tcu.logsumexp(
        np.array([1.0, 3.0])
    )


def test_details_go_with_whole_arrays() -> None:
    x = np.arange(10.0)
    out = np.empty(())
    result, info = tcu.sum(x, where=x > 2, return_info=True)
    assert (result, info.plan.n) == (42, 7)
    assert tcu.fsum(x, where=x > 2, out=out) is out
    assert out == 42


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"where": [1, 0, 1]}, DtypeError, "where has dtype int64: give truth values"),
        ({"where": np.ones((2, 3), bool)}, ShapeError, r"where has shape \(2, 3\), x \(3,\): give a mask that broadcasts to x"),
        ({"where": np.ones(2, bool)}, ShapeError, r"where has shape \(2,\), x \(3,\)"),
        ({"where": True, "axis": 0, "out": np.empty(())}, ParameterError, "out with where and axis is not there"),
        ({"where": True, "axis": 0, "return_info": True}, ParameterError, "return_info with where and axis"),
        ({"where": True, "axis": 0, "progress": print}, ParameterError, "progress with where and axis"),
        ({"where": True, "axis": 1}, ParameterError, "axis 1 of an array with 1 axis"),
    ],
)  # fmt: skip
def test_what_is_refused(given: Any, error: Any, words: str) -> None:
    with pytest.raises(error, match=words):
        tcu.sum(np.ones(3), **given)


def test_masked_arrays_are_refused_beside_a_mask() -> None:
    x, mask = (
        np.random.default_rng(1).standard_normal((5, 40)),
        np.random.default_rng(2).random((5, 40)) < 0.5,
    )
    with pytest.raises(DtypeError, match="masked array"):
        tcu.sum(np.ma.masked_array(x, mask), where=mask)


@pytest.mark.some(5)
@every_reduction
def test_tensors_have_the_same_and_gradients(operation: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    *arrays, mask = drawn(operation, np.float64)
    function = getattr(tcu, operation.name)
    for layout in (Whole(), Along(1, True), Along((0, 2))):
        tensors = [torch.tensor(x, requires_grad=True) for x in arrays]
        result = function(*tensors, where=torch.tensor(mask), **given_for(layout))
        same(result.detach().numpy(), np.asarray(function(*arrays, where=mask, **given_for(layout))))
        result.nansum().backward()
        for x in tensors:
            assert not x.grad[~torch.tensor(mask)].any()
    clean = [torch.tensor(np.where(mask, x, 1.0), requires_grad=True) for x in arrays]
    assert torch.autograd.gradcheck(
        lambda *each: torch.nan_to_num(function(*each, axis=0, where=mask)), clean, check_forward_ad=True
    )


@pytest.mark.some(5)
@pytest.mark.filterwarnings(
    "ignore:There is a performance drop"
)  # PyTorch's gradients of segments, one after another
@every_reduction
def test_each_in_a_batch_of_vmap_has_its_own_mask(operation: Any) -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    *arrays, mask = map(torch.tensor, drawn(operation, np.float64))
    function, alike = getattr(tcu, operation.name), [x[0].nan_to_num(1, 2, 3) for x in arrays]

    def value(*given: Any, layout: Any) -> Any:
        *each, where = given
        return function(*each, where=where, **given_for(layout))

    for layout in (Whole(), Along(0), Along(1, True), Along((0, 1))):
        called, batch = partial(value, layout=layout), (0,) * len(arrays)
        one_by_one = [called(*given) for given in zip(*arrays, mask, strict=True)]
        same(torch.vmap(called)(*arrays, mask), torch.stack(one_by_one), layout)
        found = torch.vmap(called, (*(None for _ in arrays), 0))(*alike, mask)
        same(found, torch.stack([called(*alike, each) for each in mask]), "one array for all masks")
        gradient = torch.func.grad(lambda *given, called=called: called(*given).nansum())
        wanted = [gradient(*given) for given in zip(*arrays, mask, strict=True)]
        same(torch.vmap(gradient, (*batch, 0))(*arrays, mask), torch.stack(wanted), "gradients", layout)
        assert torch.vmap(called)(*(x[:0] for x in arrays), mask[:0]).shape == (0, *one_by_one[0].shape)
    with pytest.raises(
        ParameterError, match=r"return_info with where and a mask that torch\.func transforms is not there"
    ):
        torch.vmap(lambda *given: function(*given[:-1], where=given[-1], return_info=True)[0])(*arrays, mask)


def test_torch_compile_and_libraries_that_differ_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed", exc_type=ImportError)
    x = torch.ones(3)
    with pytest.raises(ParameterError, match="arrays of PyTorch, numpy: pass arrays of one library"):
        tcu.dot(x, np.ones(3), where=x > 0)
    with pytest.raises(Exception, match=r"where does not go through torch\.compile"):
        torch.compile(lambda a: tcu.sum(a, where=a > 0), backend="eager", fullgraph=True)(x)


@pytest.mark.parametrize("operation", [each for each in REDUCTIONS if each.in_parts], ids=str)
def test_dask_arrays_have_the_same(operation: Any) -> None:
    da = pytest.importorskip("dask.array", reason="needs dask: pip install 'tcu[dask]'")
    *arrays, mask = drawn(operation, np.float32)
    function = getattr(tcu, operation.name)
    for chunks, exactly in (((3, 4, 5), True), ((2, 3, 2), operation.exact)):
        lazy = [da.from_array(x, chunks) for x in arrays]
        for layout in (Whole(), Along(1, True), Along((0, 2))):
            found = function(*lazy, where=da.from_array(mask, (1, 4, 4)), **given_for(layout))
            assert isinstance(found, da.Array)
            expected = np.asarray(function(*arrays, where=mask, **given_for(layout)))
            if exactly and not operation.moments:
                same(np.asarray(found.compute()), expected)
            else:
                np.testing.assert_allclose(found.compute(), expected, rtol=1e-5, atol=1e-6)
    counts = da.from_array(np.arange(10), 4)
    assert tcu.sum(counts, where=counts > 6).compute() == 24
    with pytest.raises(ParameterError, match="out with a Dask array"):
        function(*lazy, where=True, out=1)
    with pytest.raises(ParameterError, match="where is a Dask array, x a ndarray: give both alike"):
        function(*arrays, where=da.from_array(mask))
    with pytest.raises(ParameterError, match="logsumexp of a Dask array with where is not there"):
        tcu.logsumexp(lazy[0], where=True)


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (np.ma.masked_array([True, False, True], [False, True, True]), "where is a masked array"),
        ("a", "where has dtype <U1: give truth values"),
        (np.array([None, None, None]), "where has dtype object: give truth values"),
    ],
    ids=["masked", "text", "objects"],
)
def test_what_is_no_mask_of_a_tensor(where: Any, words: str) -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(DtypeError, match=words):
        tcu.sum(torch.ones(3), where=where)


def test_masks_that_torch_func_transforms_beside_what_does_not_take_them() -> None:
    torch = pytest.importorskip("torch")
    mask = torch.ones(2, 3) > 0
    with pytest.raises(ParameterError, match=r"torch\.func transforms, and x is none: pass tensors"):
        torch.func.vmap(lambda each: tcu.sum(np.ones(3), where=each))(mask)
    with pytest.raises(ParameterError, match=r"of integers with a where that torch\.func transforms"):
        torch.func.vmap(lambda each: tcu.sum(torch.arange(3), where=each))(mask)
