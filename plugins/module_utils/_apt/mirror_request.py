# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The request of the role mirrors: the address of each service, its problems, and the files that do not depend on the host. Pure."""

from __future__ import annotations

import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.mirrors_options import MirrorsOptions
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem, problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import (
    DirectoryRow,
    FileRow,
    JsonObject,
    Planned,
)


class Params(MirrorsOptions):
    """A request: the options, and what ``__mirrors_context`` adds."""

    profiles: dict[str, JsonObject]
    archive: str
    distribution: JsonObject
    planned: Planned


# No quotes or shell characters: the addresses are also written to a shell file.
ADDRESS = re.compile(r"https?://[^\s'\"<>\[\]{}$`]+")


class Services(t.NamedTuple):
    """The address of each service, from its variable or the profile; empty if neither is set."""

    apt_urls: tuple[str, ...]
    pip_url: str
    uv_url: str
    conda_url: str
    hf_endpoint: str

    @classmethod
    def of(cls, params: Params) -> Services:
        """Return the services of a request.

        :param params: the options of the role, with the ``profiles`` and the name of the platform's ``archive`` in them.
        """
        profile = params["profiles"][params["profile"]]
        archive = profile.get("apt", {}).get(params["archive"], "")
        return cls(
            tuple(params["apt_urls"] or filter(None, [archive])),
            params["pip_url"] or profile.get("pip", ""),
            params["uv_url"] or profile.get("pip", ""),
            params["conda_url"] or profile.get("conda", ""),
            params["hf_endpoint"],
        )

    def malformed(self) -> list[str]:
        """Return the variables that hold something else than an address."""
        others = {name: filter(None, [getattr(self, name)]) for name in self._fields[1:]}
        return [
            f"mirrors_{name}"
            for name, urls in {"apt_urls": self.apt_urls, **others}.items()
            if not all(map(ADDRESS.fullmatch, urls))
        ]


def problems(params: Params, services: Services) -> t.Iterator[Problem]:
    """Yield the problems of the request itself."""
    if params["profile"] == "custom" and not any(services):
        yield problem(
            "mirrors_profile",
            "is custom, and no mirror is set",
            "set mirrors_apt_urls or another mirror, or choose the profile none",
        )
    if malformed := services.malformed():
        yield problem(
            ", ".join(malformed),
            "is not an address such as https://mirror.example/debian",
            "start it with https:// or http://, without blanks, quotes or brackets",
        )
    if services.pip_url.startswith("http:"):
        yield problem(
            "mirrors_pip_url",
            "has no TLS, so pip would refuse it",
            "use https:// (this role never sets trusted-host, which switches the check of certificates off)",
        )
    for name, number, unit in (
        ("max_age_days", params["max_age_days"], "days"),
        ("timeout", params["timeout"], "seconds"),
    ):
        if number < 1:
            yield problem(f"mirrors_{name}", f"is not a number of {unit}", "set it to 1 or more")


def files(services: Services) -> tuple[list[FileRow], list[DirectoryRow]]:
    """Return the files as config_files takes them, and their directories: drop-ins where the program reads them.

    uv reads one file, whose original is restored later.
    """
    found: list[FileRow] = []
    directories: list[str] = []
    if services.uv_url:
        directories.append("/etc/uv")
        found.append({"path": "/etc/uv/uv.toml", "data": {"index": [{"url": services.uv_url, "default": True}]}})
    if services.conda_url:
        directories += ["/etc/conda", "/etc/conda/condarc.d"]
        # Only conda-forge, which the mirrors have: channel_alias would redirect every other channel too.
        channels = {"custom_channels": {"conda-forge": services.conda_url}}
        found.append({"path": "/etc/conda/condarc.d/rigwright-mirrors.yml", "data": channels})
    if services.hf_endpoint:
        directories.append("/etc/environment.d")
        # Login shells read the first, systemd's user services and desktop sessions the second.
        found += [
            {
                "path": "/etc/profile.d/rigwright-mirrors.sh",
                "content": f"export HF_ENDPOINT='{services.hf_endpoint}'\n",
            },
            {
                "path": "/etc/environment.d/60-rigwright-mirrors.conf",
                "content": f"HF_ENDPOINT={services.hf_endpoint}\n",
            },
        ]
    return found, [{"path": path} for path in directories]


def endpoints(services: Services) -> list[str]:
    """Return the address that a client of each service requests first."""
    indexes = dict.fromkeys(url.rstrip("/") for url in (services.pip_url, services.uv_url) if url)
    conda = services.conda_url.rstrip("/")
    return [
        *(f"{url}/pip/" for url in indexes),
        *([f"{conda}/conda-forge/noarch/repodata.json"] if conda else []),
        *([services.hf_endpoint] if services.hf_endpoint else []),
    ]
