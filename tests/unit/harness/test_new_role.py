"""What `script/new-role` refuses, before it writes anything, and what it writes."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import new_role
from harness.bench import role_cost
from harness.sandbox.lab import Refusal

ROW = "play: workstations\ntask: Configure it\ndoes: a\nread_to: b\ntested: c\npromises: d\nports: [9700]\n"
SPECS = "argument_specs: {main: {options: {web_state: {}, web_admin_port: {default: 9701}}}}\n"
OPTIONS = [{}, {"unit": True}, {"unit": True, "port": 9702}, {"unit": True, "port": 9702, "metric": True}]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return a committed tree with the role web and the module gpu_info."""
    files = {
        "roles/web/meta/rigwright.yml": ROW,
        "roles/web/meta/argument_specs.yml": SPECS,
        "plugins/modules/gpu_info.py": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in ("init -q", "add -A", "-c user.name=a -c user.email=a@b commit -qm a"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("web", {}, "web is a role already"),
        ("gpu_info", {}, "gpu_info is the name of plugins/modules/gpu_info.py"),
        *(
            (name, {}, "must be an identifier")
            for name in ("", "Probe", "2x", "a-b", "a b", "_a", "a__b", "class", "../a")
        ),
        ("probe", {"unit": True, "port": 9700}, "--port 9700 is taken by the role web"),
        ("probe", {"unit": True, "port": 9701}, "--port 9701 is taken by the role web"),
        ("probe", {"unit": True, "port": 80}, "--port 80 must be from 1024 to 65535"),
        ("probe", {"port": 9702}, "--port needs --unit"),
        ("probe", {"unit": True, "metric": True}, "--metric needs --port"),
    ],
)
def test_request_that_makes_no_role_is_refused(tree: Path, name: str, options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refusal, match=message):
        new_role.check(name, **options, root=tree)


def test_tree_with_uncommitted_changes_is_refused(tree: Path) -> None:
    new_role.check("probe", 9702, unit=True, metric=True, root=tree)
    (tree / "new").write_text("")
    with pytest.raises(Refusal, match="uncommitted changes"):
        new_role.check("probe", root=tree)


@pytest.mark.parametrize("options", OPTIONS)
def test_role_is_written_for_its_options(tree: Path, options: dict[str, Any]) -> None:
    files = new_role.render("disk_probe", tree, **({"unit": False, "port": None, "metric": False} | options))
    for path, text in files.items():
        assert "<%" not in text and "<<" not in text
        assert "NAME" not in path
        if path.endswith(".py"):
            ast.parse(text)
        elif path.endswith(".yml"):
            yaml.safe_load(text)
    assert yaml.safe_load(files["roles/disk_probe/meta/rigwright.yml"])["after"] == "web"
    assert ("plugins/module_utils/_disk_probe/program.py" in files) is ("unit" in options)
    specs = yaml.safe_load(files["roles/disk_probe/meta/argument_specs.yml"])["argument_specs"]["main"]["options"]
    assert specs.get("disk_probe_port", {}).get("default") == options.get("port")


def test_lines_of_three_other_roles_are_the_same() -> None:
    others = {name: [f"name: {name}", f"port of {name}: 1"] for name in ("a_b", "web", "mail")}
    files = {Path("x"): "name: probe\n\nport of probe: 1\nown: true\n---\n"}
    assert role_cost.cost(files, "probe", others) == (1, 5, 2)
