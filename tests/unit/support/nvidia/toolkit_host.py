# SPDX-License-Identifier: GPL-3.0-or-later
"""A host made of files below a root, for the plans of CUDA and cuDNN."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

# What both roles need of the distribution.
TOOLS = ("g++", "gcc", "libc6-dev", "zlib1g", "libstdc++6", "python3-pip")
# A file that was not there before the set, as config_files records it.
RECORD = {"kind": "missing", "mode": None, "uid": None, "gid": None, "mtime_ns": None, "written": "0", "secret": False}
CUDA: Any = {
    "state": "present",
    "source": "cuda_repository",
    "toolkits": ["13.0"],
    "default": "",
    "driver_branch": "auto",
    "free_bytes": 0,
    "repository": None,
    "ask_apt": False,
}
CUDNN: Any = {
    "state": "present",
    "source": "wheel",
    "cuda_majors": [13],
    "version": "",
    "wheels": {},
    "repository": None,
    "ask_apt": False,
}


class ToolkitHost:
    """A Debian 13 with the tools of both roles, and nothing of NVIDIA."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.tree = Tree(str(root))
        self.write("/etc/os-release", 'ID=debian\nVERSION_ID="13"\n')
        self.install(*TOOLS)

    def write(self, path: str, text: str) -> None:
        """Write a file, in directories with the usual mode."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.parent.chmod(0o755)
        file.write_text(text)
        file.chmod(0o644)

    def install(self, *names: str) -> None:
        """Have these packages and no others."""
        blocks = (f"Package: {name}\nStatus: install ok installed\nVersion: 1.1-1\n" for name in names)
        self.write("/var/lib/dpkg/status", "\n".join(blocks))


def no_command(*_command: Any, **_options: Any) -> tuple[int, str, str]:
    """Run nothing: these plans need no program."""
    raise AssertionError


def due(result: dict[str, Any]) -> set[str]:
    """Return what a plan calls due."""
    return {name for name, value in result.items() if name.endswith("_due") and value}
