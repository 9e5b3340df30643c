"""Contract: the disk cache never returns what it was not asked for, and never stops a computation."""

from __future__ import annotations

import errno
import os
import random
import stat
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from gpu_support import compile_slowly, use_cache

from tcu.gpu import KERNELS, KernelCacheWarning, cache
from tcu.gpu.cache import cache_folder, key_of, load_or_compile
from tcu.gpu.compiler import CompileTask, read_sources, task_for

TASK = CompileTask((("a.cu", '#include "b.cuh"'), ("b.cuh", "int x;")), ("-DK=1", "-DL=2"), "sm_90")
KEY = key_of(TASK, (13, 0))


@pytest.fixture(autouse=True)
def _warnings_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "_warned", set())


class Compiler:
    def __init__(self, content: bytes = b"machine code") -> None:
        self.content, self.calls = content, 0

    def __call__(self) -> bytes:
        self.calls += 1
        return self.content


def entries(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def test_the_key_is_the_same_for_the_same_task() -> None:
    assert key_of(replace(TASK), (13, 0)) == KEY
    assert len(KEY) == 64


@pytest.mark.parametrize(
    ("task", "compiler", "version"),
    [
        (replace(TASK, architecture="sm_90a"), (13, 0), cache.FORMAT),
        (replace(TASK, options=("-DK=1",)), (13, 0), cache.FORMAT),
        (replace(TASK, options=("-DL=2", "-DK=1")), (13, 0), cache.FORMAT),
        (replace(TASK, options=("-DK=1-DL=2",)), (13, 0), cache.FORMAT),
        (replace(TASK, files=(("a.cu", '#include "b.cuh" '), TASK.files[1])), (13, 0), cache.FORMAT),
        (replace(TASK, files=(TASK.files[0], ("b.cuh", "int y;"))), (13, 0), cache.FORMAT),
        (replace(TASK, files=(TASK.files[0], ("c.cuh", "int x;"))), (13, 0), cache.FORMAT),
        (replace(TASK, files=TASK.files[:1]), (13, 0), cache.FORMAT),
        (TASK, (13, 1), cache.FORMAT),
        (TASK, (12, 0), cache.FORMAT),
        (TASK, (13, 0), cache.FORMAT + 1),
    ],
    ids=["architecture", "an option less", "order of options", "options joined", "source", "included file",
         "name of an included file", "an included file less", "compiler", "major version", "format"],
)  # fmt: skip
def test_the_key_differs_when_anything_does(
    task: CompileTask, compiler: tuple[int, int], version: int
) -> None:
    assert key_of(task, compiler, version) != KEY


def test_a_changed_include_of_a_real_kernel_changes_its_key() -> None:
    task = task_for(KERNELS[0], "sm_90")
    texts = dict(read_sources("mma.cu"))
    texts["device/load/matrix.cuh"] += "\n"
    changed = replace(task, files=read_sources("mma.cu", texts))
    assert key_of(changed, (13, 0)) != key_of(task, (13, 0))


def test_different_kernels_have_different_keys() -> None:
    assert len({key_of(task_for(kernel, "sm_90a"), (13, 0)) for kernel in KERNELS}) == len(KERNELS)


def test_compiled_once_then_read(tmp_path: Path) -> None:
    compiler, folder = Compiler(), tmp_path / "deep" / "kernels"
    assert load_or_compile(KEY, compiler, folder) == b"machine code"
    assert load_or_compile(KEY, compiler, folder) == b"machine code"
    assert compiler.calls == 1
    assert [path.name for path in entries(folder)] == [f"{KEY}.cubin"]


def test_only_the_user_can_read_or_write(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        load_or_compile(KEY, Compiler(), tmp_path / "kernels")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "kernels").stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in entries(tmp_path / "kernels")] == [0o600]


