"""How kernels are compiled and launched: speed, never bits.

Rows of tuning.json, one for each compute capability, say on which GPU and how
they were found: ``tcu tune --output src/tcu/gpu/tuning.json`` writes them.
What a user's own ``tcu tune`` found lies over them.  For GPUs without a row, a
formula stands in for sums, dot products and exact sums, and the values of an
H200 for all else.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

from tcu.errors import DataFileError, ParameterError
from tcu.formats.format import Format
from tcu.gpu.configs import BLOCK, ELEMENTS, KERNELS, Config, ExactConfig, Size, SumConfig
from tcu.gpu.errors import TuningWarning
from tcu.plan import FmaStep, Plan
from tcu.unfinished import replacing

__all__ = [
    "BLOCK", "BLOCK_BYTES", "ELEMENTS", "KERNELS", "Config", "ExactConfig", "Size", "SumConfig", "TuningRow", "config",
    "exact_config", "read_rows", "save_row", "sum_config", "user_file",
]  # fmt: skip

BLOCK_BYTES = BLOCK * 8 * 16
"""What a block whose sum has been tuned reads at least: 8 loads of 16 bytes a thread."""
_STANDS_IN = "9.0"
"""The row, an H200's, whose values serve GPUs without one."""
_C = TypeVar("_C", bound=Config)


@dataclass(frozen=True)
class TuningRow:
    """What was found on a GPU, for all of its compute capability."""

    gpu: str
    date: str
    versions: Mapping[str, str]
    command: str
    resident_blocks: int
    """Blocks of 256 threads that run at once."""
    configs: Mapping[tuple[str, str, Size], Config]
    """By kernel, format of the elements, and size."""

    def size(self, blocks: int) -> Size:
        """Of an array that takes that many blocks: more than run at once, or so few that most would be idle."""
        if blocks > self.resident_blocks:
            return "large"
        return "tiny" if blocks <= self.resident_blocks // 4 else "small"


def config(kind: type[_C], capability: tuple[int, int], element: str) -> _C:
    """Of a kernel that has one configuration for all sizes; of an H200 where nobody has tuned it on such a GPU."""
    (kernel,) = (name for name, each in KERNELS.items() if each is kind)
    for row in (_row(capability), _shipped()[_STANDS_IN]):
        found = None if row is None else row.configs.get((kernel, element, "any"))
        if isinstance(found, kind):
            return found
    raise AssertionError(f"tuning.json has no {kernel} of {element}")


