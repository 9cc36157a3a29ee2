# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Turn the options of the module conda_environment into requests for environments."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import AUTO, Wanted

Params = t.Mapping[str, t.Any]

# The options of an environment that is removed since nobody names it.
UNNAMED: dict[str, t.Any] = {
    "state": "absent",
    "packages": [],
    "channels": [],
    "cuda": AUTO,
    "lock": "",
    "pip": [],
    "generation": 0,
    "update": False,
}


def parse_request(params: Params, existing: t.Callable[[], t.Iterable[str]], cuda: tuple[str, str]) -> list[Wanted]:
    """Return a request for each environment that is named, and with ``exclusive`` one for each other that exists.

    :param existing: returns the names of environments on the host.
    :param cuda: the highest and the lowest version of CUDA that the host supports.
    """
    named = [parse_environment(row, params, cuda) for row in params["environments"]]
    others = set(existing()) - {request.name for request in named} if params["exclusive"] else set()
    return [*named, *(parse_environment({**UNNAMED, "name": name}, params, cuda) for name in sorted(others))]


def parse_environment(row: Params, params: Params, cuda: tuple[str, str]) -> Wanted:
    """Return the request for one environment."""
    return Wanted(
        name=row["name"],
        spec={
            "packages": sorted(" ".join(text.split()) for text in row["packages"]),
            "channels": row["channels"] or params["channels"],
            "channel_alias": params["channel_alias"],
            "cuda": row["cuda"],
            "lock": row["lock"],
            "pip": row["pip"],
        },
        cuda=cuda[0] if row["cuda"] == AUTO else row["cuda"],
        lowest_cuda=cuda[1] if row["cuda"] == AUTO else "",
        present=row["state"] == "present",
        generation=row["generation"],
        update=row["update"],
        keep=params["keep"],
    )


def any_present(params: Params) -> bool:
    """Return whether any environment has to exist."""
    return any(row["state"] == "present" for row in params["environments"])
