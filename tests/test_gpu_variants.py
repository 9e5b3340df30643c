"""Contract: on a GPU, the papers' variants return the model's bits, by every plan.

The kernels compile without a GPU, with the instruction that was meant, and
the layouts of tiles in them are those of the plans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest
from gpu_support import gpu_or_skip, unit_or_skip
from launches import ends_here, launch_variant
from test_gpu_compile import nvrtc_or_skip

import tcu
from tcu.formats import format_of, get_format
from tcu.gpu import Gpu, UnsupportedInstructionError, sums
from tcu.gpu.arrays import DeviceArray
from tcu.gpu.compiler import compile_cuda, task_of
from tcu.gpu.device import call, current
from tcu.gpu.launch import SPACE, KernelChoice
from tcu.gpu.variants import variant_recipe
from tcu.plan import MmaStep, Plan, make_plan, tile_order
from tcu.units import CATALOGUE

Array = npt.NDArray[Any]

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64]
VARIANTS = ["single-pass", "recurrence", "two-mma", "split", "warp-shuffle"]
ATOMIC = ["single-pass-atomic", "split-atomic"]
"""Whose bits a GPU need not repeat."""
CHAINS = [1, 2, 3, 5, 8]
BLOCKS = [32, 64, 128, 256, 512, 1024, 96]
LENGTHS = [0, 1, 2, 31, 255, 256, 257, 1000, 1009, 4095, 65537, 104729]
FORMATS = ["float16", "bfloat16", "float32", "float64"]


def plan_for(n: int, dtype: Any, unit: str, **options: Any) -> Plan:
    return make_plan(n, format_of(np.dtype(dtype)), CATALOGUE[unit], **options)


def address_of(x: Any) -> int:
    return int(x.ctypes.data)


# Without a GPU.


@dataclass
class Recorded:
    """What would have been launched."""

    macros: dict[str, Any]
    source: str
    blocks: int
    threads: int
    problem: Any


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> list[Recorded]:
    """Launches end here instead of on a GPU."""
    done: list[Recorded] = []

    def start(choice: KernelChoice, _: Any, stream: int) -> None:
        source = f"{choice.source}.cu"
        done.append(Recorded(dict(choice.macros), source, choice.blocks, choice.threads, choice.problem))

    ends_here(monkeypatch, start)
    return done


def pretended(n: int, dtype: Any, capability: tuple[int, int], **options: Any) -> Plan:
    """Launch as on a GPU of that kind; the array lies one element behind a multiple of 16 bytes."""
    plan = plan_for(n, dtype, "T4" if capability == (7, 5) else "A100", **options)
    size = np.dtype(dtype).itemsize
    x = DeviceArray(4096 + size, (n,), (1,), np.dtype(dtype), 0, None)
    launch_variant(plan, x, 8192, get_format("float32"), Gpu(0, "GPU", capability), 0)
    return plan


MNEMONICS = {
    "float16": "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    "bfloat16": "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32",
    "float32": "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32",
    "float64": "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64",
}


@pytest.mark.some(14)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", [*VARIANTS, *ATOMIC])
def test_kernels_compile_with_the_instruction_of_the_plan(
    recorded: list[Recorded], variant: str, dtype: Any
) -> None:
    nvrtc_or_skip()
    pretended(100_000, dtype, (8, 0), variant=variant)
    for record in recorded:
        ptx = compile_cuda(task_of(record.source, record.macros, "sm_80")).ptx
        assert (MNEMONICS[np.dtype(dtype).name] in ptx) == (variant != "warp-shuffle")
        assert "mma.sync" in ptx or variant == "warp-shuffle"
        # Rows of a tile that are k must be transposed on the way, rows that are dot products must not.
        transposed = {False: variant != "two-mma", True: False}[np.dtype(dtype).itemsize > 2]
        assert (".trans" in ptx) == (transposed and variant != "warp-shuffle")
        assert ".local" not in ptx, "register arrays must stay in registers"


@pytest.mark.some(6)
@pytest.mark.parametrize("accumulator", ["float16", "float32"])
@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (9, 0), (10, 0), (12, 0)])
def test_binary16_on_every_architecture(
    recorded: list[Recorded], capability: tuple[int, int], accumulator: str
) -> None:
    nvrtc_or_skip()
    pretended(100_000, np.float16, capability, variant="split", accumulator=accumulator, chain=3)
    pretended(100_000, np.float16, capability, variant="recurrence", accumulator=accumulator)
    k = 8 if capability == (7, 5) else 16
    names = {"float16": "f16.f16.f16.f16", "float32": "f32.f16.f16.f32"}
    for record in recorded:
        ptx = compile_cuda(task_of(record.source, record.macros, "sm_{}{}".format(*capability))).ptx
        closing = names["float32" if record.source == "blocks.cu" else accumulator]
        for types in (names[accumulator], closing):
            assert f"mma.sync.aligned.m16n8k{k}.row.col.{types} " in ptx
        assert f"m16n8k{24 - k}." not in ptx


def test_launches_follow_the_plan(recorded: list[Recorded]) -> None:
    n = 1_000_000
    plan = pretended(n, np.float16, (8, 0), variant="recurrence", chain=2)
    assert [record.problem.x.n for record in recorded] == [n, 1954, 4]
    assert [record.problem.groups for record in recorded] == [1954, 4, 1]
    assert [record.macros["LAYOUT"] for record in recorded] == ["SHIFTED", "ALIGNED", "ALIGNED"]
    assert [record.problem.out for record in recorded] == [0, 0, 8192]
    assert recorded[1].problem.x.data == recorded[0].problem.results
    assert recorded[1].problem.results == recorded[0].problem.results + 3920, "from a multiple of 16 bytes on"
    assert all(record.problem.stored for record in recorded), "the result is in the format of the elements"
    assert len(plan.parts[0].steps) == 2 * len(recorded)

    recorded.clear()
    plan = pretended(n, np.float16, (8, 0), variant="split", chain=3, block=96, fraction=0.3)
    (record,) = recorded
    assert record.problem.border == plan.parts[1].start
    assert record.problem.chained * 3 * 3 * 256 == record.problem.border
    assert record.blocks == record.problem.blocks
    assert record.problem.blocks == record.problem.chained + math.ceil((n - record.problem.border) / 96)
    assert record.problem.totals == record.problem.slots + 8 * record.problem.blocks

    recorded.clear()
    for variant in VARIANTS:
        pretended(0, np.float16, (8, 0), variant=variant)
    assert {(record.source, record.blocks, record.problem.blocks) for record in recorded} == {
        ("blocks.cu", 1, 0)
    }


def test_one_launch_for_all_levels_follows_the_plan() -> None:
    """What each level reads and how many blocks its barrier waits for; no more blocks than run at the same time."""
    gpu: Any = SimpleNamespace(
        compute_capability=(9, 0), name="GPU", multiprocessors=4, resident_threads=2048, resident_blocks=32
    )
    n = 10_000_000
    for block, layout, resident in (
        (32, "ALIGNED", 32),
        (96, "ALIGNED", 16),
        (1024, "SHIFTED", 1),
        (128, "STRIDED", 8),
    ):
        plan = plan_for(n, np.float16, "H100", variant="recurrence", chain=2, block=block)
        operand = sums.contiguous(4096, n)
        recipe = variant_recipe(plan, operand, layout, get_format("float32"), gpu, together=True)  # type: ignore[arg-type]
        (choice,) = recipe.kernels
        problem, warps = choice.problem, block // 32
        assert (choice.entry, choice.cooperative, choice.blocks) == ("levels_together", True, 4 * resident)
        assert choice.macros["RESIDENT"] == resident
        groups = [19_532, 39, 1]
        assert list(problem.groups)[: problem.levels] == groups
        # From multiples of 16 bytes on.
        assert list(problem.begins)[:3] == [0, 39_072, 39_152]
        second = min(math.ceil(39 / warps), choice.blocks)
        assert list(problem.due)[:3] == [0, choice.blocks, choice.blocks + second]
        assert recipe.space == ("levels together", 8192, False)
        assert choice.takes["results"] == (SPACE, 128), "in no line that all blocks look at"
    small = variant_recipe(
        plan_for(257, np.float16, "H100", variant="two-mma"), sums.contiguous(4096, 257), "ALIGNED",
        get_format("float32"), gpu, together=True,
    )  # fmt: skip
    assert [choice.blocks for choice in small.kernels] == [2], "no more than have a group on the first level"
    with_nothing = plan_for(0, np.float16, "H100", variant="two-mma")
    (choice,) = variant_recipe(
        with_nothing, sums.contiguous(4096, 0), "ALIGNED", get_format("float32"), gpu, together=True
    ).kernels
    assert choice.source == "blocks", "which has no levels"


@pytest.mark.parametrize("dtype", DTYPES[1:])
def test_older_gpus_are_told_what_to_do(recorded: list[Recorded], dtype: Any) -> None:
    x = DeviceArray(4096, (100,), (1,), np.dtype(dtype), 0, None)
    target, turing = get_format("float32"), Gpu(0, "T4", (7, 5))
    plan = plan_for(100, dtype, "A100", variant="single-pass")
    with pytest.raises(
        UnsupportedInstructionError, match=r"need compute capability 8\.0, T4 has 7\.5.*shuffle"
    ):
        launch_variant(plan, x, 0, target, turing, 0)
    launch_variant(plan_for(100, dtype, "A100", variant="warp-shuffle"), x, 0, target, turing, 0)
    assert len(recorded) == 1


# The maps of cuda/device/mma/chains.cuh, written a second time: from numbers of a tile to the registers of lanes,
# and what the PTX ISA says that a lane's registers of operand A are.


def place_of(vector: int) -> int:
    return vector ^ (vector >> 3 & 1)


def words_of_16_bits(columns: bool) -> dict[tuple[int, int, int], int]:
    """(lane, word, half) → number of the tile, by 16-byte loads and ldmatrix."""
    shared = {place_of(lane): [8 * lane + i for i in range(8)] for lane in range(32)}
    found = {}
    for matrix in range(4):
        lower, right = (matrix // 2, matrix % 2) if columns else (matrix % 2, matrix // 2)
        lines = [shared[place_of(2 * (row + 8 * lower) + right)] for row in range(8)]
        for lane in range(32):
            for half in range(2):
                row, column = lane // 4, 2 * (lane % 4) + half  # ldmatrix; .trans exchanges them
                found[lane, matrix, half] = lines[column][row] if columns else lines[row][column]
    return found


@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_tiles_of_16_bit_numbers_become_operands(layout: Any) -> None:
    step = MmaStep((16, 16, 16), "binary16", "binary32", 16, 1, layout)
    order = tile_order(step)
    for (lane, word, half), number in words_of_16_bits(layout == "columns").items():
        dot, k = lane // 4 + 8 * (word % 2), 2 * (lane % 4) + half + 8 * (word // 2)
        assert number == order[k][dot]


@pytest.mark.parametrize("layout", ["rows", "columns"])
@pytest.mark.parametrize(
    ("shape", "operand", "words"), [((16, 16, 8), "tf32", 4), ((8, 8, 4), "binary64", 1)]
)
def test_tiles_of_wide_numbers_become_operands(layout: Any, shape: Any, operand: str, words: int) -> None:
    dots, k_dim = shape[0], shape[2]
    order = tile_order(MmaStep(shape, operand, "binary32", dots, 1, layout))
    taken = set()
    for lane in range(32):
        for word in range(words):
            dot, k = lane // 4 + 8 * (word % 2), lane % 4 + 4 * (word // 2)
            number = k * dots + dot if layout == "columns" else dot * k_dim + k
            assert number == order[k][dot]
            taken.add(number)
    assert taken == set(range(dots * k_dim))


def test_vectors_meet_no_others_in_their_banks() -> None:
    for start in range(0, 32, 8):
        assert len({place_of(start + i) % 8 for i in range(8)}) == 8, "stored by a quarter of a warp"
    for lower in range(2):
        for right in range(2):
            assert len({place_of(2 * (row + 8 * lower) + right) % 8 for row in range(8)}) == 8, "one matrix"


# With a GPU.


@dataclass
class Device:
    """The GPU at hand, its model, and memory that is given back."""

    gpu: Gpu
    unit: str
    pieces: list[Any]

    def upload(self, data: Array) -> int:
        address = int(call("cuMemAlloc", data.nbytes + 64))
        self.pieces.append(address)
        if data.nbytes:
            call("cuMemcpyHtoD", address, address_of(data), data.nbytes)
        return address

    def free(self) -> None:
        for address in self.pieces:
            call("cuMemFree", address)
        self.pieces.clear()


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    gpu = gpu_or_skip()
    found = Device(gpu, unit_or_skip(gpu).name, [])
    with current(gpu):
        yield found
        found.free()


def contiguous(rng: np.random.Generator, x: Array) -> tuple[Array, int, tuple[int, ...], tuple[int, ...]]:
    """(what lies in memory, its first element, shape, strides): from any element on."""
    offset = int(rng.integers(0, 9)) if rng.random() < 0.7 else 0
    return np.concatenate([garbage(rng, x, offset), x, garbage(rng, x, 9)]), offset, x.shape, (1,)


def strided(rng: np.random.Generator, x: Array) -> tuple[Array, int, tuple[int, ...], tuple[int, ...]]:
    step = int(rng.integers(2, 4))
    memory = garbage(rng, x, step * x.size + 1)
    memory[: step * x.size : step] = x
    return memory, 0, x.shape, (step,)


def reversed_(rng: np.random.Generator, x: Array) -> tuple[Array, int, tuple[int, ...], tuple[int, ...]]:
    return x[::-1].copy(), max(x.size - 1, 0), x.shape, (-1,)


def transposed(rng: np.random.Generator, x: Array) -> tuple[Array, int, tuple[int, ...], tuple[int, ...]]:
    divisors = [d for d in range(1, 400) if x.size and x.size % d == 0] or [1]
    rows = int(rng.choice(divisors))
    columns = x.size // rows
    return x.reshape(rows, columns).T.copy().reshape(-1), 0, (rows, columns), (1, rows)


def garbage(rng: np.random.Generator, like: Array, size: int) -> Array:
    code = format_of(like.dtype).code_dtype
    return rng.integers(0, np.iinfo(code).max, size, code, endpoint=True).view(like.dtype)


PLACES: list[Callable[..., Any]] = [contiguous, strided, reversed_, transposed]


def numbers(rng: np.random.Generator, n: int, dtype: Any) -> Array:
    """Of one of several families; most sums are finite, so that every addition shows."""
    kind = rng.choice(
        ["normal", "wide", "positive", "subnormal", "special", "codes"], p=[0.3, 0.3, 0.2, 0.1, 0.05, 0.05]
    )
    info = ml_dtypes.finfo(dtype)
    if kind == "codes":
        return garbage(rng, np.empty(0, dtype), n)
    values = rng.random(n) if kind == "positive" else rng.standard_normal(n)
    if kind == "wide":
        values *= 2.0 ** rng.integers(-14, 6, n)
    if kind == "subnormal":
        values *= float(info.smallest_normal)
    x = values.astype(dtype)
    x[rng.random(n) < 0.05] = -0.0
    if kind == "special" and n:
        for special in rng.choice([np.inf, -np.inf, np.nan, float(info.max)], rng.integers(1, 3)):
            x[rng.integers(n)] = special
    return x


@pytest.fixture
def quiet() -> Iterator[None]:
    with np.errstate(all="ignore"):
        yield


def bits(value: Any, dtype: np.dtype[Any]) -> int:
    return int(np.asarray(value, dtype).reshape(1).view(f"u{dtype.itemsize}")[0])


def on_gpu(
    device: Device,
    x: Array,
    place: Any,
    rng: np.random.Generator,
    target: str,
    divisor: float,
    **options: Any,
) -> int:
    """The bits of the sum by the plan with these options."""
    memory, offset, shape, strides = place(rng, x)
    base = device.upload(np.ascontiguousarray(memory))
    view = DeviceArray(base + offset * x.dtype.itemsize, shape, strides, x.dtype, 0, None)
    fmt = get_format(target)
    out = device.upload(np.full(16, 0xA5, np.uint8))
    plan = plan_for(x.size, x.dtype, device.unit, **options)
    launch_variant(plan, view, out, fmt, device.gpu, 0, divisor=divisor)
    result = np.full(16, 0, np.uint8)
    call("cuMemcpyDtoH", address_of(result), out, 16)
    assert (result[fmt.dtype.itemsize :] == 0xA5).all(), "nothing is written behind the result"
    device.free()
    return int(result[: fmt.dtype.itemsize].view(f"u{fmt.dtype.itemsize}")[0])


def compare(device: Device, x: Array, place: Any, rng: np.random.Generator, **options: Any) -> None:
    target = str(rng.choice(FORMATS))
    average = x.size > 0 and rng.random() < 0.2
    got = on_gpu(device, x, place, rng, target, float(x.size) if average else 1.0, **options)
    function = tcu.mean if average else tcu.sum
    dtype = get_format(target).dtype
    expected = bits(function(x, unit=device.unit, dtype=dtype, **options), dtype)
    assert got == expected, (
        f"{x.size} {x.dtype} numbers, {place.__name__}, {function.__name__} to {target}, {options}: "
        f"GPU {got:#x}, model {expected:#x}"
    )


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_gpu_returns_the_bits_of_the_model(device: Device, variant: str, dtype: Any) -> None:
    rng = np.random.default_rng([VARIANTS.index(variant), DTYPES.index(dtype)])
    chained = variant in ("single-pass", "recurrence", "split")
    for i, chain in enumerate(CHAINS if chained else [None]):
        # Every R with three B, every B with some R.
        for block in np.roll(BLOCKS, -3 * i)[: 3 if chained else None]:
            options: dict[str, Any] = {"variant": variant, "chain": chain, "block": int(block)}
            if dtype is np.float16 and variant != "warp-shuffle":
                options["accumulator"] = str(rng.choice(["float16", "float32"]))
            if variant == "split":
                options["fraction"] = float(rng.choice([0, 0.25, 0.5, 0.77, 1]))
            place = PLACES[rng.choice(4, p=[0.7, 0.1, 0.1, 0.1])]
            for n in (*LENGTHS, int(rng.integers(1, 300_000))):
                compare(device, numbers(rng, n, dtype), place, rng, **options)


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_large_arrays_and_long_chains(device: Device, variant: str, dtype: Any) -> None:
    rng = np.random.default_rng([7, VARIANTS.index(variant), DTYPES.index(dtype)])
    for n, chain, block in (
        (1 << 20, None, None),
        ((1 << 22) + 4321, 1, 32),
        (300_007, 37, 64),
        (2_000_003, 1024, 32),
    ):
        if chain is not None and variant in ("two-mma", "warp-shuffle"):
            chain = 1
        x = (rng.standard_normal(n) + 0.25).astype(dtype)
        compare(device, x, contiguous, rng, variant=variant, chain=chain, block=block)


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("variant", VARIANTS)
def test_launches_follow_each_other_and_replay_in_a_graph(device: Device, variant: str) -> None:
    check_launches_and_replays(device, variant)


def check_launches_and_replays(device: Device, variant: str, **form: bool) -> None:
    rng = np.random.default_rng(11)
    driver = pytest.importorskip("cuda.bindings.driver")
    stream = call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
    n, target = 300_001, get_format("float32")
    plan = plan_for(n, np.float16, device.unit, variant=variant)
    inputs = [rng.standard_normal(n).astype(np.float16) for _ in range(3)]
    place, out = device.upload(inputs[0]), device.upload(np.zeros(16, np.uint8))
    view = DeviceArray(place, (n,), (1,), np.dtype(np.float16), 0, None)
    result = np.zeros(1, np.float32)

    def check(x: Array, launch: Callable[[], Any]) -> None:
        call("cuMemcpyHtoD", place, address_of(x), x.nbytes)
        for _ in range(3):
            call("cuMemsetD8", out, 0xA5, 16)
            call("cuCtxSynchronize")
            launch()
            call("cuStreamSynchronize", stream)
            call("cuMemcpyDtoH", address_of(result), out, 4)
            expected = tcu.sum(x, unit=device.unit, variant=variant, dtype=np.float32)
            assert bits(result[0], target.dtype) == bits(expected, target.dtype)

    check(inputs[0], lambda: launch_variant(plan, view, out, target, device.gpu, int(stream), **form))
    call("cuStreamBeginCapture", stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL)
    launch_variant(plan, view, out, target, device.gpu, int(stream), **form)
    graph = call("cuStreamEndCapture", stream)
    ready = call("cuGraphInstantiate", graph, 0)
    for x in inputs[1:]:
        check(x, lambda: call("cuGraphLaunch", ready, stream))
    for function, thing in (
        ("cuGraphExecDestroy", ready),
        ("cuGraphDestroy", graph),
        ("cuStreamDestroy", stream),
    ):
        call(function, thing)
    device.free()


TOGETHER: list[dict[str, Any]] = [
    {"variant": "two-mma"},
    {"variant": "two-mma", "block": 32},
    {"variant": "recurrence", "chain": 1, "block": 96},
    {"variant": "recurrence"},
    {"variant": "recurrence", "chain": 5, "block": 512},
    {"variant": "recurrence", "chain": 2, "block": 1024},
]


@pytest.mark.gpu
@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("options", TOGETHER, ids=lambda each: "-".join(map(str, each.values())))
def test_all_levels_in_one_launch_return_the_bits_of_the_model(
    device: Device, options: dict[str, Any], dtype: Any
) -> None:
    """Of arrays of all lengths in turn, several times each: a launch finds the workspace as the last one has."""
    rng = np.random.default_rng([TOGETHER.index(options), DTYPES.index(dtype)])
    target = get_format("float32")
    for n, shift in ((1, 0), (1000, 1), (1_000_001, 3), ((1 << 26) + 12_345, 0), (1000, 0), (1_000_001, 0)):
        x = random_numbers(rng, n, dtype)
        address = device.upload(np.concatenate([garbage(rng, x, shift), x])) + shift * x.itemsize
        view = DeviceArray(address, (n,), (1,), x.dtype, 0, None)
        out, result = device.upload(np.zeros(16, np.uint8)), np.zeros(1, np.float32)
        plan = plan_for(n, dtype, device.unit, **options)
        wanted = bits(tcu.sum(x, unit=device.unit, dtype=np.float32, **options), target.dtype)
        for _ in range(5):
            call("cuMemsetD8", out, 0xA5, 16)
            launch_variant(plan, view, out, target, device.gpu, 0, together=True)
            call("cuMemcpyDtoH", address_of(result), out, 4)
            assert bits(result[0], target.dtype) == wanted, (n, shift)
        device.free()


def random_numbers(rng: np.random.Generator, n: int, dtype: Any) -> Array:
    """65,521 of them again and again, so that 2^26 are soon there; no group has the numbers of another."""
    few = 65_521
    return np.resize((rng.standard_normal(few) * 2.0 ** rng.integers(-6, 4, few)).astype(dtype), n)


@pytest.mark.gpu
@pytest.mark.parametrize("variant", ["two-mma", "recurrence"])
def test_all_levels_in_one_launch_replay_in_a_graph(device: Device, variant: str) -> None:
    check_launches_and_replays(device, variant, together=True)


def test_the_lengths_reach_every_kind_of_remainder() -> None:
    for dtype in DTYPES:
        plan = plan_for(1000, dtype, "A100", variant="single-pass", chain=3)
        first = plan.parts[0].steps[0]
        assert isinstance(first, MmaStep)
        assert len({n % first.group for n in LENGTHS}) > 6
        assert math.gcd(first.group, 104729) == 1
