"""Two training runs whose loss curves agree bit for bit, though the batch comes in another order.

A small network learns a sine with gradients of the whole batch.  Both runs see
the same samples, the second in reverse.  With ``torch.mean`` the losses differ
after a while, since another order rounds otherwise; with ``tcu.fmean``, and
gradients reduced by ``tcu.fsum``, every loss has the same bits.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

import tcu

Tensor = torch.Tensor
Reduce = Callable[[Tensor], Tensor]
"""Over the first axis, the batch."""
WIDTH = 8


def exact_rows(x: Tensor) -> Tensor:
    """The correctly rounded sum of each column."""
    columns = x.reshape(x.shape[0], -1)
    sums = torch.stack([tcu.fsum(columns[:, at].contiguous()) for at in range(columns.shape[1])])
    return sums.reshape(x.shape[1:])


def plain_rows(x: Tensor) -> Tensor:
    return x.sum(dim=0)


def train(x: Tensor, y: Tensor, steps: int, rate: float, reduce: Reduce) -> list[float]:
    """Losses of a network of one hidden layer, its gradients written out: each is a sum over the batch."""
    generator = torch.Generator().manual_seed(1)
    w1, b1, w2 = (torch.randn(WIDTH, generator=generator) for _ in range(3))
    losses = []
    for _ in range(steps):
        hidden = torch.tanh(x[:, None] * w1 + b1)
        # Not a matrix product, whose order of additions is the library's own.
        error = (hidden * w2).cumsum(dim=1)[:, -1] - y
        losses.append(float(reduce((error**2)[:, None])[0] / len(x)))
        back = error[:, None] * w2 * (1 - hidden**2)
        for weight, gradient in ((w2, error[:, None] * hidden), (w1, back * x[:, None]), (b1, back)):
            weight -= rate * reduce(gradient) / len(x)
    return losses


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=100)
    given = parser.parse_args()
    x = torch.linspace(-3, 3, given.samples)
    y = torch.sin(x)
    for name, reduce in (("torch.sum", plain_rows), ("tcu.fsum", exact_rows)):
        forward = train(x, y, given.steps, 0.05, reduce)
        backward = train(x.flip(0), y.flip(0), given.steps, 0.05, reduce)
        differing = [step for step, (a, b) in enumerate(zip(forward, backward, strict=True)) if a != b]
        told = f"differ from step {differing[0]} on" if differing else "agree bit for bit"
        print(f"{name:10} loss {forward[0]:.6f} -> {forward[-1]:.6f}: the curves {told}")


if __name__ == "__main__":
    main()
