# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Read sshd's command line from its unit and from the file with its options: what is there wins over sshd_config (sshd(8)). Pure."""

from __future__ import annotations

import contextlib
import getopt
import re
import shlex
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._ssh.config import MAIN_CONFIG
from ansible_collections.rigwright.workstation.plugins.module_utils._system import unit_files

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree

SERVICE = "ssh.service"
# Another name of the service, whose drop-ins count as well.
ALIAS = "sshd.service"
# The options of Debian's unit on sshd's command line.
OPTIONS = "/etc/default/ssh"
# The options that sshd has (sshd.c).
LETTERS = "46C:DE:GQRTVb:c:def:g:h:ik:o:p:qrtu:"


def config_files(tree: Tree) -> list[str]:
    """Return the main file, and those that the command line names in its place."""
    return list(dict.fromkeys([MAIN_CONFIG, *(value for option, value in options(tree) if option == "-f")]))


def options(tree: Tree) -> list[tuple[str, str]]:
    """Return the options with which the host starts sshd."""
    found = []
    lines: list[str] = []
    drop_ins = [path for path in unit_files.files(tree, ALIAS) if f"/{ALIAS}.d/" in path]
    for files in unit_files.files(tree, SERVICE), drop_ins:
        lines += map(_without_program, unit_files.values(map(tree.text, files), "ExecStart"))
    # Where no file has an ExecStart, that of Debian counts.
    if not lines or any(re.search(r"\$\{?SSHD_OPTS\b", line) for line in lines):
        lines = [*unit_files.values([tree.text(OPTIONS)], "SSHD_OPTS")[-1:], *lines]
    for line in lines:
        # With a line that has something else, sshd does not start.
        with contextlib.suppress(ValueError, getopt.GetoptError):
            found += _options([word for part in shlex.split(line) for word in part.split()])
    return found


def _options(arguments: list[str]) -> list[tuple[str, str]]:
    """Return the options among these arguments whose values are known. Variables have unknown ones, and may be options themselves.

    :raises getopt.GetoptError: sshd does not have such an option.
    """
    found = []
    while arguments:
        options, rest = getopt.getopt(arguments, LETTERS)
        found += [(option, value) for option, value in options if "$" not in value]
        arguments = rest[1:] if rest and rest[0].startswith("$") else []
    return found


def _without_program(line: str) -> str:
    """Return the arguments of ExecStart (systemd.service(5)): with `@` among the prefixes, the second word is a name and no argument."""
    prefixes = re.match("[-@:+!]*", line)
    return " ".join(line.split()[2 if prefixes and "@" in prefixes[0] else 1 :])
