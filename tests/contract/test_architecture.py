# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages of module_utils, their floors, and how large a file may be (docs/architecture.md)."""

from __future__ import annotations

import ast
import json
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core import bundle
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _plan_action

from harness import architecture, pages
from harness.testing import selection

CHECKOUT = Path(__file__).parents[2]
FILE_LINES, MODULE_LINES = 450, 120
# One file that is copied to a machine with a GPU and runs there alone.
ALONE = {"harness/fakes/record_nvml.py"}
# Bytes of our sources that Ansible packs for a module and copies at each run, the compressed third of them.
PAYLOAD = 200_000
# These read what several packages know: apt's state, the driver's packages and kernel; MIG, MPS, modes and jobs of GPUs; whole hosts.
LARGE_PAYLOADS = {
    "bare_metal_plan": 268_000,
    "bare_metal_restore": 227_000,
    "conda_environment": 221_000,
    "gpu_accept": 287_000,
    "gpu_fit": 265_000,
    "gpu_health": 247_000,
    "gpu_info": 221_000,
    "machine_manifest": 205_000,
    "nvidia_driver_packages": 367_000,
}
LARGE_ROLES = {
    "backup": 335_000,
    "conda": 279_000,
    "cuda": 308_000,
    "cudnn": 328_000,
    "docker": 274_000,
    "firewall": 264_000,
    "frp_client": 233_000,
    "frp_server": 233_000,
    "gpu_sharing": 602_000,
    "nvidia_container_toolkit": 338_000,
    "nvidia_driver": 414_000,
    "samba": 256_000,
    "smoke_test": 257_000,
    "ssh": 261_000,
    "storage": 245_000,
    "xrdp": 294_000,
}
# Compressed bytes of the sources of all roles, which the module `role` takes to a host, by the number of roles.
EACH_ROLE = 28_900
DOCUMENTS = {"DOCUMENTATION", "EXAMPLES", "RETURN"}
CODE = [
    path
    for folder in ("plugins", "harness", "roles")
    for path in sorted((CHECKOUT / folder).rglob("*.py"))
    if path.parent != CHECKOUT / "plugins/modules"
]
MODULES = sorted((CHECKOUT / "plugins/modules").glob("*.py"))


def code_lines(text: str) -> int:
    """Count the lines of a module without those of its documentation."""
    documents = [
        node
        for node in ast.parse(text).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id in DOCUMENTS
    ]
    return len(text.splitlines()) - sum((node.end_lineno or 0) - node.lineno + 1 for node in documents)


def payload(module: Path) -> int:
    """Count the bytes of a module and of all that it imports from module_utils."""
    return sum(path.stat().st_size for path in selection.follow({module}, imports_of))


def imports_of(path: Path) -> set[Path]:
    return {file for name in architecture.imported(path.read_text()) for file in files_of(name)}


def files_of(name: str) -> Iterator[Path]:
    """Yield the file of `_gpu.mig.plan`, or of what is imported from it."""
    for parts in (name.split("."), name.split(".")[:-1]):
        file = (CHECKOUT / architecture.UTILS).joinpath(*parts).with_suffix(".py")
        if parts and file.is_file():
            yield file


def upwards(graph: dict[str, set[str]]) -> Iterator[str]:
    """Yield the imports of a package that lead to a higher floor."""
    for package, targets in graph.items():
        for target in sorted(targets):
            if architecture.PACKAGES[target].floor > architecture.PACKAGES[package].floor:
                yield f"{package} imports {target}"


def test_every_file_is_in_a_package_with_a_floor() -> None:
    assert {architecture.package_of(path) for path in architecture.sources()} == set(architecture.PACKAGES)
    assert list((CHECKOUT / architecture.UTILS).glob("*.py")) == []


def test_no_import_leads_upwards() -> None:
    assert list(upwards(architecture.arrows())) == []


def test_no_circle_of_imports() -> None:
    assert architecture.circle(architecture.arrows()) == []


