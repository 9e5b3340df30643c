"""Second and third derivatives by torch.func, in every order of forward and reverse mode, and in batches: those of PyTorch's own functions.

Of layer_norm those of its formula: PyTorch's own are wrong in reverse over forward mode (torch 2.13; differences of its first
derivatives say so).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import tcu  # noqa: E402
from tcu.errors import ParameterError  # noqa: E402

# PyTorch warns about itself.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
functional = torch.nn.functional
OFFSETS = torch.tensor([0, 2, 2, 7, 15])
CLASSES = torch.tensor([4, 0, 2])
WEIGHT, BIAS = torch.linspace(0.5, 2, 5, dtype=torch.float64), torch.linspace(-1, 1, 5, dtype=torch.float64)


def of_segments(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Of a line that is cut at OFFSETS."""
    edges = OFFSETS.tolist()
    return lambda x: torch.stack([
        function(x.reshape(-1)[low:high]) for low, high in pairwise(edges)
    ])  # fmt: skip


def layer_norm(x: Any) -> Any:
    apart = x - x.mean(-1, keepdim=True)
    return apart / (apart.square().mean(-1, keepdim=True) + 1e-5).sqrt() * WEIGHT + BIAS


FUNCTIONS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "softmax": (lambda x: tcu.softmax(x, -1), lambda x: torch.softmax(x, -1)),
    "softmax along the first axis": (lambda x: tcu.softmax(x, 0), lambda x: torch.softmax(x, 0)),
    "log_softmax": (lambda x: tcu.log_softmax(x, -1), lambda x: torch.log_softmax(x, -1)),
    "logsumexp": (lambda x: tcu.logsumexp(x, -1), lambda x: torch.logsumexp(x, -1)),
    "logsumexp along both axes": (lambda x: tcu.logsumexp(x, (0, 1)), lambda x: torch.logsumexp(x, (0, 1))),
    "rms_norm": (tcu.rms_norm, lambda x: functional.rms_norm(x, x.shape[-1:])),
    "layer_norm": (
        lambda x: tcu.layer_norm(x, weight=WEIGHT, bias=BIAS),
        layer_norm,
    ),
    "normalize": (tcu.normalize, functional.normalize),
    "var": (lambda x: tcu.var(x, -1), lambda x: torch.var(x, -1, correction=0)),
    "std": (lambda x: tcu.std(x, (0, 1)), lambda x: torch.std(x, correction=0)),
    "cross_entropy": (
        lambda x: tcu.cross_entropy(x, CLASSES, label_smoothing=0.1),
        lambda x: functional.cross_entropy(x, CLASSES, label_smoothing=0.1),
    ),
    "sum": (lambda x: tcu.sum(x, axis=1), lambda x: x.sum(1)),
    "mean": (lambda x: tcu.mean(x, axis=(0, 1)), lambda x: x.mean()),
    "norm": (lambda x: tcu.norm(x, axis=0), lambda x: torch.linalg.vector_norm(x, dim=0)),
    "dot": (lambda x: tcu.dot(x, x * x, axis=1), lambda x: (x * x * x).sum(1)),
    "cumsum": (lambda x: tcu.cumsum(x, axis=0), lambda x: x.cumsum(0)),
    "matmul": (lambda x: tcu.matmul(x, x.mT), lambda x: x @ x.mT),
    "segment_sum": (lambda x: tcu.segment_sum(x.reshape(-1), OFFSETS), of_segments(torch.sum)),
    "segment_norm": (
        lambda x: tcu.segment_norm(x.reshape(-1), OFFSETS)[[0, 2, 3]],
        lambda x: of_segments(torch.linalg.vector_norm)(x)[[0, 2, 3]],
    ),
}
FUNCTIONS |= {
    "fft": (lambda x: tcu.fft.rfft(x).abs(), lambda x: torch.fft.rfft(x).abs()),
    "index_sum": (
        lambda x: tcu.index_sum(x * x, CLASSES, size=5),
        lambda x: torch.zeros(5, 5, dtype=x.dtype).index_add(0, CLASSES, x * x),
    ),
    "batched matmul": (lambda x: tcu.matmul(x.unsqueeze(1), x.unsqueeze(2)), lambda x: (x * x).sum(-1).reshape(-1, 1, 1)),
}  # fmt: skip
HOW: dict[str, Callable[[Any], Any]] = {
    "hessian": torch.func.hessian,
    "reverse over reverse": lambda f: torch.func.jacrev(torch.func.jacrev(f)),
    "reverse over forward": lambda f: torch.func.jacrev(torch.func.jacfwd(f)),
    "forward over forward": lambda f: torch.func.jacfwd(torch.func.jacfwd(f)),
    "forward three times": lambda f: torch.func.jacfwd(torch.func.jacfwd(torch.func.jacfwd(f))),
    "forward over reverse over forward": lambda f: torch.func.jacfwd(torch.func.jacrev(torch.func.jacfwd(f))),
    "in a batch": lambda f: torch.func.vmap(torch.func.hessian(f)),
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_of_derivatives_are_those_of_pytorch(name: str, how: str) -> None:
    rng = np.random.default_rng(7)
    shape = (2, 3, 5) if how == "in a batch" else (3, 5)
    x = torch.from_numpy(rng.standard_normal(shape))
    own, theirs = (
        HOW[how](lambda x, function=function: function(x).pow(3).sum())(x) for function in FUNCTIONS[name]
    )
    assert own.shape == theirs.shape
    assert torch.allclose(own, theirs, rtol=1e-10, atol=1e-10), float((own - theirs).abs().max())


def test_what_has_no_gradient_has_no_tangent() -> None:
    x, c, scales = torch.ones(3, dtype=torch.float64), torch.ones(2, dtype=torch.float64), torch.ones(3)
    a = torch.ones(3, 4)
    for function, given, message in (
        (lambda x: tcu.polyval(x, c), x, "x wants a gradient"),
        (lambda c: tcu.polyval(x, c), c, "c wants a gradient"),
        (lambda s: tcu.matmul(a, a.mT, scale_a=s, scale_b=scales), scales, "scale_a wants a gradient"),
        (lambda s: tcu.matmul(a, a.mT, scale_a=scales, scale_b=s), scales, "scale_b wants a gradient"),
    ):
        for way in (
            lambda f, x: torch.func.jvp(f, (x,), (x,)),
            lambda f, x: torch.func.jacfwd(f)(x),
            lambda f, x: torch.func.jacfwd(torch.func.jacfwd(f))(x),
        ):
            with pytest.raises(ParameterError, match=message):
                way(function, given)
    whole = torch.func.jacfwd(
        lambda a: tcu.matmul(a, torch.ones(4, 2), scale_a=scales, scale_b=torch.ones(2))
    )(a)
    assert torch.equal(whole.sum((0, 1)), torch.full((3, 4), 2.0)), "of operands with scales"
