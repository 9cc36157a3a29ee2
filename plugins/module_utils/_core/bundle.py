# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Bundle a part of the collection as one file that runs without Ansible: on a host, a unit runs the code that a module runs."""

from __future__ import annotations

import importlib.util
import io
import re
import typing as t
import zipfile

PACKAGE = "ansible_collections.rigwright.workstation.plugins.module_utils"
# Isolated from what users have set for Python: root runs these programs.
_SHEBANG = b"#!/usr/bin/python3 -IB\n"
# `from PACKAGE import a, b` and `from PACKAGE.a import b`, as ruff formats them. ast takes a hundred times as long.
_IMPORT = re.compile(rf"^\s*from {re.escape(PACKAGE)}(?:\.([\w.]+))? import (?:\(([^)]*)\)|(.*))$", re.MULTILINE)
# The earliest date that a zip file knows: the same code makes the same bytes.
_DATE = (1980, 1, 1, 0, 0, 0)


def bundle(entry: str) -> bytes:
    """Return a program for Python: the private module *entry* (such as ``_gpu.mode.boot``), whose ``main()`` gives the exit status."""
    sources = collect(entry)
    if "\ndef main(" not in sources[f"{PACKAGE}.{entry}"]:
        raise ImportError(f"{PACKAGE}.{entry} has no main()")
    files = {f"{name.replace('.', '/')}.py": text for name, text in sources.items()}
    packages = {f"{parent}/__init__.py": "" for path in files for parent in _parents(path)}
    start = f"from {PACKAGE}.{entry} import main\n\nraise SystemExit(main())\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, text in sorted({"__main__.py": start, **packages, **files}.items()):
            archive.writestr(zipfile.ZipInfo(path, _DATE), text, zipfile.ZIP_DEFLATED)
    return _SHEBANG + buffer.getvalue()


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:depth]) for depth in range(1, len(parts))]


def collect(entry: str) -> dict[str, str]:
    """Return the source of a private module and of every one that it imports, by full name."""
    return collect_all([f"{PACKAGE}.{entry}"])


def collect_all(names: t.Iterable[str]) -> dict[str, str]:
    """Return the sources of modules, by full name, and of every private module that they import."""
    found: dict[str, str] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = source_of(name)
            waiting += sorted(imported(found[name]))
    return found


def source_of(name: str) -> str:
    """Return the source of a module. On a target this reads the archive that Ansible has copied there.

    :raises ImportError: there is no such module.
    """
    text = _source(name)
    if not text:
        raise ImportError(f"{name} has no source")
    return text


def _source(name: str) -> str:
    """Return the source of a module, and nothing for a package: those of this collection are empty."""
    spec = importlib.util.find_spec(name)
    loader = t.cast("t.Any", spec.loader if spec else None)
    try:
        source = loader.get_source(name) if loader else ""
    except (AttributeError, ImportError):  # the loader of a package without __init__.py
        return ""
    # The loader of Ansible's controller gives bytes, those of Python text.
    text = source.decode() if isinstance(source, bytes) else str(source or "")
    # Mitogen's gives an empty line for a package.
    return text if text.strip() else ""


def imported(text: str) -> set[str]:
    """Return the private modules that a source imports."""
    modules = set()
    for parent, block, line in _IMPORT.findall(text):
        package = f"{PACKAGE}.{parent}" if parent else PACKAGE
        if parent and _source(package):
            modules.add(package)
        else:
            modules |= {f"{package}.{name.split()[0]}" for name in (block or line).split(",") if name.strip()}
    return modules
