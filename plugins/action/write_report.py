# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Write reports of runs as an HTML page and as JUnit XML, on the controller alone."""

from __future__ import annotations

import datetime
import os
from pathlib import Path

from ansible.plugins.action import ActionBase
from ansible.plugins.loader import callback_loader
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _report_files, _report_fleet
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report import PREVIOUS, Report
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_junit import junit
from ansible_collections.rigwright.workstation.plugins.plugin_utils._report_page import page, summary
from ansible_collections.rigwright.workstation.plugins.plugin_utils._requirements import refusal
from ansible_collections.rigwright.workstation.plugins.plugin_utils._role import Variables

CALLBACK = "rigwright.workstation.report"
# Two machines differ by less when both have the time from the network.
_SKEW = datetime.timedelta(minutes=1)


def _paths(names: list[str]) -> list[Path]:
    return [Path(os.path.abspath(name)) for name in names]


def _kept_by_the_callback(files: list[Path]) -> list[Path]:
    return [path for file in files if (path := file.with_name(file.name + PREVIOUS)).exists() and path not in files]


class ActionModule(ActionBase):
    _requires_connection = False
    _supports_async = False

    def run(self, tmp: str | None = None, task_vars: Variables | None = None) -> JsonObject:
        super().run(tmp, task_vars)
        paths = {"type": "list", "elements": "path", "default": []}
        _validation, arguments = self.validate_argument_spec(
            argument_spec={
                "file": paths,
                "previous_file": paths,
                "html": {"type": "path"},
                "junit": {"type": "path"},
                "hosts": {"type": "list", "elements": "str", "default": []},
            }
        )
        self._problems: list[Problem] = []
        self._notes: list[str] = []
        self._now = datetime.datetime.now(datetime.UTC)
        files = _paths(arguments["file"]) or self._file_of_the_callback()
        reports = [report for path in files if (report := self._report(path))]
        earlier_files = _paths(arguments["previous_file"]) or _kept_by_the_callback(files)
        outputs = {} if self._problems else self._outputs(files, earlier_files, arguments)
        if self._problems:
            return self._refused()
        fleet = _report_fleet.fleet(reports, self._earlier(earlier_files), arguments["hosts"])
        contents = {"html": page(fleet, self._now, self._notes), "junit": junit(fleet)}
        changed = [self._write(f"report_{name}", path, contents[name]) for name, path in outputs.items()]
        if self._problems:
            return self._refused()
        return {
            "changed": any(changed),
            "msg": summary(fleet),
            "warnings": self._notes,
            **{name: str(path) for name, path in outputs.items()},
        }

    def _refuse(self, variable: str, problem: str, remedy: str) -> None:
        self._problems.append({"ok": False, "variable": variable, "problem": problem, "remedy": remedy})

    def _refused(self) -> JsonObject:
        return {"failed": True, "changed": False, "msg": refusal(self._problems)}

    def _file_of_the_callback(self) -> list[Path]:
        # Another instance than the one that follows the run, which the process of a task cannot reach.
        callback = callback_loader.get(CALLBACK)
        callback.set_options()
        if path := callback.get_option("path"):
            return _paths([path])
        self._refuse(
            "report_file",
            "is not set, and the callback writes no report",
            f"enable {CALLBACK} and set path in [callback_rigwright_report] of ansible.cfg, or name files of reports",
        )
        return []

    def _report(self, path: Path) -> Report | None:
        previous = path.with_name(path.name + PREVIOUS)
        try:
            report = _report_fleet.parse(_report_files.read(path))
            if _report_fleet.started(report) > self._now + _SKEW:
                self._notes.append(f"report_file: {path} begins later than this page; check the controllers' clocks.")
            return report
        except FileNotFoundError:
            if previous.exists():
                self._refuse(
                    "report_file",
                    f"{path} is missing: the run after {previous} did not end",
                    f"run the playbook again, or set report_file to {previous}",
                )
            else:
                self._refuse("report_file", f"{path} is missing", "run site.yml or verify first, or name another file")
        except OSError as error:
            self._refuse("report_file", f"{path}: {error.strerror}", "name a file that you can read")
        except ValueError as error:
            self._refuse(
                "report_file",
                f"{path} {error}",
                "write it again with this release of the collection, or name another file",
            )
        return None

    def _earlier(self, files: list[Path]) -> list[Report]:
        """Return the earlier reports. One that cannot be used is marked: the page is of use without it."""
        reports = []
        for path in files:
            try:
                reports.append(_report_fleet.parse(_report_files.read(path)))
            except (OSError, ValueError) as error:
                problem = f": {error.strerror}" if isinstance(error, OSError) else f" {error}"
                self._notes.append(f"report_previous_file: {path}{problem}; nothing is compared with it.")
        return reports

    def _outputs(self, files: list[Path], earlier_files: list[Path], arguments: JsonObject) -> dict[str, Path]:
        """Return the files to write by format; an empty string leaves a format out."""
        outputs: dict[str, Path] = {}
        for name, suffix in (("html", ".html"), ("junit", ".xml")):
            path = arguments[name]
            if path is None:
                outputs[name] = files[0].with_suffix(suffix)
            elif path:
                outputs[name] = _paths([path])[0]
        reports = {os.path.realpath(path) for path in (*files, *earlier_files)}
        places = [_report_files.place_of(path) for path in outputs.values()]
        for (name, path), place in zip(outputs.items(), places, strict=True):
            if place in reports or places.count(place) > 1:
                self._refuse(
                    f"report_{name}", f"{path} is a report, or the file of another format", "name a file of its own"
                )
        return outputs

    def _write(self, variable: str, path: Path, content: str) -> bool:
        try:
            return _report_files.write(path, content, pretend=self._task.check_mode)
        except OSError as error:
            self._refuse(
                variable, f"{path} cannot be written: {error.strerror}", "name a file in a directory that you can write"
            )
        return True
