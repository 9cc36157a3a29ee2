# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Compare conda environments with the request and use them as users do, and return what was found."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding

Outcome = tuple[int, str, str]
Run = t.Callable[..., Outcome]

# As a user who may change nothing.
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "-i", "HOME=/"]
LIMIT = 800


def use(run: Run, request: t.Mapping[str, t.Any]) -> Outcome:
    """Use each environment in a login shell of nobody, by the program of the role."""
    names = [row["name"] for row in request["environments"] if row["state"] == "present"]
    command = [*NOBODY, "bash", "--login", "-s", f"{request['prefix']}/envs", *names]
    return run(command, data=request["program"])


def environments(result: t.Mapping[str, t.Any], error: str) -> Finding:
    """Check the environments against the request.

    :param result: what conda_environment returns in check mode.
    :param error: why it could not, or empty.
    """
    found = result["environments"].values()
    differences = [
        *result["drift"],
        *(f"{package} is missing" for row in found for package in row["added"]),
        *(f"{package} is too many" for row in found for package in row["removed"]),
        *(package for row in found for package in row["replaced"]),
    ]
    return finding(
        "conda.environments",
        "fail" if error or differences else "pass" if found else "skip",
        error or shorten("; ".join(differences)) or f"{len(found)} environments are as requested, file by file",
        "run the role again: it installs the requested packages, and keeps the present generation for going back",
    )


def users(outcome: Outcome, request: t.Mapping[str, t.Any]) -> Finding:
    """Check that users can use each environment and change none."""
    status, output, errors = outcome
    return finding(
        "conda.users",
        "skip" if not request["environments"] else "pass" if status == 0 and output.strip() else "fail",
        shorten(f"{output} {errors}".strip().replace("\n", "; "))
        or ("the users' programs printed nothing" if request["environments"] else "no environment"),
        f"run the role again, which fixes files of packages; `chmod go-w` the others; check `ls -l {request['prefix']}/envs`,"
        " and whether /etc/profile.d/rigwright-conda.sh is read",
    )


def shorten(text: str) -> str:
    return text if len(text) <= LIMIT else f"{text[: LIMIT - 3]}..."
