# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Trials of planned configurations: their files are copied below a temporary root, and ``sshd -T`` prints the outcome."""

from __future__ import annotations

import contextlib
import fnmatch
import glob
import os
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import (
    MAIN_CONFIG,
    Config,
    Connection,
    Line,
    parse_config,
    read_lines,
    reroot,
    specification,
    split_values,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.facts import read
from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.plan import DROP_IN

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

SSHD = "/usr/sbin/sshd"

RUN = "/run/sshd"


class Refused(Exception):
    """sshd does not accept a configuration; the text is its error message."""


def effective(module: Runner, main: str, target: Connection = None) -> Config:
    """Return the effective configuration that sshd prints for a connection.

    :raises Refused: sshd does not accept it.
    """
    # `sshd -T` needs the directory. The service creates it when it starts, and with socket activation that is later.
    make_directories(RUN)
    rc, out, err = module.run_command([SSHD, "-T", "-f", main, "-C", specification(target)])
    if rc != 0:
        raise Refused("; ".join(err.split("\n")).strip("; \r"))
    return parse_config(out)


class Files:
    """The files of sshd, some of them with planned content."""

    def __init__(self, planned: t.Mapping[str, str]) -> None:
        self.planned = planned
        self.lines: list[Line] = list(read_lines(MAIN_CONFIG, self.read, self.expand))

    def read(self, path: str) -> str:
        return self.planned[path] if path in self.planned else read(path) if os.path.isfile(path) else ""

    def expand(self, pattern: str) -> set[str]:
        return {*glob.glob(pattern), *fnmatch.filter(self.planned, pattern)}


@contextlib.contextmanager
def laid_out(files: Files) -> t.Iterator[tuple[str, str]]:
    """Copy the files, with the planned ones, below a temporary root. Yield the root, empty without planned files, and the main file."""
    if not files.planned:
        yield "", MAIN_CONFIG
        return
    with tempfile.TemporaryDirectory(prefix="rigwright_ssh_") as root:
        for path in {MAIN_CONFIG, *files.planned, *(line.path for line in files.lines)}:
            os.makedirs(os.path.dirname(root + path), mode=0o700, exist_ok=True)
            with open(root + path, "w", encoding="utf-8") as file:
                file.write(reroot(files.read(path), root))
        yield root, root + MAIN_CONFIG


def key_files_of(lines: t.Iterable[Line]) -> list[str]:
    """Return AuthorizedKeysFile of the host's own files: the first line counts."""
    return next(
        (
            split_values(line.value)
            for line in lines
            if line.keyword == "authorizedkeysfile" and line.path != DROP_IN and line.match in ("", "all")
        ),
        [],
    )
