"""What tests of roles work with: the hosts of the lab, real clients, and a way to apply a role with other variables.

def test_a_short_token_is_refused(apply, unchanged):
    result = apply(variables={"frp_server_token": "short"})
    assert result.rc != 0
    assert "frp_server_token" in result.output
    unchanged()
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import testinfra
from testinfra.host import Host as TestinfraHost

from harness import playbook
from harness.depot import lifecycle as depot
from harness.sandbox import engine, fingerprint, lab
from harness.sandbox.clients import Machine
from tests.contract.role_contract import Role
from tests.slow import leave_out_slow

LAB = lab.read("molecule")
# `script/test --changed --hosts debian13` names one of them.
RELEASES = [host.name for host in LAB.group("targets") if host.name == os.environ.get("RIGWRIGHT_RELEASE", host.name)]
# Where a test applies the role that is not marked `both_releases`: on both it would take twice the time.
ONE_RELEASE = RELEASES[:1]
# Molecule asks for colours, which would stand between the words that a test looks for.
os.environ |= {"ANSIBLE_CONFIG": str(lab.ROOT / "ansible.cfg"), "ANSIBLE_FORCE_COLOR": "false"}


@dataclass(frozen=True)
class Result:
    """The exit status of `ansible-playbook`, its output, and the report of each host (docs/report.md)."""

    rc: int
    output: str
    hosts: Mapping[str, Any]

    @property
    def text(self) -> str:
        """Return the output without the line breaks that Ansible puts between words."""
        return " ".join(self.output.split())

    def changed(self) -> dict[str, int]:
        """Return the number of changed tasks by host."""
        return {name: host["stats"]["changed"] for name, host in self.hosts.items()}

    def findings(self, host: str) -> dict[str, str]:
        """Return the findings of a host: `{id: status}`."""
        return {finding["id"]: finding["status"] for finding in self.hosts[host]["findings"]}


def releases_of(test: pytest.Function, fixtures: Sequence[str]) -> list[str]:
    """Return the targets of a test: both releases where it only looks, or when it is marked so, or with `script/test --all`."""
    everywhere = test.get_closest_marker("both_releases") or os.environ.get("RIGWRIGHT_SLOW")
    return RELEASES if everywhere or "apply" not in fixtures else ONE_RELEASE


# Fixtures of the whole session ask it what a test runs on.
RUNNING: list[str] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Function) -> None:
    RUNNING[:] = releases_of(item, item.fixturenames)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "target" in metafunc.fixturenames:
        metafunc.parametrize(
            "target", releases_of(metafunc.definition, metafunc.fixturenames), indirect=True, scope="session"
        )


@pytest.fixture(scope="session")
def scenario() -> str:
    """Return the name of the scenario, which is that of its role."""
    return os.environ["MOLECULE_SCENARIO_NAME"]


@pytest.fixture(scope="session")
def machine() -> Callable[[str], Machine]:
    """Return a host of the lab by its name: `machine("laptop").ssh("owner@debian12", "true")`."""
    client = engine.connect()
    return lambda name: Machine(client, LAB.host(name))


@pytest.fixture(scope="session")
def all_targets(machine: Callable[[str], Machine]) -> list[Machine]:
    """Return one host for each supported system."""
    return [machine(name) for name in RELEASES]


@pytest.fixture
def targets(machine: Callable[[str], Machine]) -> list[Machine]:
    """Return the hosts that this test applies the role to, or reads (`releases_of`)."""
    return [machine(name) for name in RUNNING]


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest, machine: Callable[[str], Machine]) -> Machine:
    """Return each of these hosts in turn."""
    return machine(request.param)


@pytest.fixture(scope="session")
def host(target: Machine) -> TestinfraHost:
    """Return each of the targets in turn, as testinfra sees it (instead of testinfra's own fixture, which does not know the lab)."""
    return testinfra.get_host(f"docker://{target.host.container}")


@pytest.fixture(scope="session")
def laptop(machine: Callable[[str], Machine]) -> Machine:
    """Return a client."""
    return machine("laptop")


@pytest.fixture(scope="session")
def gateway(machine: Callable[[str], Machine]) -> Machine:
    """Return the server between clients and workstations."""
    return machine("gateway")


@pytest.fixture(scope="session")
def publish() -> Callable[[str, bytes], Any]:
    """Serve other bytes at a path of the depot for the time of a `with` block."""
    return depot.publish


@pytest.fixture(scope="session")
def apply(scenario: str) -> Callable[..., Result]:
    """Apply a role with ansible-playbook, to the targets of the test at the same time by default, and return the result.

    `variables` are added to those of molecule/<role>/vars.yml; they are passed in a file, because secrets may be among them.
    """

    def run(
        role: str = scenario,
        hosts: str = "targets",
        variables: Mapping[str, Any] | None = None,
        *options: str,
        check: bool = False,
    ) -> Result:
        arguments = [*options, *(["--check"] if check else [])]
        wanted = ",".join(RUNNING) if hosts == "targets" else hosts
        return Result(*playbook.apply_role(role, wanted, variables or {}, *arguments))

    return run


@pytest.fixture(scope="session")
def applied(apply: Callable[..., Result], scenario: str) -> Callable[..., Result]:
    """Apply a role, which has to succeed."""

    def run(
        variables: Mapping[str, Any] | None = None,
        *options: str,
        role: str = scenario,
        hosts: str = "targets",
        check: bool = False,
    ) -> Result:
        result = apply(role, hosts, variables, *options, check=check)
        assert result.rc == 0, result.output
        return result

    return run


@pytest.fixture(scope="session")
def first_run(applied: Callable[..., Result]) -> Result:
    """Apply the role to the fresh hosts, once, and return the result."""
    return applied()


@pytest.fixture(scope="session")
def verified(apply: Callable[..., Result]) -> Callable[..., dict[str, dict[str, str]]]:
    """Run tasks/verify.yml of the role, as `playbooks/verify.yml` does, and return the findings: `{host: {id: status}}`."""

    def run(variables: Mapping[str, Any] | None = None) -> dict[str, dict[str, str]]:
        result = apply(variables={**(variables or {}), "apply_tasks_from": "verify"})
        assert result.rc == 0, result.output
        return {name: result.findings(name) for name in result.hosts}

    return run


def record_state(target: Machine, but: str = "") -> Callable[[], None]:
    """Record the state of a host; return a function that checks that nothing has changed or restarted since, except *but*."""
    state, starts = fingerprint.of(target), fingerprint.service_starts(target)

    def prove() -> None:
        changes = fingerprint.difference(state, fingerprint.of(target))
        assert [line for line in changes if not (but and f" {but}" in line)] == []
        assert fingerprint.service_starts(target) == starts

    return prove


@pytest.fixture
def unchanged(targets: list[Machine]) -> Callable[[], None]:
    """Return a function that checks that the first target is as it was before the test."""
    return record_state(targets[0])


@pytest.fixture
def refused(apply: Callable[..., Result], targets: list[Machine]) -> Callable[[Mapping[str, Any], str], None]:
    """Check that the role refuses variables with a message, and changes nothing on the first target."""

    def prove(variables: Mapping[str, Any], message: str) -> None:
        unchanged = record_state(targets[0])
        result = apply(hosts=targets[0].host.name, variables=variables)
        assert result.rc != 0
        assert message in result.text
        unchanged()

    return prove


@pytest.fixture
def all_refused(scenario: str, targets: list[Machine]) -> Callable[..., None]:
    """Check that the role refuses each request with its message, and that none of them changes anything, except *but*."""

    def prove(requests: Sequence[tuple[Mapping[str, Any], str]], but: str = "") -> None:
        unchanged = record_state(targets[0], but)
        outputs = playbook.refusals(scenario, targets[0].host.name, [variables for variables, _message in requests])
        results = zip(requests, outputs, strict=True)
        other = [
            (message, output) for (_variables, message), output in results if message not in " ".join(output.split())
        ]
        assert other == []
        unchanged()

    return prove


def place(item: pytest.Item) -> int:
    """Return 0 for the first run, 1 for the role's own tests, 2 for the contract, which removes the role, and 3 for what follows it."""
    if item.get_closest_marker("first"):
        return 0
    return 3 if item.get_closest_marker("after_contract") else 1 + ("shared" in item.path.parts)


def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """End the tests when the first run has failed: nothing after it would say more."""
    if call.excinfo and item.get_closest_marker("first"):
        item.session.shouldfail = "the first run of the role failed"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Sort the tests by `place`, and leave out those of states where the role has none."""
    leave_out_slow(items)
    items.sort(key=place)
    if Role(lab.ROOT / "roles" / os.environ.get("MOLECULE_SCENARIO_NAME", "")).only_proves:
        of_states = [item for item in items if item.get_closest_marker("of_states")]
        items[:] = [item for item in items if item not in of_states]
        config.hook.pytest_deselected(items=of_states)
