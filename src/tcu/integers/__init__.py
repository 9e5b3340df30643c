"""Long integers, exactly: Python's of any size and sign, arrays of limbs in batches, and transforms modulo a prime.

A result has the same bits whoever computes it.  Where gmpy2 is installed (``pip install "tcu[gmp]"``), GMP does what is
faster there; else a number-theoretic transform of tcu's own multiplies what is long, and Python the rest.
"""

from tcu.integers.limbs import from_limbs as from_limbs
from tcu.integers.limbs import multiply_limbs as multiply_limbs
from tcu.integers.limbs import multiply_mod_limbs as multiply_mod_limbs
from tcu.integers.limbs import powmod_limbs as powmod_limbs
from tcu.integers.limbs import square_limbs as square_limbs
from tcu.integers.limbs import to_limbs as to_limbs
from tcu.integers.numbers import divmod as divmod
from tcu.integers.numbers import isqrt as isqrt
from tcu.integers.numbers import mod as mod
from tcu.integers.numbers import multiply as multiply
from tcu.integers.numbers import power as power
from tcu.integers.numbers import powmod as powmod
from tcu.integers.numbers import product as product
from tcu.integers.numbers import square as square
from tcu.integers.polynomials import multiply_polynomials as multiply_polynomials
from tcu.integers.polynomials import taylor_shift as taylor_shift
from tcu.integers.text import from_text as from_text
from tcu.integers.text import to_text as to_text
from tcu.integers.transforms import MODULUS as MODULUS
from tcu.integers.transforms import intt as intt
from tcu.integers.transforms import ntt as ntt
