# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Run a module again with another Python of the host.

``respawn_module`` of Ansible writes the arguments into a pipe before it starts the process that reads them: with more than 64 KiB of
arguments it waits for ever.
"""

from __future__ import annotations

import json
import os
import sys
import typing as t

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# A name in the main module of the process that was started: it starts no other.
MARK = "started_again"
# What Ansible gives to each module besides its parameters, and where a module keeps it.
KEPT = {
    "check_mode": "check_mode",
    "no_log": "no_log",
    "diff": "_diff",
    "verbosity": "_verbosity",
    "remote_tmp": "_remote_tmp",
    "module_name": "_name",
}
START = f"""\
import importlib, sys
{MARK} = True
name = sys.argv.pop()
sys.path[:0] = sys.argv[1:]
del sys.argv[1:]
importlib.import_module(name).main()
"""


def may_start(python: str) -> bool:
    """Return whether the host has this Python, and the module was not started again before."""
    return os.path.exists(python) and not hasattr(sys.modules["__main__"], MARK)


def start_again(module: AnsibleModule, name: str, python: str) -> t.NoReturn:
    """End the module with what it prints in another Python.

    :param name: the full name of the module: it runs as ``__main__``.
    """
    arguments = {**module.params, **{f"_ansible_{name}": getattr(module, place) for name, place in KEPT.items()}}
    # In the archive that Ansible made for this module, or in the environment of a test.
    packages = (sys.modules[name] for name in ("ansible", "ansible_collections"))
    places = dict.fromkeys(os.path.dirname(next(iter(package.__path__))) for package in packages)
    command = [python, "-I", "-c", START, *places, name]
    rc, out, err = module.run_command(command, data=json.dumps({"ANSIBLE_MODULE_ARGS": arguments}))
    try:
        json.loads(out)
    except ValueError:
        module.fail_json(msg=f"{python} ended with status {rc} and without a result: {(err or out).strip()[-2000:]}")
    print(out)
    sys.exit(rc)
