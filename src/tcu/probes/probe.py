"""``tcu.probe``: run every experiment that applies to a target and draw the conclusions."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tcu.formats.array import decode_array
from tcu.formats.format import Format
from tcu.formats.scalar import Number, encode
from tcu.probes.experiments import (
    ALIGNED_EXPERIMENTS,
    BLOCK_EXPERIMENTS,
    CHAIN_EXPERIMENTS,
    LATER,
    Dot,
    Experiment,
    Hypothesis,
)
from tcu.probes.finding import Case, Finding, Probe, Value
from tcu.probes.inputs import near_zero, ordinary, pair, product_far_below_c, tail_of_a_product, tail_of_c
from tcu.probes.judge import Candidate
from tcu.probes.kinds import Maker, in_both_formats
from tcu.probes.scale_inputs import cancelled_groups, sunken_groups
from tcu.probes.search import first_guess
from tcu.probes.target import Function, Question, Target, as_target, of_instruction
from tcu.units.arithmetic import AlignedSum, ExactBlock, FlushedTree, FusedChain, LateSum
from tcu.units.instruction import Unit

__all__ = ["probe"]


def probe(
    target: str | Unit | Function | Target,
    *,
    instruction: str = "mma",
    input: str = "binary16",
    output: str | None = None,
    k: int | None = None,
    scale: tuple[str, int] | None = None,
) -> Probe:
    """What a matrix unit computes, one experiment after another.

    Parameters
    ----------
    target:
        A unit's name ("H100"), "gpu" or "cpu" for what is at hand, a
        :class:`tcu.Unit`, or a function f(a, b, c) → d of arrays (M, k),
        (k, N), (M, N) that returns (M, N).
    instruction:
        "mma", "wgmma", "tcgen05" or a processor's mnemonic; for a function of no account.
    input, output:
        Formats; a function gets arrays of their dtypes.
    k:
        Products that one instruction adds up; a function must be given it.
    scale:
        The format of scales and how many k share one, ("ue8m0", 32): the function is f(a, b, c, scale_a, scale_b).

    Returns
    -------
    A :class:`Probe`: findings with the inputs used, the bits that came back,
    and what each hypothesis predicted.  A finding's value is None where no
    hypothesis agrees with every answer, or no operands of these formats tell
    the hypotheses apart.

    Source: paper 003, and what later chips made uncertain.

    Examples
    --------
    >>> import tcu
    >>> found = tcu.probe("V100")
    >>> found["block size"].conclusion
    '4 products at a time are aligned and added.'
    """
    known = (
        target if isinstance(target, Target)
        else as_target(target, instruction=instruction, input=input, output=output, k=k, scale=scale)
    )  # fmt: skip
    findings: list[Finding] = []
    kind = "aligned"
    if known.output.name == "s32":
        kind = "integer"
        findings.append(_wraps(known))
    else:
        base = FusedChain() if known.output.name == "binary64" else first_guess(known)
        if isinstance(base, FusedChain):
            kind = "chain"
            findings += [_Run(known, None).finding(experiment) for experiment in CHAIN_EXPERIMENTS]
        elif isinstance(base, AlignedSum) and known.scale is None:
            findings += [_Run(known, base).finding(experiment) for experiment in ALIGNED_EXPERIMENTS]
        else:
            kind = "block"
            applying = [each for each in BLOCK_EXPERIMENTS if len(each.hypotheses(base, known)) > 1]
            findings += [_Run(known, base).finding(experiment) for experiment in applying]
        findings += _specials(known)
    return Probe(
        known.name, known.input, known.output, known.k, kind, tuple(findings), known.second,  # type: ignore[arg-type]
    )  # fmt: skip


class _Run:
    """One target and the arithmetic that the hypotheses vary."""

    def __init__(self, target: Target, base: Candidate | None) -> None:
        self.target, self.base = target, base
        self.rng = np.random.default_rng(3)

    def finding(self, experiment: Experiment) -> Finding:
        hypotheses = experiment.hypotheses(self.base, self.target)
        cases = [self._case(dot, hypotheses) for dot in experiment.dots(self.base, self.target)]
        telling = [case for case in cases if len(set(case.predictions.values())) > 1]
        if experiment.search and not self._decided(telling, hypotheses):
            telling += self._search(telling, hypotheses)
        left = [h for h in hypotheses if all(h.name in case.agreeing for case in telling)]
        value, conclusion = self._conclusion(telling, left, experiment.several)
        return Finding(
            experiment.name, experiment.source, experiment.question, tuple(telling), value, conclusion
        )

    def _conclusion(
        self, cases: Sequence[Case], left: Sequence[Hypothesis], several: bool
    ) -> tuple[Value, str]:
        if not cases:
            return None, "No operands of these formats tell the hypotheses apart."
        if not left:
            return None, "None of the hypotheses agrees with every answer."
        if len({h.value for h in left}) > 1 and several:
            return "/".join(str(h.value) for h in left), " Or: ".join(h.conclusion for h in left)
        if len({h.value for h in left}) > 1:
            names = " and ".join(h.name for h in left)
            return None, f"The answers agree with {names}: nothing that was asked tells them apart."
        return left[0].value, left[0].conclusion

    def _decided(self, cases: Sequence[Case], hypotheses: Sequence[Hypothesis]) -> bool:
        left = {h.value for h in hypotheses if all(h.name in case.agreeing for case in cases)}
        return len(left) <= 1

    def _search(self, cases: Sequence[Case], hypotheses: Sequence[Hypothesis]) -> list[Case]:
        """Operands drawn at random on which the hypotheses that are left differ; a few suffice."""
        found: list[Case] = []
        plain = isinstance(self.base, AlignedSum | None) and self.target.scale is None
        for attempt in range(60 if plain else 300):
            left = [h for h in hypotheses if all(h.name in case.agreeing for case in [*cases, *found])]
            if len({h.value for h in left}) <= 1:
                break
            kinds: tuple[Maker, ...] = (pair, ordinary, near_zero)
            if isinstance(self.base, ExactBlock | FlushedTree | LateSum):
                kinds = (*kinds, tail_of_c, tail_of_a_product, product_far_below_c)
            if self.target.scale is not None:
                kinds = (cancelled_groups, sunken_groups, ordinary)
            q = in_both_formats(kinds[attempt % len(kinds)], self.target, self.rng)
            spots = self._spots(q, left)
            if not len(spots):
                continue
            i, j = (int(x) for x in spots[0])
            dot = self._dot(q, i, j)
            case = self._case(dot, hypotheses)
            if len(set(case.predictions.values())) > 1:
                found.append(case)
        return found

    def _spots(self, q: Question, left: Sequence[Hypothesis]) -> npt.NDArray[np.int64]:
        """Where the models differ; for references that are no models, any place."""
        models = [h for h in left if not callable(h.model)]
        if len(models) < len(left):
            return np.array([[int(self.rng.integers(0, 16)), int(self.rng.integers(0, 8))]])
        predictions = [self._model(h).answer(q) for h in models]
        differ = np.zeros(q.c.shape, bool)
        for other in predictions[1:]:
            differ |= other != predictions[0]
        return np.argwhere(differ)

    def _dot(self, q: Question, i: int, j: int) -> Dot:
        x, y = self.target.input, self.target.right
        a = decode_array(q.a[i] >> np.array(x.storage_shift, q.a.dtype), x)
        b = decode_array(q.b[:, j] >> np.array(y.storage_shift, q.b.dtype), y)
        c = float(decode_array(q.c[i, j : j + 1], self.target.output)[0])
        if q.scales is None or self.target.scale is None:
            return Dot(tuple(a.tolist()), tuple(b.tolist()), c)
        left, right = (decode_array(each, self.target.scale) for each in (q.scales[0][i], q.scales[1][:, j]))
        return Dot(tuple(a.tolist()), tuple(b.tolist()), c, tuple(left.tolist()), tuple(right.tolist()))

    def _model(self, hypothesis: Hypothesis) -> Target:
        assert not callable(hypothesis.model)
        return of_instruction(hypothesis.name, self.target.instruction(hypothesis.model, (16, 8)))

    def _case(self, dot: Dot, hypotheses: Sequence[Hypothesis]) -> Case:
        returned = self._asked(self.target, dot)
        predictions = {}
        for h in hypotheses:
            if callable(h.model):
                predictions[h.name] = h.model(self.target, dot)
            else:
                predictions[h.name] = self._asked(self._model(h), dot)
        return Case(dot.a, dot.b, dot.c, returned, predictions, dot.scale_a, dot.scale_b)

    def _asked(self, target: Target, dot: Dot) -> int:
        scales = [(dot.scale_a, dot.scale_b)] if dot.scale_a else None
        return int(target.dots([list(dot.a)], [list(dot.b)], [dot.c], scales)[0])


def _specials(target: Target) -> list[Finding]:
    """Signs of zero, overflow, NaN: the same questions for every floating-point target."""
    z = target.output

    def ask(a: list[float], b: list[float], c: float, **predictions: int) -> Case:
        code = int(target.dots([a], [b], [c])[0])
        names = {name.replace("_", " "): value for name, value in predictions.items()}
        return Case(tuple(a), tuple(b), c, code, names)

    def finding(
        name: str, question: str, case: Case, values: dict[str, Value], text: dict[str, str]
    ) -> Finding:
        agreeing = case.agreeing[0] if case.agreeing else None
        if agreeing is None:
            return Finding(
                name, LATER, question, (case,), f"{case.returned:#x}", f"It is {case.returned:#x}."
            )
        return Finding(name, LATER, question, (case,), values[agreeing], text[agreeing])

    zero = ask([0.0], [0.0], -0.0, plus=0, minus=z.sign_code)
    infinite = z.infinity_code
    most, other, count = target.input.max_finite, target.right.max_finite, min(2, target.k)
    over = ask([most] * count, [other] * count, z.max_finite,
               inf=infinite, saturated=z.max_finite_code)  # fmt: skip
    nan = ask([1.0], [1.0], math.nan, all_fraction_bits=z.nan_code,
              quiet_bit=infinite | 1 << (z.fraction_bits - 1))  # fmt: skip
    invalid = ask([math.inf], [0.0], 0.0, all_fraction_bits=z.nan_code,
                  negative_quiet_bit=z.sign_code | infinite | 1 << (z.fraction_bits - 1))  # fmt: skip
    reach = encode(Number.of(most), z) if most < z.max_finite else None
    findings = [
        finding("sign of zero", "What is -0 + 0 · 0?", zero, {"plus": "+0", "minus": "-0"},
                {"plus": "A zero sum is +0, also where c is -0.", "minus": "c = -0 comes back as -0."}),
        finding("NaN bits", "Which NaN comes back for a NaN?", nan,
                {"all fraction bits": "all ones", "quiet bit": "payload"},
                {"all fraction bits": "Every NaN comes back with all fraction bits set.",
                 "quiet bit": "The payload of a NaN comes back."}),
    ]  # fmt: skip
    if target.input.has_infinity and target.right.has_infinity:
        findings.append(_nan_priority(target))
    if target.input.has_infinity:
        findings.append(finding(
            "invalid operation", "What is inf · 0?", invalid,
            {"all fraction bits": "all ones", "negative quiet bit": "negative"},
            {"all fraction bits": "inf · 0 is the NaN with all fraction bits set.",
             "negative quiet bit": "inf · 0 is the negative default NaN."},
        ))  # fmt: skip
    if reach is None or over.returned == infinite:
        findings.append(finding("overflow", "What is a sum beyond the largest number?", over,
                                {"inf": "inf", "saturated": "saturates"},
                                {"inf": "A sum beyond the largest number is inf.",
                                 "saturated": "A sum beyond the largest number saturates."}))  # fmt: skip
    return findings


def _nan_priority(target: Target) -> Finding:
    """By signs and payloads: a's NaN is positive, b's negative, c's another than theirs."""
    x, y, z = target.input, target.right, target.output

    def quieted(fmt: Format, payload: int) -> int:
        return z.infinity_code | 1 << z.fraction_bits - 1 | payload << z.fraction_bits - fmt.fraction_bits

    a, b = np.zeros((1, target.k), x.code_dtype), np.zeros((target.k, 1), y.code_dtype)
    a[0, 0] = x.infinity_code + 1 << x.storage_shift
    b[0, 0] = y.sign_code + y.infinity_code + 1 << y.storage_shift
    c = np.array([[z.infinity_code | 2]], z.code_dtype)
    told = {"a": quieted(x, 1), "b": z.sign_code | quieted(y, 1), "c": quieted(z, 2)}
    case = Case((math.nan,), (math.nan,), math.nan, int(target(a, b, c)[0, 0]), told)
    first = case.agreeing[0] if case.agreeing else "none"
    text = f"That of {first}, quieted." if case.agreeing else f"None of them: it is {case.returned:#x}."
    return Finding(
        "NaN priority", LATER, "Which NaN comes back where a, b and c are NaN?", (case,), first, text
    )


def _wraps(target: Target) -> Finding:
    count = min(4, target.k)
    top = target.input.max_finite
    exact = 2**31 - 1 + count * int(top) ** 2
    case_code = int(target.dots([[top] * count], [[top] * count], [2.0**31 - 1])[0])
    case = Case((top,) * count, (top,) * count, 2.0**31 - 1, case_code,
                {"wraps": exact & 0xFFFFFFFF, "saturates": 2**31 - 1})  # fmt: skip
    wraps = "wraps" in case.agreeing
    text = "A sum beyond 32 bits wraps around." if wraps else "A sum beyond 32 bits saturates."
    return Finding("integer overflow", LATER, "What is a sum beyond 32 bits?", (case,),
                   "wraps" if wraps else "saturates", text)  # fmt: skip
