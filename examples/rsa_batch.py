"""A thousand RSA signatures at once: powers modulo a number of 2,048 bits, of numbers in limbs.

With a GPU and PyTorch the powers are made there.  The key is drawn for this example alone, and the padding is none: this
shows arithmetic, not how to sign.
"""

from __future__ import annotations

import argparse
import math
import random
import sys

import numpy as np

from tcu import integers

PUBLIC = 65_537
ROUNDS = 24
"""Of Miller and Rabin's test; a composite number passes one with a probability of at most 1/4."""


def is_prime(n: int, source: random.Random) -> bool:
    odd, halvings = n - 1, 0
    while odd % 2 == 0:
        odd, halvings = odd // 2, halvings + 1
    for _ in range(ROUNDS):
        x = integers.powmod(source.randrange(2, n - 1), odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(halvings - 1):
            x = integers.powmod(x, 2, n)
            if x == n - 1:
                break
        else:
            return False
    return True


def drawn_prime(bits: int, source: random.Random) -> int:
    while True:
        n = source.getrandbits(bits) | 3 << bits - 2 | 1
        small = math.gcd(n, math.prod(range(3, 200, 2))) == 1
        if small and math.gcd(n - 1, PUBLIC) == 1 and is_prime(n, source):
            return n


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bits", type=int, default=2048)
    parser.add_argument("--messages", type=int, default=1000)
    parser.add_argument("--gpu", action="store_true", help="powers on the GPU, by PyTorch's tensors")
    asked = parser.parse_args()
    source = random.Random(37)
    p, q = (drawn_prime(asked.bits // 2, source) for _ in range(2))
    modulus, private = p * q, pow(PUBLIC, -1, math.lcm(p - 1, q - 1))
    messages = [source.randrange(modulus) for _ in range(asked.messages)]
    length = asked.bits // 32
    x, m, d, e = (
        integers.to_limbs(each, size, dtype=np.uint32)
        for each, size in ((messages, length), (modulus, length), (private, length), (PUBLIC, 1))
    )
    if asked.gpu:
        import torch

        x, m, d, e = (torch.from_numpy(each).cuda() for each in (x, m, d, e))
    signed = integers.powmod_limbs(x, d, m)
    opened = integers.powmod_limbs(signed, e, m)
    found = integers.from_limbs(opened.cpu() if asked.gpu else opened).tolist()
    print(f"{asked.messages:,} messages signed modulo a number of {modulus.bit_length():,} bits")
    print(
        f"{sum(a == b for a, b in zip(found, messages, strict=True)):,} of them come back from their signatures"
    )
    sys.exit(found != messages)


if __name__ == "__main__":
    main()
