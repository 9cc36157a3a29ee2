# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""A virtual environment of Python for modules: environments are next to a link, which is switched when a new one is complete."""

from __future__ import annotations

import contextlib
import dataclasses
import glob
import hashlib
import os
import shutil
import sys
import typing as t
import urllib.parse

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.uv import RunCommand
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
    replace_link,
    sync_directory,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem

# Written into an environment when it is complete.
RECEIPT = ".rigwright"
# Next to the link: the names of the roles that need it, a line each.
USERS = ".users"


class VenvError(Exception):
    """The reason why an environment cannot be made, as a message for the user."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """The environment that the link leads to, all environments next to it, the complete ones, and the roles that need them."""

    path: str
    current: str
    existing: t.Sequence[str]
    complete: t.Sequence[str]
    users: frozenset[str]


@dataclasses.dataclass(frozen=True)
class Plan:
    """The environment that the link has to lead to (empty: none), whether it has to be made, and what has to be removed."""

    wanted: str
    users: frozenset[str]
    must_make: bool
    surplus: t.Sequence[str]
    changed: bool


def name_of(path: str, requirements: str) -> str:
    """Return the directory of an environment. Each version of Python has its own: wheels and links are bound to it."""
    text = f"{sys.version_info[:2]}\n{requirements}"
    return f"{path}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def list_environments(path: str) -> list[str]:
    """Return every environment next to the link, also those of a run that was killed."""
    return sorted(glob.glob(f"{glob.escape(path)}-{'[0-9a-f]' * 12}"))


def read_users(path: str) -> frozenset[str]:
    """Read the names of the roles that need the environment of a link."""
    if not os.path.isfile(path + USERS):
        return frozenset()
    with open(path + USERS, encoding="utf-8") as file:
        return frozenset(file.read().split())


def write_users(path: str, names: t.Collection[str]) -> None:
    """Write the names of the roles that need the environment of a link; no file without names."""
    if not names:
        os.unlink(path + USERS)
        return
    replace_file(path + USERS, "".join(f"{name}\n" for name in sorted(names)))


def read_facts(path: str, requirements: str) -> Facts:
    """Read which environments exist and who needs them.

    :raises VenvError: something else has the place of the link, or other users may write there.
    """
    problem = open_problem([path], "path")
    if problem:
        raise VenvError(f"{problem}.")
    target = os.readlink(path) if os.path.islink(path) else ""
    current = os.path.join(os.path.dirname(path), target) if target else ""
    existing = list_environments(path)
    if os.path.lexists(path) and current not in (*existing, name_of(path, requirements)):
        raise VenvError(f"{path} is in the way: it was not made by this module. Move it away, or set `path`.")
    complete = [directory for directory in existing if is_complete(directory)]
    return Facts(path, current, existing, complete, read_users(path))


def is_complete(directory: str) -> bool:
    """Return whether an environment was finished, and its Python still exists."""
    return os.path.isfile(os.path.join(directory, RECEIPT)) and os.path.exists(os.path.join(directory, "bin/python3"))


def plan(facts: Facts, requirements: str, user: str, present: bool) -> Plan:
    """Return what has to be done so that a role has the environment, or no longer needs it."""
    users = facts.users | {user} if present else facts.users - {user}
    wanted = name_of(facts.path, requirements) if present else facts.current if users else ""
    must_make = present and wanted not in facts.complete
    surplus = [directory for directory in facts.existing if directory != wanted]
    changed = bool(facts.current != wanted or surplus or must_make or users != facts.users)
    return Plan(wanted, users, must_make, surplus, changed)


def is_due(path: str, requirements: str, user: str, present: bool) -> bool:
    """Return whether python_environment would change the environment for a role."""
    try:
        facts = read_facts(path, requirements)
    except VenvError:
        # python_environment refuses it, with its reasons.
        return True
    return plan(facts, requirements, user, present).changed


def apply(facts: Facts, steps: Plan, requirements: str, index_url: str, run: RunCommand) -> None:
    """Carry out a plan.

    :raises VenvError: venv or pip failed; the link leads where it led.
    """
    path = facts.path
    if steps.must_make:
        make(steps.wanted, requirements, index_url, run)
    if steps.users != facts.users:
        write_users(path, steps.users)
    if steps.wanted and facts.current != steps.wanted:
        replace_link(path, os.path.basename(steps.wanted))
    elif not steps.wanted and facts.current:
        os.unlink(path)
    for directory in steps.surplus:
        remove(directory)
    folder = os.path.dirname(path)
    if not steps.wanted and os.path.dirname(folder) != "/" and os.path.isdir(folder) and not os.listdir(folder):
        os.rmdir(folder)


def remove(directory: str) -> None:
    """Remove an environment. Without its receipt, the rest that a killed run leaves counts as incomplete."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(directory, RECEIPT))
    # A power cut may not bring the receipt back after files are gone.
    sync_directory(directory)
    shutil.rmtree(directory)


def make(directory: str, requirements: str, index_url: str, run: RunCommand) -> None:
    """Create an environment. It is complete once it has its receipt.

    :raises VenvError: venv or pip failed.
    """
    if os.path.isdir(directory):
        remove(directory)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    # Not through a link of an environment that the module itself may run in.
    rc, out, err = run([sys.executable, "-I", "-m", "venv", directory])
    if rc != 0:
        raise VenvError(
            f"No virtual environment can be created: {_message(out + err)}. Install the package python3-venv. Nothing was changed."
        )
    python = os.path.join(directory, "bin", "python3")
    command = [python, "-I", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", "/dev/stdin"]
    if index_url:
        command += ["--index-url", index_url]
    if index_url.startswith("http://"):
        # pip ignores such an index otherwise; every file from it is checked by its SHA-256.
        command += ["--trusted-host", urllib.parse.urlsplit(index_url).netloc]
    rc, out, err = run(command, data=requirements)
    if rc != 0:
        raise VenvError(
            f"pip did not install the libraries of modules: {_message(err or out)}. Name an index that this host reaches."
            " The earlier environment stays in use."
        )
    # A power cut may not leave a receipt of files that never reached the disk.
    os.sync()
    replace_file(os.path.join(directory, RECEIPT), requirements)


def _message(text: str) -> str:
    return " ".join(text.split()).rstrip(".")
