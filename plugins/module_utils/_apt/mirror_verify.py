# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use the mirrors as apt, pip and the clients of other services do, and return what was found."""

from __future__ import annotations

import functools
import typing as t
from http.client import HTTPException
from netrc import NetrcParseError
from urllib.error import HTTPError

from ansible.module_utils.urls import ConnectionError as NoConnection
from ansible.module_utils.urls import MissingModuleError, open_url
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import mirror_request
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirror_plan import MirrorPlan
from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import deadline
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.host import Host

Outcome = tuple[int, str, str]

PIP = ("python3", "-I", "-m", "pip", "config", "--global", "get", "global.index-url")


def apt(status: int, fit: bool, states: t.Sequence[str]) -> Finding:
    """Return the finding on ``apt-get update`` and the state of the mirrors."""
    return finding(
        "mirrors.apt",
        "fail" if status != 0 else "pass" if fit else "warn",
        f"apt-get update ended with status {status}; {'; '.join(states)}",
        "correct mirrors_apt_urls, and run the role with `mirrors_recheck: true`",
    )


def sources(error: str) -> Finding:
    """Return the finding on sources that are defined twice, from what ``apt-cache policy`` prints as errors."""
    twice = [line for line in error.splitlines() if "configured multiple times" in line]
    return finding(
        "mirrors.sources",
        "warn" if twice else "pass",
        twice[0] if twice else "apt knows every source once",
        "remove the second definition that apt names",
    )


def pip(outcome: Outcome, url: str) -> Finding:
    """Return the finding on the index that pip uses."""
    status, out, _err = outcome
    index = out.rstrip("\r\n")
    return finding(
        "mirrors.pip",
        "skip" if status != 0 else "pass" if index == url else "fail",
        "pip is not installed" if status != 0 else f"its index is {index}",
        "run the role again",
    )


def services(answers: t.Mapping[str, str]) -> Finding:
    """Return the finding on the other services.

    :param answers: why each address does not answer, empty if it does.
    """
    silent = [f"{url}: {reason}" for url, reason in answers.items() if reason]
    return finding(
        "mirrors.services",
        "fail" if silent else "pass",
        "; ".join(silent) or f"{', '.join(answers)} answer",
        "choose another address for the service, or another profile",
    )


def ask(timeout: int, url: str) -> str:
    """Ask for the head of a page; return why it does not come, empty if it does."""
    # Header lines that come one by one would never end.
    try:
        with deadline(4 * timeout), _head(timeout, url) as answer:
            status, reason = answer.status, getattr(answer, "reason", "")
    except HTTPError as error:
        status, reason = error.code, error.reason
    except (HTTPException, OSError, ValueError, NoConnection, MissingModuleError) as error:
        return f"no answer: {error}"
    return "" if status == 200 else f"Status code was {status} and not [200]: {reason}"


def _head(timeout: int, url: str) -> t.Any:
    """Open a page as pip does: a ~/.netrc that cannot be read, or that others may, has no password for it."""
    # Some mirrors refuse the name that Ansible has by itself.
    options = {"method": "HEAD", "timeout": timeout, "http_agent": "rigwright"}
    try:
        return open_url(url, **options)
    except NetrcParseError:
        return open_url(url, **options, use_netrc=False)


def findings(
    run: t.Callable[..., Outcome],
    ask: t.Callable[[str], str],
    wanted: mirror_request.Services,
    plan: MirrorPlan,
) -> list[Finding]:
    """Return the findings on each service that has a mirror."""
    found = []
    if wanted.apt_urls:
        status = run(plan["update"])[0]
        error = run(["apt-cache", "policy"])[2]
        found += [apt(status, plan["fit"], plan["states"]), sources(error)]
    if wanted.pip_url:
        found.append(pip(run([*PIP]), wanted.pip_url))
    endpoints = mirror_request.endpoints(wanted)
    if endpoints:
        found.append(services({url: ask(url) for url in endpoints}))
    return found


def verify(host: Host, params: mirror_request.Params, plan: MirrorPlan) -> list[Finding]:
    """Return the findings for the variables of the role."""
    asking = functools.partial(ask, params["timeout"])
    return findings(host.run_client, asking, mirror_request.Services.of(params), plan)
