"""Plugins are loaded before Ansible forks workers, and connections hide output."""

import contextlib
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

from ansible_collections.rigwright.workstation.plugins.plugin_utils._internals import hidden_output

from harness.sandbox.lab import ROOT

PRELOAD = """
import sys
from ansible import constants
from ansible.plugins import loader
loader.init_plugin_loader([sys.argv[2]])
from ansible_collections.rigwright.workstation.plugins.plugin_utils._internals import preload
constants.DEFAULT_TRANSPORT = sys.argv[1]
loader.connection_loader.add_directory(sys.argv[3])
preload()
print(*sys.modules, sep="\\n")
"""


def preloaded(transport: str, folder: Path = ROOT) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", PRELOAD, transport, ROOT / "collections", folder],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.splitlines())


def test_filters_and_the_connection_are_loaded() -> None:
    filters = {path.stem for path in (ROOT / "plugins/filter").glob("*.py")}
    modules = preloaded("ssh")
    assert {f"ansible_collections.rigwright.workstation.plugins.filter.{name}" for name in filters} <= modules
    assert "ansible.plugins.connection.ssh" in modules


def test_an_unknown_connection_is_left_to_its_task() -> None:
    assert "ansible.plugins.become.sudo" in preloaded("none.such.connection")


def test_a_broken_connection_is_left_to_its_task(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no such library')\n")
    assert "ansible.plugins.become.sudo" in preloaded("broken", tmp_path)


def test_output_is_hidden_while_a_module_runs() -> None:
    connection = SimpleNamespace(_play_context=SimpleNamespace(no_log=False))
    with contextlib.suppress(OSError), hidden_output(connection):
        assert connection._play_context.no_log
        raise OSError("lost")
    assert not connection._play_context.no_log
    with hidden_output(SimpleNamespace()):
        pass
