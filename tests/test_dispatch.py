"""Contract of ``tcu.mma``'s executor: the array's home decides, and what cannot be is said.

The GPU's own tests are marked ``gpu``.
"""

from __future__ import annotations

import numpy as np
import pytest
from gpu_support import gpu_or_skip, library_or_skip

import tcu
from tcu.errors import ParameterError
from tcu.gpu import GpuError, find_gpu

X = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float16)


def test_the_default_is_the_model_of_the_h100() -> None:
    expected = tcu.mma(X, X, unit="H100")
    assert (tcu.mma(X, X) == expected).all()
    assert (tcu.mma(X, X, executor="model") == expected).all()


def test_an_unknown_executor() -> None:
    with pytest.raises(ParameterError, match=r"executor='tpu'.*'model', 'gpu' or 'cpu'"):
        tcu.mma(X, X, executor="tpu")  # type: ignore[arg-type]


def test_without_a_gpu_the_error_says_so() -> None:
    try:
        find_gpu()
    except GpuError as error:
        with pytest.raises(type(error)):
            tcu.mma(X, X, executor="gpu")
    else:
        pytest.skip("this machine has a GPU")


class OnGpu:
    """Looks like an array in a GPU's memory, as far as the choice of the executor goes."""

    __cuda_array_interface__ = {"shape": (1, 1), "typestr": "<f2", "data": (0, True), "version": 3}  # noqa: RUF012


class OnHost:
    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __array__(self, dtype: object = None, copy: object = None) -> np.ndarray:
        return X


def test_arrays_on_a_gpu_are_not_copied_to_the_model() -> None:
    with pytest.raises(ParameterError, match="copy them to the host"):
        tcu.mma(OnGpu(), OnGpu(), executor="model")


def test_arrays_of_other_libraries_on_the_host_go_to_the_model() -> None:
    assert (tcu.mma(OnHost(), OnHost(), unit="V100") == tcu.mma(X, X, unit="V100")).all()


@pytest.mark.gpu
def test_host_arrays_on_the_gpu_give_the_model_s_bits() -> None:
    unit = gpu_or_skip().units[0].name
    got = tcu.mma(X, X, executor="gpu")
    assert isinstance(got, np.ndarray)
    assert got.tobytes() == tcu.mma(X, X, unit=unit).tobytes()
    assert tcu.mma(X, X, unit=unit, executor="gpu").tobytes() == got.tobytes()


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_arrays_on_the_gpu_stay_there(name: str) -> None:
    unit = gpu_or_skip().units[0].name
    library = library_or_skip(name)
    if name == "torch":
        x = library.from_numpy(X).cuda()
        result = tcu.mma(x, x)
        assert result.is_cuda
        back = result.cpu().numpy()
    else:
        x = library.asarray(X)
        result = tcu.mma(x, x)
        assert isinstance(result, library.ndarray)
        back = library.asnumpy(result)
    assert back.tobytes() == tcu.mma(X, X, unit=unit).tobytes()


@pytest.mark.gpu
def test_another_unit_than_the_gpu_is_refused() -> None:
    gpu_or_skip()
    with pytest.raises(ParameterError, match="otherwise than V100"):
        tcu.mma(X, X, unit="V100", executor="gpu")
