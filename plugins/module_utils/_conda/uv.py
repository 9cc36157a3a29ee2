# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The part of an environment that comes from a Python package index: locked with hashes and installed by `uv pip`.

Wheels only: to build a source archive, a tool runs code that nobody locked. What conda brought stays conda's: its versions bind the
rest, and nothing of it is installed again.
"""

from __future__ import annotations

import os
import re
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import (
    PIP,
    CondaError,
    Package,
    Wanted,
    distribution,
    normalized,
)

RunCommand = t.Callable[..., tuple[int, str, str]]

REQUIREMENT = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)")


def requested(lines: t.Iterable[str]) -> dict[str, Package]:
    """What is asked for by name, or locked, as far as it is known before it is installed."""
    packages = {}
    for line in lines:
        found = REQUIREMENT.match(line)
        if found:
            rest = line[found.end() :].split("--hash")[0].split(";")[0].strip(" \\\n")
            packages[normalized(found.group(1)) + PIP] = Package(rest[2:] if rest.startswith("==") else rest)
    return packages


def blocks(lock: str) -> list[str]:
    """A lock's entries, each with the lines of its hashes."""
    return [block for block in re.split(r"\n(?=\S)", lock.strip()) if REQUIREMENT.match(block)]


def without(lock: str, names: t.Container[str]) -> str:
    """A lock less the projects of these names."""
    kept = [block for block in blocks(lock) if (m := REQUIREMENT.match(block)) and normalized(m.group(1)) not in names]
    return "".join(f"{block}\n" for block in kept)


# The CUDA versions for which PyTorch has an index of its own (download.pytorch.org/whl), oldest first; uv knows them by these names.
TORCH_BACKENDS = {
    (11, 8): "cu118",
    (12, 1): "cu121",
    (12, 4): "cu124",
    (12, 6): "cu126",
    (12, 8): "cu128",
    (12, 9): "cu129",
}
TORCH_BACKENDS.update({(13, 0): "cu130", (13, 2): "cu132"})


def torch_backend(cuda: str) -> str:
    """Which wheels of PyTorch run with a driver that supports this version of CUDA: the newest that is not newer."""
    supported = tuple(map(int, cuda.split("."))) if cuda else ()
    return next((name for version, name in reversed(TORCH_BACKENDS.items()) if version <= supported), "cpu")


class Uv:
    """`uv pip` for one environment. *index_url* empty: what the host's uv.toml says.

    *torch_index*: torch and what belongs to it come from PyTorch's own index, in the variant for the environment's CUDA.
    """

    def __init__(self, program: str, cache: str, index_url: str, torch_index: bool, run_command: RunCommand) -> None:
        self.program, self.cache, self.run_command = program, cache, run_command
        self.index_url, self.torch_index = index_url, torch_index

    def lock(self, wanted: Wanted, prefix: str, theirs: t.Sequence[str]) -> str:
        """A lock of what the request's lines lead to. *theirs* are the distributions that conda brought.

        Lines that all have hashes are a lock already.
        """
        lines = wanted.spec["pip"]
        owned = dict(map(distribution, theirs))
        if all("--hash=" in line for line in lines):
            return without("".join(f"{line}\n" for line in lines), owned)
        # --refresh: what the index had the last time is no answer to what it has now.
        options = ["--no-header", "--no-annotate", "--generate-hashes", "--no-emit-index-url", "--only-binary", ":all:"]
        options += ["--refresh"]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as constraints:
            held = (f"{project}=={package.version}\n" for project, package in owned.items() if package.version)
            constraints.write("".join(held))
            constraints.flush()
            asked = "".join(f"{line}\n" for line in lines)
            out = self._run(wanted, prefix, "compile", *options, "--constraints", constraints.name, "-", data=asked)
        return without(out, owned)

    def install(self, wanted: Wanted, lock: str, prefix: str) -> None:
        options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirements", "-"]
        # uv does not look again at what lies unpacked in its cache: who edits a link to that edits every environment to come.
        options += ["--link-mode", "copy"]
        self._run(wanted, prefix, "install", *options, data=lock)

    def _run(self, wanted: Wanted, prefix: str, command: str, *options: str, data: str) -> str:
        name = wanted.name
        if not os.path.exists(self.program):
            raise CondaError(
                f"the environment {name} asks for `pip`, and {self.program} is missing: the role conda installs it"
            )
        index = ["--index-url", self.index_url] if self.index_url else []
        if self.torch_index:
            index += ["--torch-backend", torch_backend(wanted.cuda)]
        python = os.path.join(prefix, "bin", "python")
        rc, out, err = self.run_command(
            [self.program, "pip", command, "--quiet", "--python", python, "--cache-dir", self.cache, *index, *options],
            data=data,
            environ_update={
                "UV_PYTHON_DOWNLOADS": "never",
                # Where an index does not answer, uv looks for credentials, and would leave a lock in root's home.
                "UV_CREDENTIALS_DIR": os.path.join(self.cache, "credentials"),
                "NO_COLOR": "1",
            },
        )
        if rc != 0:
            words = " ".join(re.sub(r"[^\x00-\x7f]", " ", err or out).split()).rstrip(".")
            raise CondaError(
                f"the environment {name} cannot have what its `pip` asks for: {words}."
                " Loosen what clashes, give a package that has no wheel to conda, or name an index that this host reaches"
            )
        return out
