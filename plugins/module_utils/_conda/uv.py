# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The packages of an environment from a Python package index: locked with hashes and installed by `uv pip`.

Wheels only: building a source archive runs code that nobody locked. Packages of conda are constraints for the others, and are not
installed again.
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
    """Return the packages of requirements or of a lock, as far as they are known before the installation."""
    packages = {}
    for line in lines:
        found = REQUIREMENT.match(line)
        if found:
            rest = line[found.end() :].split("--hash")[0].split(";")[0].strip(" \\\n")
            packages[normalized(found.group(1)) + PIP] = Package(rest[2:] if rest.startswith("==") else rest)
    return packages


def blocks(lock: str) -> list[str]:
    """Return the entries of a lock, each with the lines of its hashes."""
    return [block for block in re.split(r"\n(?=\S)", lock.strip()) if REQUIREMENT.match(block)]


def without(lock: str, names: t.Container[str]) -> str:
    """Return a lock without the projects of these names."""
    kept = [block for block in blocks(lock) if (m := REQUIREMENT.match(block)) and normalized(m.group(1)) not in names]
    return "".join(f"{block}\n" for block in kept)


class Unsolvable(CondaError):
    """The indexes do not have all requested versions."""


# The CUDA versions with an index of PyTorch (download.pytorch.org/whl), oldest first, and uv's names for them.
TORCH_BACKENDS = {
    (11, 8): "cu118",
    (12, 1): "cu121",
    (12, 4): "cu124",
    (12, 6): "cu126",
    (12, 8): "cu128",
    (12, 9): "cu129",
}
TORCH_BACKENDS.update({(13, 0): "cu130", (13, 2): "cu132"})


# The wheels that a line of a lock names: torch==2.8.0+cu128.
_LOCKED_BACKEND = re.compile(r"==[^ ;+]*\+(cu\d+|cpu)\b")


def torch_backends(cuda: str, lowest: str = "") -> list[str]:
    """Return uv's names of the wheels of PyTorch that run with a driver for this version of CUDA, the newest first.

    Each has only the versions of its time: those for CUDA 13.0 begin with torch 2.9.

    :param lowest: the first CUDA with kernels for the GPUs; empty where any has them. It is ignored where the driver has none as new.
    """
    highest, first = (tuple(map(int, text.split("."))) if text else () for text in (cuda, lowest))
    supported = [(version, name) for version, name in reversed(TORCH_BACKENDS.items()) if version <= highest]
    return (
        [name for version, name in supported if first <= version] or [name for _version, name in supported] or ["cpu"]
    )


class Uv:
    """The use of `uv pip`. An empty *index_url* means the index of the host's uv.toml.

    *torch_index*: torch and its packages come from PyTorch's own index, in the variant for the CUDA of the environment.
    """

    def __init__(self, program: str, cache: str, index_url: str, torch_index: bool, run_command: RunCommand) -> None:
        self.program, self.cache, self.run_command = program, cache, run_command
        self.index_url, self.torch_index = index_url, torch_index

    def lock(self, wanted: Wanted, prefix: str, theirs: t.Sequence[str]) -> str:
        """Return a lock of the requirements. *theirs* are the distributions that conda installed.

        Requirements that all have hashes are a lock already.
        """
        lines = wanted.spec["pip"]
        owned = dict(map(distribution, theirs))
        if all("--hash=" in line for line in lines):
            return without("".join(f"{line}\n" for line in lines), owned)
        # --refresh: a cached answer of the index may be out of date.
        options = ["--no-header", "--no-annotate", "--generate-hashes", "--no-emit-index-url", "--only-binary", ":all:"]
        options += ["--refresh"]
        with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".txt") as constraints:
            held = (f"{project}=={package.version}\n" for project, package in owned.items() if package.version)
            constraints.write("".join(held))
            constraints.flush()
            requirements = "".join(f"{line}\n" for line in lines)
            options += ["--constraints", constraints.name, "-"]
            out = self._compile(wanted, prefix, options, requirements)
        return without(out, owned)

    def _compile(self, wanted: Wanted, prefix: str, options: t.Sequence[str], requirements: str) -> str:
        """Return a lock with the newest wheels of PyTorch that have the requested versions.

        :raises CondaError: no wheels have them; the text is about the newest.
        """
        backends = torch_backends(wanted.cuda, wanted.lowest_cuda)
        problem: CondaError | None = None
        for backend in backends:
            try:
                return self._run(wanted, prefix, "compile", backend, *options, data=requirements)
            except Unsolvable as error:
                if not self.torch_index or "torch" not in str(error):
                    raise
                problem = problem or error
        raise CondaError(f"{problem}. Wheels of PyTorch that the driver and the GPUs support: {', '.join(backends)}")

    def install(self, wanted: Wanted, lock: str, prefix: str) -> None:
        options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--requirements", "-"]
        # uv does not check unpacked files in its cache: an edit of a link to them would get into every new environment.
        options += ["--link-mode", "copy"]
        locked = _LOCKED_BACKEND.search(lock)
        backend = locked[1] if locked else torch_backends(wanted.cuda, wanted.lowest_cuda)[0]
        self._run(wanted, prefix, "install", backend, *options, data=lock)

    def _run(self, wanted: Wanted, prefix: str, command: str, backend: str, *options: str, data: str) -> str:
        name = wanted.name
        if not os.path.exists(self.program):
            raise CondaError(
                f"the environment {name} has `pip`, and {self.program} is missing: the role conda installs it"
            )
        index = ["--index-url", self.index_url] if self.index_url else []
        if self.torch_index:
            index += ["--torch-backend", backend]
        python = os.path.join(prefix, "bin", "python")
        rc, out, err = self.run_command(
            [self.program, "pip", command, "--quiet", "--python", python, "--cache-dir", self.cache, *index, *options],
            data=data,
            environ_update={
                "UV_PYTHON_DOWNLOADS": "never",
                # If an index does not answer, uv searches for credentials, and would leave a lock in root's home.
                "UV_CREDENTIALS_DIR": os.path.join(self.cache, "credentials"),
                "NO_COLOR": "1",
            },
        )
        if rc != 0:
            message = " ".join(re.sub(r"[^\x00-\x7f]", " ", err or out).split()).rstrip(".")
            raise (Unsolvable if "No solution found" in message else CondaError)(
                f"the requirements in `pip` of the environment {name} cannot be installed: {message}."
                " Loosen conflicting requirements, install a package without a wheel by conda, or name an index that this host reaches"
            )
        return out