def sum_config(capability: tuple[int, int], plan: Plan, chunks: int) -> SumConfig:
    """For a plan whose sum or dot product takes that many blocks."""
    product = bool(plan.parts) and isinstance(plan.parts[0].steps[0], FmaStep)
    row = _row(capability)
    if row is not None and plan.block == BLOCK:
        found = row.configs.get(("dot" if product else "sum", plan.input, row.size(chunks)))
        if isinstance(found, SumConfig):
            return found
    # All threads that a multiprocessor runs, with their share of its registers; products need twice the
    # share: with 32 registers a thread (sm_90) up to 720 bytes of them would be kept in memory.
    threads = _threads_per_multiprocessor(capability) // (2 if product else 1)
    return SumConfig(4, max(1, min(8, threads // plan.block)))


def exact_config(capability: tuple[int, int], element: Format, n: int, product: bool = False) -> ExactConfig:
    """For n elements of a format, or for the products of so many pairs."""
    row = None if product else _row(capability)
    if row is not None:
        blocks = -(-n * element.dtype.itemsize // BLOCK_BYTES)
        found = row.configs.get(("exact", element.name, row.size(blocks)))
        if isinstance(found, ExactConfig):
            return found
    # 64 registers a thread, which are enough (sm_90); products take up to 128, and their operands two loads.
    return ExactConfig(256, 4, 2 if product else 4, 64)


def _threads_per_multiprocessor(capability: tuple[int, int]) -> int:
    """CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability"."""
    fewer = {(7, 5): 1024, (8, 6): 1536, (8, 7): 1536, (8, 9): 1536, (12, 0): 1536, (12, 1): 1536}
    return fewer.get(capability, 2048)


# The rows


def _row(capability: tuple[int, int]) -> TuningRow | None:
    return _overlaid("{}.{}".format(*capability), user_file())


@cache
def _overlaid(capability: str, own: Path) -> TuningRow | None:
    shipped, found = _shipped().get(capability), _of_user(own).get(capability)
    if shipped is None or found is None:
        return found or shipped
    configs = {**shipped.configs, **found.configs}
    return TuningRow(found.gpu, found.date, found.versions, found.command, found.resident_blocks, configs)


@cache
def _shipped() -> dict[str, TuningRow]:
    return _parsed(resources.files("tcu.gpu").joinpath("tuning.json").read_text(encoding="utf-8"))


@cache
def _of_user(path: Path) -> dict[str, TuningRow]:
    """The rows of that file; none, with a warning, where it is damaged."""
    try:
        return read_rows(path)
    except DataFileError as error:
        warnings.warn(f"{error}; until then it is ignored", TuningWarning, stacklevel=2)
        return {}


def user_file() -> Path:
    """Where ``tcu tune`` keeps its results: in ``TCU_CACHE_DIR``, or in the user's data folder."""
    given = os.environ.get("TCU_CACHE_DIR")
    if given:
        return Path(given).expanduser() / "tuning.json"
    import platformdirs

    return Path(platformdirs.user_data_dir("tcu")) / "tuning.json"


def read_rows(path: Path, remedy: str = "remove it, or let tcu tune write it anew") -> dict[str, TuningRow]:
    """The rows of a file by compute capability, such as "9.0"; none where there is no file.

    Raises DataFileError, which ends in ``remedy``, for a file that holds anything else.
    """
    try:
        return _parsed(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataFileError(f"cannot read {path}: {error.strerror or error}: {remedy}") from None
    except (ValueError, RecursionError) as error:  # ParameterError, and all that JSON and UTF-8 raise
        raise DataFileError(f"{path} is not tuning data ({error}): {remedy}") from None


def save_row(path: Path, capability: tuple[int, int], row: TuningRow) -> None:
    """Put a row into the file, which keeps its other rows unless it is damaged; it is written whole and renamed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        rows = {**_of_user(path), "{}.{}".format(*capability): row}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as file:
            file.write(_written(rows).encode())
    except OSError as error:
        raise DataFileError(
            f"cannot write {path}: {error.strerror or error}: choose another place with --output"
        ) from None
    _of_user.cache_clear()
    _overlaid.cache_clear()


def _parsed(text: str) -> dict[str, TuningRow]:
    return {
        capability: _parsed_row(capability, row) for capability, row in _mapping(json.loads(text)).items()
    }


def _parsed_row(capability: str, given: object) -> TuningRow:
    row = _mapping(given)
    facts = {name: row.get(name) for name in ("gpu", "date", "command")}
    for name, value in facts.items():
        if not isinstance(value, str):
            raise ParameterError(f"row {capability} has {name} = {value!r}, which is no text")
    blocks = row.get("resident_blocks")
    if not isinstance(blocks, int) or isinstance(blocks, bool) or blocks < 1:
        raise ParameterError(f"row {capability} has resident_blocks = {blocks!r}: a whole number from 1")
    configs: dict[tuple[str, str, Size], Config] = {}
    for kernel, kind in KERNELS.items():
        for element, sizes in _mapping(row.get(kernel, {})).items():
            for size, values in _mapping(sizes).items():
                if element not in kind.elements or size not in kind.sizes:
                    raise ParameterError(
                        f"row {capability} has {kernel} of {element}, {size}, which nothing reads"
                    )
                configs[kernel, element, size] = kind.of(_mapping(values))
    versions = {str(name): str(value) for name, value in _mapping(row.get("versions", {})).items()}
    return TuningRow(str(facts["gpu"]), str(facts["date"]), versions, str(facts["command"]), blocks, configs)


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ParameterError(f"{str(value)[:40]!r} stands where names with values should")
    return value


def _written(rows: Mapping[str, TuningRow]) -> str:
    return _lines({capability: _document(rows[capability]) for capability in sorted(rows)}) + "\n"


def _document(row: TuningRow) -> dict[str, Any]:
    document: dict[str, Any] = asdict(row)
    del document["configs"]
    for kernel in KERNELS:
        for (own, element, size), config in row.configs.items():
            if own == kernel:
                document.setdefault(kernel, {}).setdefault(element, {})[size] = asdict(config)
    return document


def _lines(value: Any, depth: int = 0) -> str:
    """JSON with one line for each configuration."""
    if not isinstance(value, dict) or not any(isinstance(one, dict) for one in value.values()):
        return json.dumps(value, ensure_ascii=False)
    margin = " " * (depth + 1)
    inner = ",\n".join(f"{margin}{json.dumps(key)}: {_lines(one, depth + 1)}" for key, one in value.items())
    return f"{{\n{inner}\n{' ' * depth}}}"