def damaged(data: bytes) -> dict[str, bytes]:
    return {
        "empty": b"",
        "truncated": data[:-1],
        "header only": data[:20],
        "one bit": data[:-1] + bytes([data[-1] ^ 1]),
        "longer": data + b"x",
        "garbage": random.Random(0).randbytes(len(data)),
        "foreign version": data.replace(b"tcu kernel\n", b"tcu kernel2"),
    }


@pytest.mark.parametrize("damage", list(damaged(b"tcu kernel\n" + bytes(40))))
def test_a_damaged_entry_is_a_miss_and_is_written_anew(damage: str, tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    load_or_compile(KEY, Compiler(), folder)
    (entry,) = entries(folder)
    sound = entry.read_bytes()
    entry.write_bytes(damaged(sound)[damage])
    compiler = Compiler()
    assert load_or_compile(KEY, compiler, folder) == b"machine code"
    assert compiler.calls == 1
    assert entry.read_bytes() == sound


def test_an_entry_under_anothers_name_is_a_miss(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    load_or_compile(KEY, Compiler(b"another kernel"), folder)
    other = "0" * 64
    os.rename(folder / f"{KEY}.cubin", folder / f"{other}.cubin")
    assert load_or_compile(other, Compiler(), folder) == b"machine code"


@pytest.mark.slow
def test_ten_processes_at_once_on_an_empty_cache(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    with ProcessPoolExecutor(10, mp_context=get_context("spawn")) as pool:
        results = list(pool.map(use_cache, [(str(folder), KEY)] * 10))
    assert results == [compile_slowly(KEY)] * 10
    assert [path.name for path in entries(folder)] == [f"{KEY}.cubin"]
    assert load_or_compile(KEY, Compiler(), folder) == compile_slowly(KEY)


def one_warning(folder: Path, words: str) -> None:
    """Two kernels are compiled and returned all the same; one warning says why they are not kept."""
    compiler = Compiler()
    with pytest.warns(KernelCacheWarning, match=words) as caught:
        results = [load_or_compile(key, compiler, folder) for key in (KEY, "1" * 64)]
    assert results == [b"machine code"] * 2
    assert compiler.calls == 2
    assert len(caught) == 1
    assert "TCU_CACHE_DIR" in str(caught[0].message)


def test_a_file_where_the_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    one_warning(tmp_path / "taken", "not kept in .*taken")
    one_warning(tmp_path / "taken" / "kernels", "not kept in .*kernels")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
@pytest.mark.parametrize("where", ["tempfile.mkstemp", "os.fdopen", "os.replace"])
def test_a_disk_that_takes_nothing_more(
    code: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: Any, **named: Any) -> Any:
        if where == "os.fdopen":
            os.close(arguments[0])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(where, full)
    one_warning(tmp_path / "kernels", os.strerror(code))
    assert entries(tmp_path / "kernels") == [], "no temporary file is left behind"


def test_an_entry_that_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path) -> bytes:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", refused)
    one_warning(tmp_path / "kernels", "Permission denied")


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="folders of this system have no mode")
def test_a_folder_that_others_can_write_to_is_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    load_or_compile(KEY, Compiler(b"planted"), folder)
    folder.chmod(0o777)
    one_warning(folder, "chmod 700")


def test_no_warning_where_all_is_well(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load_or_compile(KEY, Compiler(), tmp_path / "kernels")
    assert caught == []


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TCU_CACHE_DIR", str(tmp_path))
    assert cache_folder() == tmp_path / "kernels"
    load_or_compile(KEY, Compiler())
    assert len(entries(tmp_path / "kernels")) == 1
    monkeypatch.setenv("TCU_CACHE_DIR", "~/somewhere")
    assert cache_folder() == Path.home() / "somewhere" / "kernels"
    for unset in (
        lambda: monkeypatch.setenv("TCU_CACHE_DIR", ""),
        lambda: monkeypatch.delenv("TCU_CACHE_DIR"),
    ):
        unset()
        assert cache_folder().name == "kernels"
        assert "tcu" in cache_folder().parts
