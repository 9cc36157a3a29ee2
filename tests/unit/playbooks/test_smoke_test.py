# SPDX-License-Identifier: GPL-3.0-or-later
"""The environments that the role smoke_test takes from the variables of the role conda."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

VARS = Path(__file__).parents[3] / "roles/smoke_test/vars/main.yml"


@pytest.mark.parametrize(
    ("request_", "found"),
    [
        ({}, []),
        (
            {"conda_environments": [{"name": "lab", "packages": ["pytorch >=2.8", "scikit-learn"]}]},
            ["/opt/conda/envs/lab/bin/python"],
        ),
        (
            {
                "conda_prefix": "/data/conda",
                "conda_environments": [
                    {"name": "a", "packages": ["conda-forge::pytorch-gpu=2.9", "scikit-learn[version='>1']"]}
                ],
            },
            ["/data/conda/envs/a/bin/python"],
        ),
        (
            {"conda_environments": [{"name": "b", "packages": ["scikit-learn"], "pip": ["torch==2.9"]}]},
            ["/opt/conda/envs/b/bin/python"],
        ),
        ({"conda_environments": [{"name": "c", "packages": ["pytorch"]}]}, []),
        ({"conda_environments": [{"name": "d", "packages": ["torchvision", "scikit-learn"]}]}, []),
        ({"conda_environments": [{"name": "e", "state": "absent", "packages": ["pytorch", "scikit-learn"]}]}, []),
    ],
)
def test_conda_environments_with_the_packages_are_chosen(run_tasks, request_: dict[str, Any], found: list[str]):
    run = run_tasks(
        [
            {"ansible.builtin.include_vars": str(VARS)},
            {
                "ansible.builtin.assert": {
                    "that": f"__smoke_test_of_conda | map(attribute='python') | list == {found}"
                },
                "vars": request_,
            },
        ]
    )
    assert run.rc == 0, run.output
