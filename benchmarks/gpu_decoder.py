"""Training steps of a decoder on a GPU: plain PyTorch, compiled, and under tcu.torch.reproducible.

    python benchmarks/gpu_decoder.py [--only NAMES] [--quick] [--without-parts] [--dry-run]

RMSNorm, causal attention, an MLP and the cross entropy, as PyTorch's own functions in a program that knows nothing of tcu: of width
2048 with 8 layers in bfloat16, 32 sequences of 512 tokens.  A step is forward, backward and a gradient step; its time is the median of
CUDA events around it, participants take turns.  The parts are timed alone, forward and backward, and counted as often as a step
has them; what they leave is addition, copies and the host.

In the same run: the logits of a sequence alone and in the batch, and the weights of a small decoder after three steps on the GPU
and on the CPU, must have the same bits under tcu.torch.reproducible, or the exit status is 1.  ``--only plain,reproducible`` leaves
out participants, ``--quick`` measures a smaller decoder, and both write nothing; so does --dry-run, on the CPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import record
import torch

import tcu
import tcu.torch

functional = torch.nn.functional
PLAIN, COMPILED, REPRODUCIBLE = NAMES = ("plain", "compiled", "reproducible")
STEPS, WARM_UPS = 5, 2
RATE = 1e-3


@dataclass(frozen=True)
class Size:
    width: int = 2048
    layers: int = 8
    heads: int = 16
    vocabulary: int = 32768
    batch: int = 32
    tokens: int = 512


QUICK = Size(1024, 2, 8, 8192, 8, 256)
SMALL = Size(64, 2, 4, 96, 3, 32)
"""What the CPU computes, too."""


class Layer(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, size: Size) -> None:
        super().__init__()
        width, self.heads = size.width, size.heads
        self.norms = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(width)) for _ in range(2)])
        self.qkv, self.out = (torch.nn.Linear(width, each * width, bias=False) for each in (3, 1))
        self.up, self.down = (
            torch.nn.Linear(width, 4 * width, bias=False),
            torch.nn.Linear(4 * width, width, bias=False),
        )

    def forward(self, x: Any) -> Any:
        x = x + self.out(attention(self.qkv(norm(x, self.norms[0])), self.heads))
        return x + self.down(activation(self.up(norm(x, self.norms[1]))))


class Decoder(torch.nn.Module):  # type: ignore[misc]
    def __init__(self, size: Size) -> None:
        super().__init__()
        self.embedding = torch.nn.Embedding(size.vocabulary, size.width)
        self.layers = torch.nn.ModuleList([Layer(size) for _ in range(size.layers)])
        self.norm = torch.nn.Parameter(torch.ones(size.width))
        self.head = torch.nn.Linear(size.width, size.vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return self.head(norm(x, self.norm))


def norm(x: Any, weight: Any) -> Any:
    return functional.rms_norm(x, x.shape[-1:], weight, 1e-6)


def activation(x: Any) -> Any:
    return functional.relu(x).square()


def attention(qkv: Any, heads: int) -> Any:
    batch, tokens, width = qkv.shape
    parts = qkv.view(batch, tokens, 3, heads, -1).permute(2, 0, 3, 1, 4)
    mixed = functional.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
    return mixed.transpose(1, 2).reshape(batch, tokens, width // 3)


def loss_of(logits: Any, target: Any) -> Any:
    return functional.cross_entropy(logits.flatten(0, 1).float(), target.flatten())


def made(size: Size, device: str) -> tuple[Any, Any, Any]:
    """(a decoder, tokens, and what follows each)"""
    torch.manual_seed(0)
    model = Decoder(size).bfloat16().to(device)
    text = torch.randint(size.vocabulary, (size.batch, size.tokens + 1))
    return model, text[:, :-1].contiguous().to(device), text[:, 1:].contiguous().to(device)


def stepping(model: Any, forward: Any, tokens: Any, target: Any) -> Callable[[], Any]:
    parameters = list(model.parameters())

    def step() -> Any:
        loss = loss_of(forward(tokens), target)
        gradients = torch.autograd.grad(loss, parameters)
        with torch.no_grad():
            for each, gradient in zip(parameters, gradients, strict=True):
                each.sub_(gradient * RATE)
        return loss.detach()

    return step


def context(name: str) -> AbstractContextManager[Any]:
    return tcu.torch.reproducible() if name == REPRODUCIBLE else nullcontext()


def timed(calls: dict[str, Callable[[], Any]], on_gpu: bool, steps: int = STEPS) -> dict[str, float]:
    """Seconds of each."""
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(-WARM_UPS if on_gpu else 0, steps):
        for name, call in calls.items():
            with context(name):
                if on_gpu:
                    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                    begin.record()
                    call()
                    end.record()
                    end.synchronize()
                    seconds = begin.elapsed_time(end) * 1e-3
                else:
                    start = time.perf_counter()
                    call()
                    seconds = time.perf_counter() - start
            if number >= 0:
                taken[name].append(seconds)
    return {name: statistics.median(each) for name, each in taken.items()}


def parts_of(size: Size, device: str) -> dict[str, tuple[int, Callable[..., Any], tuple[Any, ...]]]:
    """By name: how often a step has it, what it does, and with what; all that is floating-point has a gradient."""
    rows, width, layers = (size.batch, size.tokens), size.width, size.layers

    def drawn(*shape: int) -> Any:
        return torch.randn(shape, device=device).bfloat16().requires_grad_()

    def whole(*shape: int) -> Any:
        return torch.randint(size.vocabulary, shape, device=device)

    products = {
        "qkv": (layers, width, 3 * width), "out": (layers, width, width), "up": (layers, width, 4 * width),
        "down": (layers, 4 * width, width), "head": (1, width, size.vocabulary),
    }  # fmt: skip
    return {
        **{
            f"product, {name}": (count, functional.linear, (drawn(*rows, inner), drawn(outer, inner)))
            for name, (count, inner, outer) in products.items()
        },
        "attention": (layers, lambda x: attention(x, size.heads), (drawn(*rows, 3 * width),)),
        "norm": (2 * layers + 1, norm, (drawn(*rows, width), drawn(width))),
        "activation": (layers, activation, (drawn(*rows, 4 * width),)),
        "embedding": (1, lambda x, table: functional.embedding(x, table), (whole(*rows), drawn(size.vocabulary, width))),
        "loss": (1, loss_of, (drawn(*rows, size.vocabulary), whole(*rows))),
    }  # fmt: skip


def part_times(size: Size, device: str, names: list[str]) -> list[dict[str, Any]]:
    found = []
    for part, (count, function, given) in parts_of(size, device).items():
        wanted = [each for each in given if each.requires_grad]

        def call(function: Any, given: Any = given, wanted: Any = wanted) -> Callable[[], Any]:
            upstream = torch.ones_like(function(*given))

            def run() -> Any:
                return torch.autograd.grad(function(*given), wanted, upstream)

            return run

        calls = {
            name: call(torch.compile(function, dynamic=False) if name == COMPILED else function)
            for name in names
        }
        seconds = timed(calls, device == "cuda")
        found.append({"part": part, "count": count, "seconds": seconds})
        shown = "  ".join(f"{name} {each * count * 1e3:8.2f} ms" for name, each in seconds.items())
        print(f"{part:14s} × {count:3d}  {shown}", flush=True)
    return found


def same_alone(model: Any, tokens: Any) -> bool:
    """Whether the logits of a sequence are those that it has in the batch."""
    with torch.no_grad(), tcu.torch.reproducible():
        return torch.equal(model(tokens[:1]), model(tokens)[:1])


def same_on_cpu(device: str) -> bool:
    """Whether a small decoder has the same weights after three steps on the GPU and on the CPU."""
    weights = []
    for where in ("cpu", device):
        model, tokens, target = made(SMALL, where)
        step = stepping(model, model, tokens, target)
        with tcu.torch.reproducible():
            for _ in range(3):
                step()
        weights.append([each.detach().cpu() for each in model.parameters()])
    return all(torch.equal(a, b) for a, b in zip(*weights, strict=True))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default=",".join(NAMES), help="of " + ", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="a smaller decoder; nothing is written")
    parser.add_argument("--without-parts", action="store_true")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, small; nothing is written")
    asked = parser.parse_args()
    names = [name for name in NAMES if name in asked.only.split(",")]
    device = "cpu" if asked.dry_run else "cuda"
    size = SMALL if asked.dry_run else QUICK if asked.quick else Size()
    model, tokens, target = made(size, device)
    calls = {}
    for name in names:
        forward = torch.compile(model, dynamic=False) if name == COMPILED else model
        calls[name] = stepping(model, forward, tokens, target)
    with tcu.torch.reproducible() as mode:
        calls[REPRODUCIBLE]() if REPRODUCIBLE in calls else None
    right = {"a sequence alone": same_alone(model, tokens), "on the CPU": same_on_cpu(device)}
    seconds = timed(calls, device == "cuda")
    for name, each in seconds.items():
        print(
            f"{name:14s} {each * 1e3:8.1f} ms a step, {size.batch * size.tokens / each:,.0f} tokens a second",
            flush=True,
        )
    print(f"the same bits: {right}; not covered: {sorted(mode.uncovered) or 'nothing'}", flush=True)
    parts = [] if asked.without_parts else part_times(size, device, names)
    if names == list(NAMES) and not (asked.quick or asked.without_parts or asked.dry_run):
        figures = {
            "size": asdict(size), "steps": seconds, "parts": parts, "right": right, "uncovered": sorted(mode.uncovered),
        }  # fmt: skip
        print(record.save("gpu-decoder", figures, {"torch": torch.__version__}))
    return int(not all(right.values()))


if __name__ == "__main__":
    sys.exit(main())
