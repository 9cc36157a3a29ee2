# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The configuration of the cache."""

from __future__ import annotations

import json
import os
import re
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.failures import Exit, Failed
from ansible_collections.rigwright.workstation.plugins.module_utils._dataset_cache.text import read_size, shown

CONFIGURATION = "/etc/rigwright/dataset-cache.json"
ALGORITHMS = ("sha256", "blake2b")


class Settings(t.NamedTuple):
    cache: str
    mount: str = ""
    sources: tuple[str, ...] = ("/",)
    quota: str | int = "90%"
    free: str | int = 0
    group: str = ""
    file_mode: str = "0440"
    directory_mode: str = "0550"
    hash: str = "full"
    algorithm: str = "auto"
    jobs: int = 0
    evict_service: bool = False
    share_private: bool = False
    lease_hours: float = 24

    @property
    def modes(self) -> tuple[int, int]:
        return int(self.file_mode, 8), int(self.directory_mode, 8)


def check_settings(values: dict[str, t.Any]) -> Settings:
    """Return the settings of a configuration.

    :raises ValueError: what is wrong with it.
    """
    unknown = values.keys() - set(Settings._fields)
    if unknown:
        raise ValueError(f"has an unknown key: {', '.join(sorted(unknown))}")
    if not isinstance(values.get("cache"), str):
        raise ValueError("lacks `cache`, the directory of the cache (or give --cache)")
    kinds: dict[str, t.Any] = {"jobs": int, "evict_service": bool, "share_private": bool, "sources": list}
    kinds.update({"quota": (str, int), "free": (str, int), "lease_hours": (int, float)})
    for key, value in values.items():
        wanted = kinds.get(key, str)
        if not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool):
            raise ValueError(f"`{key}` is of the wrong kind: {shown(json.dumps(value))}")
    if not all(isinstance(path, str) and path.startswith("/") for path in values.get("sources", [])):
        raise ValueError("`sources` is not a list of absolute paths")
    settings = Settings(**{**values, "sources": tuple(values.get("sources", ("/",)))})
    for key in ("cache", "mount"):
        if getattr(settings, key) and not getattr(settings, key).startswith("/"):
            raise ValueError(f"`{key}` is not an absolute path")
    for key in ("quota", "free"):
        try:
            read_size(getattr(settings, key))
        except ValueError as error:
            raise ValueError(f"`{key}` {error}") from None
    for key, choices in (("hash", ("full", "once")), ("algorithm", ("auto", *ALGORITHMS))):
        if getattr(settings, key) not in choices:
            raise ValueError(f"`{key}` is none of {', '.join(choices)}")
    for key in ("file_mode", "directory_mode"):
        text = getattr(settings, key)
        if not re.fullmatch("0?[0-7]{3}", text) or int(text, 8) & 0o400 == 0 or int(text, 8) & 0o002:
            raise ValueError(
                f'`{key}` is not a mode such as "{Settings._field_defaults[key]}", or lets everybody write'
            )
    if settings.modes[0] & 0o222:
        raise ValueError("`file_mode` lets copies be written")
    if settings.modes[1] & 0o022:
        raise ValueError("`directory_mode` lets copies be changed")
    if settings.modes[1] & 0o100 == 0:
        raise ValueError("`directory_mode` lets nobody enter")
    if settings.jobs < 0 or settings.lease_hours < 0:
        raise ValueError("`jobs` and `lease_hours` are not below 0")
    return settings


def load_settings(path: str | None, cache: str | None) -> Settings:
    """Read the configuration; root accepts only a file that no other user can change."""
    values: t.Any = {}
    where = path or CONFIGURATION
    try:
        with open(where, encoding="utf-8") as file:
            status = os.fstat(file.fileno())
            if os.geteuid() == 0 and (status.st_uid != 0 or status.st_mode & 0o022):
                raise Failed(Exit.USAGE, f"{where} can be changed by users other than root: chown root, chmod go-w")
            values = json.load(file)
        if not isinstance(values, dict):
            raise ValueError("is no object")
    except FileNotFoundError:
        if path or not cache:
            raise Failed(Exit.USAGE, f"{where} is missing: write it, or give --cache (see --help)") from None
    except (OSError, ValueError) as error:
        raise Failed(Exit.USAGE, f"{where} cannot be used: {error}") from None
    try:
        return check_settings({**values, "cache": cache} if cache else values)
    except ValueError as error:
        raise Failed(Exit.USAGE, f"{where} {error}") from None
