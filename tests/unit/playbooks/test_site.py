# SPDX-License-Identifier: GPL-3.0-or-later
"""The real order of the site, the real ends of frp_server and the real guard of frp_client, around roles that do nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

CHECKOUT = Path(__file__).parents[3]
SITE = [{"import_playbook": "rigwright.workstation.site"}]
REFUSED = "frp_client_server_host: is one, which has failed earlier in this run"
HOSTS = ("one", "two", "tower")
GROUPS: dict[str, Any] = {"gateways": {"hosts": {"one": {}, "two": {}}}, "workstations": {"hosts": {"tower": {}}}}
VARIABLES = {
    "ansible_become": False,
    "frp_client_server_address": "one",
    "frp_server_state": "present",
    "__frp_server_requirements": [],
    "workstation_roles": [],
}
FAIL = "- ansible.builtin.fail:\n  when: inventory_hostname == 'one' and broken | default('') == '{}'\n"
GUARD = """\
- rigwright.workstation.require: {that: "{{ __frp_client_requirements_own[:1] }}"}
- ansible.builtin.debug: {msg: the client goes on}
"""


@pytest.fixture
def site(run_plays, tmp_path):
    """Run the site on two gateways and a client of the first; one of the first's roles fails."""
    collection = tmp_path / "collections/ansible_collections/rigwright/workstation"
    files = {
        "common/tasks/prepare.yml": "[]",
        "mirrors/tasks/main.yml": FAIL.format("mirrors"),
        "ssh/tasks/main.yml": "[]",
        "frp_server/tasks/main.yml": None,
        "frp_server/tasks/install.yml": FAIL.format("frp_server"),
        "frp_server/tasks/configure.yml": "[]",
        "frp_server/tasks/remove.yml": "[]",
        "frp_client/defaults/main.yml": None,
        "frp_client/vars/main.yml": None,
        "frp_client/tasks/main.yml": GUARD,
    }
    for name, text in files.items():
        file = collection / "roles" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text is not None else (CHECKOUT / "roles" / name).read_text())
    for part in ("galaxy.yml", "meta", "playbooks", "plugins"):
        (collection / part).symlink_to(CHECKOUT / part)
    (tmp_path / "groups.yml").write_text(yaml.safe_dump({"all": {"children": GROUPS}}))
    (tmp_path / "variables.yml").write_text(yaml.safe_dump(VARIABLES))

    def run(*options):
        done = run_plays(SITE, "-i", "groups.yml", "-e", "@variables.yml", *options, hosts=HOSTS)
        return " ".join(done.output.split())

    return run


@pytest.mark.parametrize("broken", ["mirrors", "frp_server"])
def test_the_client_of_a_gateway_that_failed_is_refused(site, broken):
    words = site("-e", f"broken={broken}")
    assert REFUSED in words
    assert "the client goes on" not in words


@pytest.mark.parametrize(
    "options",
    [
        pytest.param((), id="the gateway is well"),
        pytest.param(("-e", "frp_server_state=absent"), id="it is no server any more"),
        pytest.param(("-e", "broken=mirrors", "--skip-tags", "frp_server"), id="its server is not asked for"),
    ],
)
def test_otherwise_the_client_goes_on(site, options):
    words = site(*options)
    assert REFUSED not in words
    assert "the client goes on" in words
