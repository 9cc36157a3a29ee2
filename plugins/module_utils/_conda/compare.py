# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare the conda environments of a host with the request of the role, and change nothing."""

from __future__ import annotations

import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda import venv
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.request import UNNAMED, parse_request
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.run import check_place, run, unsolved
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.store import Store

ROLE = "conda"
PYTHON = "/opt/rigwright/python/bin/python3"

Request = t.Mapping[str, t.Any]
RunCommand = t.Callable[..., tuple[int, str, str]]


def options(request: Request) -> dict[str, t.Any]:
    """Return the options of the module conda_environment for the request of the role, whose context has ``environments``."""
    same = ("exclusive", "channels", "channel_alias", "keep", "index_url", "torch_index", "timeout")
    return {
        "environments": [{**UNNAMED, "channels": None, "state": "present", **row} for row in request["environments"]],
        "root": request["prefix"],
        "python": PYTHON,
        **{name: request[name] for name in same},
    }


class Comparison:
    """The environments that are requested, and those that are there.

    :param cuda: the highest and the lowest version of CUDA that the host supports.
    :raises CondaError: the request is refused.
    """

    def __init__(self, request: Request, cuda: tuple[str, str], run_command: RunCommand) -> None:
        self.params = options(request)
        self.store = Store(self.params["root"], run_command)
        check_place(self.params, self.store)
        self.rows = parse_request(self.params, self.store.names, cuda)

    def unsolved(self) -> list[str]:
        """Return the environments that cannot be completed without py-rattler."""
        return unsolved(self.rows, self.store)

    def difference(self) -> tuple[dict[str, t.Any], list[str]]:
        """Return the result of conda_environment in check mode, and its warnings.

        :raises CondaError: an environment cannot be solved.
        """
        return run(self.rows, self.store, self.params, check_mode=True)


def plan(request: Request, cuda: tuple[str, str], run_command: RunCommand) -> tuple[dict[str, t.Any], list[str]]:
    """Return which modules have something to do, and how the environments are. The request has ``python``: the packages of PYTHON.

    :raises CondaError: the request is refused.
    """
    comparison = Comparison(request, cuda, run_command)
    found: dict[str, t.Any] = {"changed": True, "environments": {}, "drift": []}
    warnings: list[str] = []
    if not comparison.unsolved():
        found, warnings = comparison.difference()
    environment = os.path.dirname(os.path.dirname(PYTHON))
    return {
        "requirements": [],
        "python_due": venv.is_due(environment, request["python"], ROLE, present=True),
        "environments_due": found["changed"],
        "environments": found["environments"],
        "drift": found["drift"],
    }, warnings
