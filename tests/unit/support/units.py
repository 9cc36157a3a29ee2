# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake systemd with one service that reads a real file, for tests of files and units together."""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core import config_files_boot, config_files_run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import Store
from ansible_collections.rigwright.workstation.plugins.module_utils._system import configured, systemd_run


class FakeService:
    """The service x: it loads its file when it starts, and ends at once if the file has `bad`."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.state, self.enabled, self.invocation = "inactive", False, 1
        self.loaded = ""
        self.verbs: list[str] = []
        self.reloads = 0
        self.bad_program = False
        # Seconds since the last start.
        self.age = 0

    def systemctl(self, verb: str, *_names: str) -> tuple[int, str, str]:
        if verb == "show":
            return 0, self.show(), ""
        self.reloads += verb == "daemon-reload"
        if verb not in ("reset-failed", "daemon-reload"):
            self.verbs.append(verb)
        if verb in ("start", "restart"):
            text = self.file.read_text() if self.file.exists() else ""
            self.state = "failed" if "bad" in text or self.bad_program else "active"
            self.loaded, self.invocation, self.age = text, self.invocation + 1, 0
        elif verb == "stop":
            self.state = "inactive"
        elif verb in ("enable", "disable"):
            self.enabled = verb == "enable"
        return 0, "", ""

    def show(self) -> str:
        properties = {
            "Id": "x.service",
            "Names": "x.service",
            "LoadState": "loaded",
            "ActiveState": self.state,
            "SubState": "",
            "UnitFileState": "enabled" if self.enabled else "disabled",
            "NeedDaemonReload": "no",
            "DropInPaths": "",
            "InvocationID": self.invocation,
            "NRestarts": 0,
            "ActiveEnterTimestamp": time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(time.time() - self.age)),
            "Type": "simple",
        }
        return "\n".join(f"{key}={value}" for key, value in properties.items())


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeService:
    (tmp_path / "etc").mkdir()
    found = FakeService(tmp_path / "etc/x.toml")

    def run_command(_module: AnsibleModule, command: list[str], **_options: Any) -> tuple[int, str, str]:
        if command[0] == "journalctl":
            return 0, "x: bad line 1", ""
        if command == ["false"]:
            return 1, "", "no"
        return found.systemctl(*command[1:])

    monkeypatch.setattr(AnsibleModule, "run_command", run_command)
    monkeypatch.setattr(systemd_run, "NOTES", str(tmp_path / "notes"))
    monkeypatch.setattr(configured, "NOTES", str(tmp_path / "configured"))
    monkeypatch.setattr(config_files_boot, "ROOT", str(tmp_path / "root"))
    monkeypatch.setattr(config_files_run, "Store", functools.partial(Store, root=str(tmp_path / "store")))
    return found
