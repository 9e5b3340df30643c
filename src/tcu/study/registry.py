"""Every study, in the order of the report."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterable

from tcu.errors import TcuError, unknown_name
from tcu.gpu import find_gpu
from tcu.study.ceiling import CEILING
from tcu.study.comparison import COMPARISON
from tcu.study.costs import COSTS
from tcu.study.errors import ERRORS
from tcu.study.exactness import EXACTNESS
from tcu.study.features import FEATURES, FEATURES_ON_GPU, FORMAT_TABLES
from tcu.study.gemm import GEMM
from tcu.study.gpu.build import NVCC
from tcu.study.hardware import HARDWARE
from tcu.study.libraries import LIBRARIES
from tcu.study.libraries_on_gpu import LIBRARIES_ON_GPU
from tcu.study.reproducibility import REPRODUCIBILITY
from tcu.study.segments import SEGMENTS
from tcu.study.study import Study
from tcu.study.sweeps import SWEEPS
from tcu.study.theorems import MACHINE
from tcu.study.unit_errors import CHAIN_LENGTH, ERRORS_OF_UNITS

__all__ = ["ABSENT", "PAPERS", "STUDIES", "chosen", "named", "what_is_missing"]

PAPERS: dict[str, tuple[str, str]] = {
    "000": (
        "Navarro, Carrasco, Barrientos, Riquelme, Vega",
        "GPU tensor cores for fast arithmetic reductions",
    ),
    "001": ("Carrasco, Vega, Navarro", "Analyzing GPU tensor core potential for fast reductions"),
    "002": ("Dakkak, Li, Xiong, Gelado, Hwu", "Accelerating reduction using tensor core units (poster)"),
    "003": ("Fasi, Higham, Mikaitis, Pranesh", "Numerical behavior of NVIDIA tensor cores"),
    "004": ("Silvestri, Vella", "A computational model for tensor core units"),
}
"""Number → authors and title."""

ABSENT: tuple[tuple[str, str], ...] = (
    ("paper 000, appendix B", "a TITAN RTX, and so every time on Turing"),
    ("paper 002, figure 3", "CUTLASS's products"),
    ("paper 003, table 1", "Google's TPU v2 and v3 and Arm's v8.6-A; outputs of a T4, and of an A100's binary64 unit"),
)  # fmt: skip
"""What the papers describe and measured, and no study has: place and what."""

STUDIES: dict[str, Study] = {
    study.name: study
    for study in (
        COSTS, *SWEEPS, COMPARISON, ERRORS, ERRORS_OF_UNITS, CHAIN_LENGTH, FORMAT_TABLES, FEATURES, FEATURES_ON_GPU, HARDWARE,
        REPRODUCIBILITY, LIBRARIES, LIBRARIES_ON_GPU, EXACTNESS, *CEILING, GEMM, SEGMENTS, *MACHINE,
    )
}  # fmt: skip


def named(text: str) -> str:
    """A text for readers: papers by their authors, not by the numbers that our studies give them."""
    return re.sub(r"[Pp]aper (\d{3})(?!\d)", lambda found: _short(found[1]), text)


def _short(number: str) -> str:
    authors = PAPERS[number][0].split(", ")
    return " and ".join(authors) if len(authors) < 3 else f"{authors[0]} et al."


def chosen(names: Iterable[str]) -> list[Study]:
    """The studies of these names, in the order of the report; all if there are none.

    A name stands for every study that it begins, so "errors" is two.  Raises
    UnknownNameError.
    """
    wanted: set[str] = set()
    for name in names:
        found = {each for each in STUDIES if each == name or each.startswith(f"{name}-")}
        if not found:
            raise unknown_name("study", name, STUDIES)
        wanted |= found
    return [study for name, study in STUDIES.items() if not wanted or name in wanted]


def what_is_missing(study: Study) -> str:
    """Why this machine cannot measure a study; empty where it can."""
    if study.measure is None:
        return f"a benchmark of its own measures it: {study.command}"
    return "; ".join(why for need in study.needs if (why := _CHECKS[need]()))


def _no_gpu() -> str:
    try:
        find_gpu()
    except TcuError as error:
        return str(error)
    return ""


def _without(package: str, how: str) -> Callable[[], str]:
    return lambda: (
        "" if importlib.util.find_spec(package) else f"{package} is not installed: pip install {how}"
    )


def _no_nvcc() -> str:
    return "" if shutil.which(NVCC) else "nvcc is not on the path: install the CUDA toolkit"


_CHECKS: dict[str, Callable[[], str]] = {
    "gpu": _no_gpu, "nvcc": _no_nvcc, "torch": _without("torch", "torch"), "cupy": _without("cupy", "cupy-cuda13x"),
    "scipy": _without("scipy", "'tcu[sparse]'"),
}  # fmt: skip
