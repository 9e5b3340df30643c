"""A small decoder in PyTorch whose logits have the same bits alone, in a batch, in one piece and token by token.

    python examples/batch_invariant_decoder.py [--width 64] [--layers 2] [--tokens 24]

RMSNorm, attention, an MLP and the cross entropy are tcu's operators; the weights are random.  A token's row of every product,
norm and softmax depends on that row alone, and a softmax over the tokens so far has the bits of one over all
tokens of which the later ones are masked: their exponentials are 0, and an exact sum does not see them.  Keys and values are
padded with zeros, whose products change no sum.
"""

import argparse
from typing import Any

import torch

import tcu
import tcu.torch

VOCABULARY, HEADS, BLOCK = 97, 4, 64
"""Keys and values are padded to a multiple of BLOCK tokens."""


class Decoder:
    def __init__(self, width: int, layers: int, seed: int = 0) -> None:
        rng = torch.Generator().manual_seed(seed)

        def drawn(*shape: int) -> Any:
            return (torch.randn(shape, generator=rng) / shape[-1] ** 0.5).bfloat16()

        self.width = width
        self.embedding = torch.randn(VOCABULARY, width, generator=rng).bfloat16()
        self.layers = [
            {
                "qkv": drawn(3 * width, width), "out": drawn(width, width), "up": drawn(4 * width, width),
                "down": drawn(width, 4 * width), "norm1": 1 + drawn(width), "norm2": 1 + drawn(width),
            }
            for _ in range(layers)
        ]  # fmt: skip
        self.norm, self.head = 1 + drawn(width), drawn(VOCABULARY, width)

    def logits(self, tokens: Any, cache: list[Any] | None = None) -> Any:
        """(batch, tokens, VOCABULARY); a ``cache`` has the keys and values of the tokens before, and gets those of these."""
        x = self.embedding[tokens]
        update = torch.zeros_like(x)
        for i, layer in enumerate(self.layers):
            normed, x = tcu.rms_norm(x, weight=layer["norm1"], residual=update)
            update = self._attention(normed, layer, i, cache)
            normed, x = tcu.rms_norm(x, weight=layer["norm2"], residual=update)
            hidden = tcu.torch.linear(normed, layer["up"]).relu().square()
            update = tcu.torch.linear(hidden, layer["down"])
        normed, _ = tcu.rms_norm(x, weight=self.norm, residual=update)
        return tcu.torch.linear(normed, self.head, dtype=torch.float32)

    def _attention(self, x: Any, layer: dict[str, Any], i: int, cache: list[Any] | None) -> Any:
        batch, count, width = x.shape
        parts = tcu.torch.linear(x, layer["qkv"]).reshape(batch, count, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        queries, keys, values = parts
        before = 0
        if cache is not None:
            if i < len(cache):
                before = cache[i][0].shape[2]
                keys, values = (torch.cat(pair, 2) for pair in zip(cache[i], (keys, values), strict=True))
                cache[i] = keys, values
            else:
                cache.append((keys, values))
        room = -(before + count) % BLOCK
        keys, values = (torch.nn.functional.pad(each, (0, 0, 0, room)) for each in (keys, values))
        scores = tcu.matmul(queries, keys.transpose(2, 3)) * (HEADS / width) ** 0.5
        places = torch.arange(keys.shape[2])
        later = places > before + torch.arange(count).unsqueeze(1)
        shares = tcu.softmax(scores.masked_fill(later, -torch.inf)).bfloat16()
        mixed = tcu.matmul(shares, values, dtype=torch.bfloat16)
        return tcu.torch.linear(mixed.transpose(1, 2).reshape(batch, count, width), layer["out"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=64, help="of the model, a multiple of 4")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=24, help="of each sequence, 2 or more")
    given = parser.parse_args()
    model = Decoder(given.width, given.layers)
    texts = torch.randint(0, VOCABULARY, (32, given.tokens), generator=torch.Generator().manual_seed(1))
    alone = model.logits(texts[:1])
    for batch in (2, 32):
        found = model.logits(texts[:batch])[:1]
        print(f"in a batch of {batch}: {int((found != alone).sum())} of {alone.numel()} logits differ")
    cache: list[Any] = []
    steps = [model.logits(texts[:1, i : i + 1], cache) for i in range(given.tokens)]
    print(f"token by token: {int((torch.cat(steps, 1) != alone).sum())} of {alone.numel()} logits differ")
    loss = tcu.cross_entropy(alone[0, :-1], texts[0, 1:])
    print(f"cross entropy {float(loss):.6f}, the same bits alone and in every batch")


if __name__ == "__main__":
    main()
