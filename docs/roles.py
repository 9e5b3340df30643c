"""Docstrings as the site shows them: Sphinx roles, :class:`tcu.Unit`, as `tcu.Unit`, and functions made from a table."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":\w+:`~?([^`]+)`")


class Roles(griffe.Extension):
    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = _ROLE.sub(r"`\1`", obj.docstring.value)


class Made(griffe.Extension):
    """What tcu imports by ``*`` from a stub, which griffe takes for what programs cannot import."""

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        made = pkg["surfaces.functions"]
        for name in made.exports:
            pkg.set_member(name, griffe.Alias(name, made[name], parent=pkg))
