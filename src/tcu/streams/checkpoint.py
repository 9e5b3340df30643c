"""How far a pass over numbers has come, in a file: a killed run goes on from there, to the same bits.

The file is replaced as a whole, so that it is the last state or the one
before, whatever happens meanwhile.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from typing import Any

from tcu.errors import DataFileError
from tcu.unfinished import path_of, replacing

__all__ = ["Checkpoint"]

_KIND = "tcu checkpoint"
_VERSION = 2
"""Of what is in the file."""


class Checkpoint:
    """Keeps states of one pass at ``path``, at most every ``seconds``.

    ``task`` says what the pass is (the files, the operation and its
    parameters) and goes through JSON unchanged; a file of another task is
    refused.
    """

    def __init__(self, path: str | os.PathLike[str], task: dict[str, Any], seconds: float = 10.0) -> None:
        self.path = path_of("checkpoint", path)
        self.task = json.loads(json.dumps(task))
        self.seconds = seconds
        self._last = time.monotonic()
        if not self.path.parent.is_dir():
            raise DataFileError(f"cannot write {self.path}: there is no folder {self.path.parent}: create it")

    def load(self) -> tuple[int, dict[str, Any]] | None:
        """(position, states) where an earlier run got to; None where there was none.

        Raises DataFileError for a damaged file, and for one of another task or version.
        """
        try:
            text = self.path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except UnicodeDecodeError:
            text = ""
        except OSError as error:
            raise DataFileError(
                f"cannot read the checkpoint {self.path}: {error.strerror or error}: name another file"
            ) from None
        if not text.startswith(f'{{"kind": "{_KIND} '):
            raise DataFileError(f"{self.path} is no checkpoint of tcu: name another file")
        try:
            document = json.loads(text)
            version = int(document["kind"].removeprefix(_KIND))
            if version != _VERSION:
                raise DataFileError(
                    f"the checkpoint {self.path} is of version {version}, and this tcu keeps version {_VERSION}: go "
                    "on with the tcu that wrote it, or delete it to begin anew"
                )
            content = document["content"]
            if document["sha256"] != _digest(content):
                raise ValueError("its checksum is wrong")
            task, position, states = content["task"], int(content["position"]), content["states"]
        except (ValueError, KeyError, TypeError) as error:
            raise self.damaged(error) from None
        if task != self.task:
            changed = [key for key in {**task, **self.task} if task.get(key) != self.task.get(key)]
            raise DataFileError(
                f"the checkpoint {self.path} belongs to another run, with other {' and '.join(sorted(changed))}: "
                "delete it to begin anew, or name another file"
            )
        return position, states

    def damaged(self, error: Exception) -> DataFileError:
        return DataFileError(f"the checkpoint {self.path} is damaged ({error}): delete it to begin anew")

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.seconds

    def save(self, position: int, states: dict[str, Any]) -> None:
        """Raises DataFileError where it cannot be written."""
        content = {"task": self.task, "position": position, "states": states}
        document = {"kind": f"{_KIND} {_VERSION}", "sha256": _digest(content), "content": content}
        try:
            with replacing(self.path) as file:
                file.write(json.dumps(document).encode())
        except OSError as error:
            raise DataFileError(
                f"cannot write {self.path}: {error.strerror or error}: choose another place"
            ) from None
        self._last = time.monotonic()


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
