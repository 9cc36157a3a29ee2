# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Start programs where there is no Ansible. Modules have ``run_command`` of ``_core/host_module.py``."""

from __future__ import annotations

import os
import subprocess
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.locale import LOCALE


def run(
    command: t.Sequence[str], env: t.Mapping[str, str] | None = None, **options: t.Any
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end; return its status, and its output as text.

    :raises OSError: it cannot be started.
    """
    options = {"capture_output": True, "text": True, "errors": "replace", **options}
    return subprocess.run(command, env=_environment(env, LOCALE), check=False, **options)  # pylint: disable=ansible-bad-function


def start(
    command: t.Sequence[str],
    env: t.Mapping[str, str] | None = None,
    locale: t.Mapping[str, str] = LOCALE,
    **options: t.Any,
) -> subprocess.Popen[t.Any]:
    """Start a program.

    :param locale: nothing for a command of the user, whose messages nobody here reads.
    :raises OSError: it cannot be started.
    """
    return subprocess.Popen(command, env=_environment(env, locale), **options)  # pylint: disable=ansible-bad-function


def _environment(env: t.Mapping[str, str] | None, locale: t.Mapping[str, str]) -> dict[str, str]:
    return {**(os.environ if env is None else env), **locale}
