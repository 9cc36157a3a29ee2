# SPDX-License-Identifier: GPL-3.0-or-later
"""What is read from requirements and locks, and what uv is asked for. What it really does: ../modules/test_conda_environment.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError, Package, Wanted
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.uv import (
    Uv,
    blocks,
    requested,
    torch_backends,
    without,
)

LOCK = """\
einops==0.8.1 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
Typing_Extensions==4.15 ; python_version < "3.13" \\
    --hash=sha256:cc
"""


def test_a_lock_has_an_entry_with_its_hashes_for_each_project():
    assert [block.count("--hash") for block in blocks(LOCK)] == [2, 1]


def test_packages_of_a_lock_are_known_before_installation():
    assert requested(blocks(LOCK)) == {"einops (pip)": Package("0.8.1"), "typing-extensions (pip)": Package("4.15")}


@pytest.mark.parametrize(
    ("line", "name", "version"),
    [
        ("einops", "einops", ""),
        ("Flask-Cors >=3,<4", "flask-cors", ">=3,<4"),
        ("a[b]==1", "a", "[b]==1"),
        ("x@file:///x", "x", "@file:///x"),
    ],
)
def test_requested_packages_keep_their_constraints(line, name, version):
    assert requested([line]) == {f"{name} (pip)": Package(version)}


def test_conda_packages_are_dropped_from_a_lock():
    assert without(LOCK, {"typing-extensions"}) == LOCK[: LOCK.index("Typing")]
    assert without(LOCK, {"einops"}) == LOCK[LOCK.index("Typing") :]


class Program:
    """A fake of uv, which keeps its command lines."""

    def __init__(self, folder: Path, rc: int = 0, out: str = "", err: str = "") -> None:
        self.path = folder / "uv"
        self.path.touch()
        self.answer = (rc, out, err)
        self.commands: list[list[str]] = []
        self.constraints = ""

    def run(self, command: list[str], **options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if "--constraints" in command:
            self.constraints = Path(command[command.index("--constraints") + 1]).read_text()
        return self.answer

    def uv(self, index_url: str = "") -> Uv:
        return Uv(str(self.path), "/cache", index_url, True, self.run)


def wanted(*lines: str, cuda: str = "") -> Wanted:
    return Wanted("e", {"pip": list(lines)}, cuda=cuda)


def test_conda_packages_are_constraints_of_pip(tmp_path):
    program = Program(tmp_path, out=LOCK)
    lock = program.uv().lock(wanted("layers"), "/prefix", ["einops-0.8.1.dist-info", "odd.egg-info"])
    assert program.constraints == "einops==0.8.1\n"
    assert "einops" not in lock and "Typing_Extensions" in lock


def test_an_index_is_named_only_where_one_is_set(tmp_path):
    program = Program(tmp_path)
    program.uv().install(wanted(), LOCK, "/prefix")
    program.uv("https://index.example/simple").install(wanted(), LOCK, "/prefix")
    assert "--index-url" not in program.commands[0]
    assert program.commands[1][program.commands[1].index("--index-url") + 1] == "https://index.example/simple"
    assert all("--require-hashes" in command and "--no-deps" in command for command in program.commands)


@pytest.mark.parametrize(
    ("cuda", "backend"),
    [
        ("", "cpu"),
        ("11.4", "cpu"),
        ("12.2", "cu121"),
        ("12.7", "cu126"),
        ("12.8", "cu128"),
        ("13.1", "cu130"),
        ("13.4", "cu132"),
    ],
)
def test_torch_variant_is_the_newest_for_the_driver(tmp_path, cuda, backend):
    assert torch_backends(cuda)[0] == backend
    program = Program(tmp_path, out=LOCK)
    program.uv().lock(wanted("torch", cuda=cuda), "/prefix", [])
    program.uv().install(wanted("torch", cuda=cuda), LOCK, "/prefix")
    assert [command[command.index("--torch-backend") + 1] for command in program.commands] == [backend, backend]


class Index:
    """A fake of uv whose indexes have a version of torch for some backends only."""

    def __init__(self, folder: Path, *backends: str) -> None:
        self.path = folder / "uv"
        self.path.touch()
        self.backends = backends
        self.tried: list[str] = []

    def run(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        backend = command[command.index("--torch-backend") + 1]
        self.tried.append(backend)
        if backend in self.backends:
            return 0, f"torch==2.5.1+{backend} \\\n    --hash=sha256:aa\n", ""
        return 1, "", "No solution found when resolving dependencies: there is no version of torch==2.5.1"

    def lock(self, cuda: str, lowest: str = "") -> str:
        program = Uv(str(self.path), "/cache", "", True, self.run)
        return program.lock(Wanted("e", {"pip": ["torch==2.5.1"]}, cuda=cuda, lowest_cuda=lowest), "/prefix", [])


def test_older_torch_comes_from_the_newest_index_that_has_it(tmp_path):
    index = Index(tmp_path, "cu124", "cu121")
    lock = index.lock("13.0")
    assert lock.startswith("torch==2.5.1+cu124")
    assert index.tried == ["cu130", "cu129", "cu128", "cu126", "cu124"]
    Uv(str(index.path), "/cache", "", True, index.run).install(wanted(cuda="13.0"), lock, "/prefix")
    assert index.tried[-1] == "cu124"


def test_torch_without_kernels_for_the_card_is_refused(tmp_path):
    index = Index(tmp_path, "cu124")
    with pytest.raises(CondaError, match="the driver and the GPUs support: cu130, cu129, cu128$"):
        index.lock("13.0", "12.8")


def test_wheels_of_a_card_older_than_turing():
    assert torch_backends("12.6") == ["cu126", "cu124", "cu121", "cu118"]


@pytest.mark.parametrize("lowest", ["12.8", "13.0"])
def test_driver_with_cuda_never_leads_to_the_processor(lowest):
    assert torch_backends("12.6", lowest) == torch_backends("12.6")


def test_error_of_uv_is_one_line(tmp_path):
    program = Program(tmp_path, rc=1, err="  \u00d7 No solution found:\n  ╰─▶ Because b\n      and c.\n")
    with pytest.raises(
        CondaError,
        match="the requirements .* of the environment e cannot be installed: No solution found: Because b and c. Loosen",
    ):
        program.uv().install(wanted(), LOCK, "/prefix")


def test_missing_uv_names_the_role_conda(tmp_path):
    with pytest.raises(CondaError, match="uv is missing: the role conda installs it"):
        Uv(str(tmp_path / "uv"), "/cache", "", True, lambda *_rest, **_options: (0, "", "")).install(
            wanted(), LOCK, "/prefix"
        )
