# SPDX-License-Identifier: GPL-3.0-or-later
"""Run a module in this process, or a play as a user would."""

from __future__ import annotations

import importlib.util
import json
import os
import shlex
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml
from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.testing import patch_module_args
from ansible_collections.rigwright.workstation.plugins.module_utils._core import lock
from hypothesis import HealthCheck, settings

from harness import playbook
from harness.testing.plays import has_plays
from tests.slow import leave_out_slow
from tests.unit.support.unsafe_paths import WATCH

CHECKOUT = Path(__file__).parents[2]

# How long an example takes depends on what else the machine does. `script/test --all` tries ten times as many.
settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    max_examples=400 if os.environ.get("RIGWRIGHT_SLOW") else 40,
)
settings.load_profile("untimed")

CONFIGURATION = """\
[defaults]
collections_path = collections:{checkout}/collections
roles_path = roles
inject_facts_as_vars = false
callbacks_enabled = rigwright.workstation.report
stdout_callback = {stdout_callback}
nocolor = true
strategy_plugins = {mitogen}/plugins/strategy
"""

MITOGEN = Path(next(iter(importlib.util.find_spec("ansible_mitogen").submodule_search_locations)))  # type: ignore[union-attr, arg-type]

CommandOutcome = tuple[int, str, str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that start ansible-playbook, which `script/test` runs in a stage of their own, and skip slow ones."""
    leave_out_slow(items)
    for item in items:
        if "plays_command" in getattr(item, "fixturenames", ()):
            assert has_plays(item.path), f"the stage `plays` does not find {item.nodeid}"
            item.add_marker(pytest.mark.plays)


@pytest.fixture(autouse=True)
def unsafe_paths(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test in which root's code uses a path that another user can change."""
    WATCH.found.clear()
    WATCH.active = request.node.get_closest_marker("unsafe_paths") is None
    yield
    WATCH.active = False
    assert WATCH.found == []


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Yield a temporary directory that other users can reach. pytest closes the common parent of `tmp_path` to them."""
    with tempfile.TemporaryDirectory(prefix="rigwright-") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.fixture
def run_module(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., dict[str, Any]]]:
    """Return run(module, check=False, commands=None, **params), which returns the result of the module's main().

    *commands* maps command lines to (rc, out, err), as a terminal would show them: a module may run these and no others.
    Without it, commands really run.
    """
    # Nothing of a test waits for what another one locks, or needs the rights to /run.
    monkeypatch.setattr(lock, "DIRECTORY", str(tmp_path_factory.mktemp("locks")))

    def run(
        module: ModuleType, check: bool = False, commands: Mapping[str, CommandOutcome] | None = None, **params: Any
    ) -> dict[str, Any]:
        if commands is not None:

            def run_command(self: AnsibleModule, args: str | list[str], *_rest: Any, **_options: Any) -> CommandOutcome:
                line = args if isinstance(args, str) else shlex.join(args)
                if line not in commands:
                    pytest.fail(f"the module ran `{line}`, which the test does not list")
                return commands[line]

            monkeypatch.setattr(AnsibleModule, "run_command", run_command)
            monkeypatch.setattr(AnsibleModule, "get_bin_path", lambda self, name, *_rest, **_options: name)
        warnings: list[str] = []
        # In a process that has loaded the controller's code too, a warning would go to its display and not into the result.
        monkeypatch.setattr(AnsibleModule, "warn", lambda self, text, *_rest, **_options: warnings.append(text))
        arguments = {**params, "_ansible_check_mode": check, "_ansible_diff": True}
        with patch_module_args(arguments), pytest.raises(SystemExit):
            module.main()
        result: dict[str, Any] = json.loads(capfd.readouterr().out)
        return {**result, "warnings": warnings}

    # What a module does with signals ends with it, as it does where a module is a process.
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)}
    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@dataclass
class PlaybookRun:
    """How ansible-playbook ended, what it said, and what the report callback wrote."""

    rc: int
    output: str
    report: dict[str, Any]


@dataclass
class Command:
    """A run of ansible-playbook that was prepared, and the file of its report."""

    arguments: list[str | Path]
    folder: Path
    environment: dict[str, str]
    report: Path

    def reported(self) -> dict[str, Any]:
        """Return what the report callback wrote."""
        return json.loads(self.report.read_text()) if self.report.is_file() else {}


@pytest.fixture
def plays_command(tmp_path: Path) -> Callable[..., Command]:
    """Return command(plays, *options, hosts, silence, stdout_callback), which prepares a run of the real ansible-playbook.

    Roles and collections are looked for in tmp_path before the checkout.
    """

    def command(
        plays: list[dict[str, Any]],
        *options: str,
        hosts: tuple[str, ...] = ("localhost",),
        silence: float = 20,
        stdout_callback: str = "ansible.builtin.default",
    ) -> Command:
        local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
        inventory = {"all": {"vars": local, "hosts": dict.fromkeys(hosts)}}
        (tmp_path / "play.yml").write_text(yaml.safe_dump(plays, sort_keys=False))
        (tmp_path / "hosts.yml").write_text(yaml.safe_dump(inventory))
        configuration = CONFIGURATION.format(checkout=CHECKOUT, mitogen=MITOGEN, stdout_callback=stdout_callback)
        (tmp_path / "ansible.cfg").write_text(configuration)
        report = tmp_path / "report.json"
        others = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
        return Command(
            [Path(sys.executable).with_name("ansible-playbook"), "-i", "hosts.yml", "play.yml", *options],
            tmp_path,
            {
                **others,
                "ANSIBLE_CONFIG": "ansible.cfg",
                "ANSIBLE_HOME": "home",
                "RIGWRIGHT_REPORT_PATH": str(report),
                "RIGWRIGHT_REPORT_SILENCE": str(silence),
            },
            report,
        )

    return command


@pytest.fixture
def run_plays(plays_command: Callable[..., Command]) -> Callable[..., PlaybookRun]:
    """Return run(plays, *options, hosts=("localhost",), silence=20), which runs *plays* with the real ansible-playbook, on this machine.

    It takes what `plays_command` takes.
    """

    def run(plays: list[dict[str, Any]], *options: str, **prepared: Any) -> PlaybookRun:
        command = plays_command(plays, *options, **prepared)
        arguments = [str(argument) for argument in command.arguments[1:]]
        rc, output = playbook.run(arguments, command.folder, command.environment, own_settings=True, limit_s=300)
        return PlaybookRun(rc, output, command.reported())

    return run


@pytest.fixture
def run_tasks(run_plays: Callable[..., PlaybookRun]) -> Callable[..., PlaybookRun]:
    """Return run(tasks, *options, hosts=("localhost",)), which runs one play of *tasks* as run_plays does."""

    def run(tasks: list[dict[str, Any]], *options: str, hosts: tuple[str, ...] = ("localhost",)) -> PlaybookRun:
        return run_plays([{"hosts": "all", "gather_facts": False, "tasks": tasks}], *options, hosts=hosts)

    return run
