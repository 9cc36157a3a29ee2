# SPDX-License-Identifier: GPL-3.0-or-later
"""Options that a role and a public module take have one spec object, which the module uses: its page and the role's spec agree with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import address
from ansible_collections.rigwright.workstation.plugins.module_utils._conda import options as conda
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import options as fit
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mig import options as mig
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.mode import run as mode
from ansible_collections.rigwright.workstation.plugins.module_utils._samba import options as samba

from .role_contract import Role
from .sources import CHECKOUT

Options = Mapping[str, Mapping[str, Any]]

WORDS = ("type", "elements", "choices", "default", "required")
# Spec object, where the module documents it, where the role has it, and what the role says differently (`+`: only the role has it).
SHARED: list[tuple[Options, str, str, set[str]]] = [
    # Passwords of the role are text: it refuses others with a remedy (_plan_request.py).
    (samba.USER, "samba_users.users", "samba_users", {"password.type", "nt_hash.type"}),
    # `file`, `python` and `lock` become packages and the text of a lock file on the controller.
    (conda.ENVIRONMENT, "conda_environment.environments", "conda_environments", {"+file", "+python", "lock.type"}),
    (address.OPTIONS, "backup_repository.repositories", "backup_repositories", set()),
    # Only findings have the name.
    (fit.JOB, "gpu_fit", "gpu_sharing_jobs", {"+name"}),
    # The role hands each part to the module of its own.
    (mode.OPTIONS, "gpu_mode.gpus", "gpu_sharing_gpus", {"+users", "+jobs", "+mig", "+mps"}),
    # Unset, an option is not handed on. The role names the cards, does not wait, and always declares for boots.
    (
        mig.OPTIONS,
        "gpu_mig",
        "gpu_sharing_gpus.mig",
        {"mode.default", "when_busy.default", "when_busy.choices", "allow_reset.default", "-devices", "-mig_parted",
         "-busy_timeout", "-keep_instances", "-persist", "-refresh_cdi", "-plans"},
    ),
]  # fmt: skip


def differences(spec: Options, other: Options, inner: str) -> Iterator[str]:
    """Yield what two declarations of options say differently. No default, and one that is empty, are the same."""
    yield from (f"-{name}" for name in spec.keys() - other.keys())
    yield from (f"+{name}" for name in other.keys() - spec.keys())
    for name in spec.keys() & other.keys():
        for word in WORDS:
            ours, theirs = (option.get(word) or None for option in (spec[name], other[name]))
            if word == "choices":
                ours, theirs = set(ours or ()), set(theirs or ())
            if ours != theirs:
                yield f"{name}.{word}"
        nested = differences(spec[name].get("options") or {}, other[name].get(inner) or {}, inner)
        yield from (f"{name}.{found}" for found in nested)


def documented(page: str) -> Options:
    module, *path = page.split(".")
    text = (CHECKOUT / f"plugins/modules/{module}.py").read_text()
    found: Any = yaml.safe_load(text.partition('DOCUMENTATION = r"""')[2].partition('"""')[0])["options"]
    for name in path:
        found = found[name]["suboptions"]
    return found


def of_role(path: str) -> Options:
    variable, *rest = path.split(".")
    roles = (Role(file.parents[1]) for file in (CHECKOUT / "roles").glob("*/meta/argument_specs.yml"))
    found: Any = next(role.options for role in roles if variable in role.options)[variable]["options"]
    for name in rest:
        found = found[name]["options"]
    return found


@pytest.mark.parametrize(("spec", "page", "path", "differs"), SHARED, ids=[path for _spec, _page, path, _ in SHARED])
def test_page_and_role_agree_with_the_spec(spec: Options, page: str, path: str, differs: set[str]) -> None:
    found = set(differences(spec, documented(page), "suboptions"))
    # The object has the options of a job; those of gpu_fit itself are in the module.
    assert {name for name in found if page != "gpu_fit" or not name.startswith("+")} == set()
    assert set(differences(spec, of_role(path), "options")) == differs


@pytest.mark.parametrize(
    ("spec", "other", "found"),
    [
        ({"x": {"type": "int"}}, {"x": {"type": "int", "default": None}}, []),
        ({"x": {"choices": ["a", "b"]}}, {"x": {"choices": ["b", "a"]}}, []),
        ({"x": {"choices": ["a", "b"]}}, {"x": {"choices": ["a"]}}, ["x.choices"]),
        ({"x": {}}, {"y": {}}, ["-x", "+y"]),
        ({"x": {"options": {"y": {"default": 1}}}}, {"x": {"options": {"y": {}}}}, ["x.y.default"]),
    ],
)
def test_difference_is_found(spec: Options, other: Options, found: list[str]) -> None:
    assert list(differences(spec, other, "options")) == found
