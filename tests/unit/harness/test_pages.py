# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from harness import pages
from harness.sandbox.lab import Refusal

SPEC = """\
---
argument_specs:
  main:
    options:
      web_state:
        description: V(present) serves pages, see M(rigwright.workstation.finding).
        type: str
        default: present
      web_sites:
        description:
          - >-
            Sites, as V([{name: a}]).
          - Default is C(lab_sites).
        type: list
        elements: dict
        # default: "{{ lab_sites | default([]) }}"
        options:
          name:
            description: Name.
            type: str
            default: x
      site_token:
        description: Token.
        type: str
        required: true
      lab_port:
        description: Port.
        type: int
        default: 80
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    path = tmp_path / "roles/web/meta/argument_specs.yml"
    path.parent.mkdir(parents=True)
    path.write_text(SPEC)
    return tmp_path


def test_defaults_are_values_below_their_descriptions(tree: Path) -> None:
    assert pages.defaults("web", tree) == pages.DEFAULTS_HEAD + (
        "\n# `present` serves pages, see rigwright.workstation.finding.\nweb_state: present\n"
        "\n# Sites, as `[{name: a}]`.\n# Default is `lab_sites`.\n"
        'web_sites: "{{ lab_sites | default([]) }}"\n'
        "\n# Port.\nlab_port: 80 # noqa: var-naming[no-role-prefix]\n"
    )
    assert yaml.safe_load(pages.defaults("web", tree))["lab_port"] == 80


@pytest.mark.parametrize("default", ["", "        default:\n          - a\n", "        default: >-\n          80\n"])
def test_default_that_is_no_line_is_refused(tree: Path, default: str) -> None:
    path = tree / "roles/web/meta/argument_specs.yml"
    path.write_text(SPEC.replace("        default: 80\n", default))
    with pytest.raises(Refusal, match="lab_port needs a default in one line"):
        pages.defaults("web", tree)
