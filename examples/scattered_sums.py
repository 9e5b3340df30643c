"""A graph's messages and an embedding's gradient, added up by index, with the edges in any order.

Each node of a random graph adds up what its neighbours send, and each row of a table the gradients of the words that
looked it up.  ``index_add`` rounds after each addition, so that another order of the edges gives other bits; the sums of
``tcu.index_sum`` and ``tcu.embedding_gradient`` are exact and rounded once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch

import tcu

Tensor = torch.Tensor
Scatter = Callable[[Tensor, Tensor, int], Tensor]
"""(rows, the slot of each, slots) to sums."""
WIDTH = 16


def by_index_add(rows: Tensor, index: Tensor, size: int) -> Tensor:
    return torch.zeros(size, rows.shape[1], device=rows.device).index_add_(0, index, rows)


def by_tcu(rows: Tensor, index: Tensor, size: int) -> Tensor:
    return tcu.index_sum(rows, index, size)


def messages(scatter: Scatter, features: Tensor, edges: Tensor, weights: Tensor) -> Tensor:
    """What each node gets from those that point at it."""
    source, target = edges
    return scatter(features[source] * weights[:, None], target, len(features))


def table_gradient(scatter: Scatter, words: Tensor, upstream: Tensor, size: int) -> Tensor:
    if scatter is by_tcu:
        return tcu.embedding_gradient(upstream, words, size)
    return scatter(upstream, words, size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--edges", type=int, default=20_000)
    parser.add_argument("--orders", type=int, default=5, help="in how many orders the edges come")
    parser.add_argument("--device", default="cpu", help="cuda: compared with the CPU, too")
    given = parser.parse_args()
    generator = torch.Generator().manual_seed(1)
    features = torch.randn(given.nodes, WIDTH, generator=generator)
    edges = (
        given.nodes * torch.rand(2, given.edges, generator=generator) ** 2
    ).long()  # some nodes have many
    weights = torch.randn(given.edges, generator=generator)
    for name, scatter in (("index_add", by_index_add), ("tcu", by_tcu)):
        found: dict[str, set[bytes]] = {"messages": set(), "embedding": set()}
        for turn in range(given.orders):
            order = torch.randperm(given.edges, generator=generator) if turn else torch.arange(given.edges)
            for device in {"cpu", given.device}:
                some = [x.to(device) for x in (features, edges[:, order], weights[order])]
                sums = messages(scatter, *some)
                rows = table_gradient(scatter, some[1][1], some[0][some[1][0]], given.nodes)
                found["messages"].add(sums.cpu().numpy().tobytes())
                found["embedding"].add(rows.cpu().numpy().tobytes())
        told = ", ".join(f"{what} {len(results)} different" for what, results in found.items())
        print(f"{name:10} {given.orders} orders of {given.edges:,} edges: {told}")


if __name__ == "__main__":
    main()
