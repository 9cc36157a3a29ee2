# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module is private to the collection.

"""A part of the collection as one file that a unit runs at boot: the code that a module runs now is the code that runs then."""

from __future__ import annotations

import ast
import importlib.util
import io
import typing as t
import zipfile

PACKAGE = "ansible_collections.rigwright.workstation.plugins.module_utils"
# The earliest date that a zip file knows: the same code makes the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def bundle(entry: str) -> bytes:
    """A program for Python, of the private module *entry* (such as ``_gpu_mode_boot``), whose ``main()`` gives the exit status."""
    sources = collect(entry)
    files = {f"{name.replace('.', '/')}.py": text for name, text in sources.items()}
    parts = PACKAGE.split(".")
    packages = {"/".join(parts[:depth]) + "/__init__.py": "" for depth in range(1, len(parts) + 1)}
    start = f"from {PACKAGE}.{entry} import main\n\nraise SystemExit(main())\n"
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted({"__main__.py": start, **packages, **files}.items()):
            archive.writestr(zipfile.ZipInfo(path, _DATE), text)
    return made.getvalue()


def collect(entry: str) -> dict[str, str]:
    """The source of a private module and of every one that it imports, by full name."""
    found: dict[str, str] = {}
    waiting = [f"{PACKAGE}.{entry}"]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = source_of(name)
            waiting += sorted(imported(found[name]))
    return found


def source_of(name: str) -> str:
    """On a target this reads the archive in which Ansible brought the module.

    :raises ImportError: there is no such module.
    """
    spec = importlib.util.find_spec(name)
    loader = t.cast("t.Any", spec.loader if spec else None)
    text = loader.get_source(name) if loader else None
    if text is None:
        raise ImportError(f"{name} has no source")
    return str(text)


def imported(text: str) -> set[str]:
    """The private modules that a source imports."""
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module == PACKAGE:
            names |= {f"{PACKAGE}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{PACKAGE}."):
            names.add(str(node.module))
    return names