def test_flaws_are_found() -> None:
    assert list(upwards({"_core": {"_gpu"}, "_gpu": {"_core"}})) == ["_core imports _gpu"]
    assert architecture.circle({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == ["a", "b", "c"]
    text = f"from {architecture.NAMESPACE}_gpu.mig import plan, search\nfrom {architecture.NAMESPACE}_core.lock import Busy\n"
    assert list(architecture.imported(text)) == ["_gpu.mig.plan", "_gpu.mig.search", "_core.lock.Busy"]


@pytest.mark.parametrize("path", architecture.sources(), ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_bundle_reads_every_import(path: Path) -> None:
    text = path.read_text()
    named = {
        architecture.NAMESPACE + ".".join(name.split(".")[: len(module_of(name))])
        for name in architecture.imported(text)
    }
    assert bundle.imported(text) == named


def module_of(name: str) -> list[str]:
    """Return the parts of an imported name that are a file."""
    parts = name.split(".")
    return parts if (CHECKOUT / architecture.UTILS / ("/".join(parts) + ".py")).is_file() else parts[:-1]


@pytest.mark.parametrize("path", CODE, ids=lambda path: str(path.relative_to(CHECKOUT)))
def test_file_is_short(path: Path) -> None:
    name = str(path.relative_to(CHECKOUT))
    is_short = len(path.read_text().splitlines()) <= FILE_LINES
    assert is_short is (name not in ALONE)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_module_is_documentation_and_a_short_main(path: Path) -> None:
    assert code_lines(path.read_text()) <= MODULE_LINES


def test_documentation_is_not_counted() -> None:
    assert code_lines('DOCUMENTATION = r"""\na\nb\n"""\nimport os\n\n\ndef main(): pass\n') == 4


@pytest.mark.parametrize("name", pages.PAGES)
def test_page_is_as_the_code_makes_it(name: str) -> None:
    assert (CHECKOUT / name).read_text() == pages.PAGES[name](), "run `python -m harness pages`"


def test_a_module_carries_no_more_than_it_needs() -> None:
    payloads = {module.stem: payload(module) for module in MODULES}
    assert {name: size for name, size in payloads.items() if size > LARGE_PAYLOADS.get(name, PAYLOAD)} == {}
    assert [name for name in LARGE_PAYLOADS if payloads[name] < PAYLOAD] == []


ROLES = sorted((CHECKOUT / "plugins/module_utils/_roles").glob("*.py"))


def carried(*roles: Path) -> dict[str, str]:
    """Return the sources that the module `role` takes to a host for these roles."""
    names = [_plan_action.ENTRY, *(f"{_plan_action.PACKAGE}.{role.stem}" for role in roles)]
    return bundle.collect_all(f"{bundle.PACKAGE}.{name}" for name in names)


@pytest.mark.parametrize("role", ROLES, ids=lambda role: str(role.stem))
def test_a_role_carries_no_more_than_it_needs(role: Path) -> None:
    assert sum(len(source.encode()) for source in carried(role).values()) <= LARGE_ROLES.get(role.stem, PAYLOAD)


def test_all_roles_together_carry_no_more_than_they_need() -> None:
    assert len(zlib.compress(json.dumps(carried(*ROLES)).encode())) <= EACH_ROLE * len(ROLES)


def test_the_module_role_names_what_roles_import_of_ansible() -> None:
    """Ansible copies to a host what the module imports itself, and nothing else of its own."""

    def imported(texts: Iterable[str]) -> set[str]:
        found = [
            match for text in texts for match in re.findall(r"^ *from (ansible\.\S+) import (\w+)", text, re.MULTILINE)
        ]
        return {
            f"{module}.{name}" if name in ("basic", "respawn", "urls", "arg_spec") else module for module, name in found
        }

    module = "ansible_collections.rigwright.workstation.plugins.modules.role"
    assert imported(carried(*ROLES).values()) <= imported(bundle.collect_all([module]).values())
