"""The installed check: its findings, its public report, and Prometheus' textfile.

The GPUs are fakes (harness/fakes/gpu_hosts.py): kernel, NVML, and the kernel's messages in the journal. Timer, unit, program and
nvidia-ml-py are real.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.fakes.gpu_hosts import GPUS, state
from harness.sandbox.clients import Entry, Machine

pytestmark = pytest.mark.both_releases

Verified = Callable[..., dict[str, dict[str, str]]]
REPORT = "/var/lib/rigwright_gpu_health/report.json"
TEXTFILE = "/var/lib/prometheus/node-exporter/rigwright_gpu_health.prom"
FIRST, SECOND = (f"gpu_health.{gpu['uuid']}" for gpu in GPUS)


def check(target: Machine) -> dict[str, Any]:
    """Start the check, as the timer does, and read its report as a user."""
    target.must("systemctl start rigwright-gpu-health.service")
    report: dict[str, Any] = json.loads(target.must(f"cat {REPORT}", user="nobody"))
    return report


def verdicts(report: dict[str, Any]) -> list[str]:
    return [gpu["verdict"] for gpu in report["gpus"]]


def of_second(target: Machine) -> str:
    """Read the verdict on the second GPU from the textfile."""
    text = target.must(f"cat {TEXTFILE}", user="nobody")
    (line,) = (
        row for row in text.splitlines() if row.startswith(f'rigwright_gpu_health_verdict{{uuid="{GPUS[1]["uuid"]}"')
    )
    return line.rpartition(" ")[2]


@pytest.fixture
def nvml(targets: list[Machine]) -> Iterator[Callable[[dict[str, Entry]], None]]:
    """Return a function that changes the state of the fake NVML during the test."""

    def answer(entries: dict[str, Entry]) -> None:
        for target in targets:
            target.put(entries)

    yield answer
    answer(state())
    for target in targets:
        check(target)


def test_healthy_cards_pass(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        report = check(target)
        assert (report["verdict"], verdicts(report), report["unread"]) == ("PASS", ["PASS", "PASS"], [])
        assert of_second(target) == "0"
    for found in verified().values():
        assert set(found.values()) == {"pass"}, found
        assert {
            FIRST,
            SECOND,
            "gpu_health.count",
            "gpu_health.timer",
            "gpu_health.fresh",
            "gpu_health.confinement",
        } <= found.keys()


def test_xid_requires_a_reset_until_the_driver_recovers(
    apply: Callable[..., Any], verified: Verified, targets: list[Machine]
) -> None:
    slot = GPUS[1]["address"].partition(".")[0]
    for target in targets:
        target.must(f"logger --tag kernel 'NVRM: Xid (PCI:{slot}): 109, pid=4242, name=train, Ch 00000008'")
        assert verdicts(check(target)) == ["PASS", "RESET_GPU"]
        assert of_second(target) == "3"
    proof = apply(variables={"apply_tasks_from": "verify"})
    for name, host in proof.hosts.items():
        found = {row["id"]: row for row in host["findings"]}
        assert (found[FIRST]["status"], found[SECOND]["status"]) == ("pass", "fail"), name
        assert "Context Switch Timeout Error" in found[SECOND]["evidence"] and "reset" in found[SECOND]["remedy"]

    for target in targets:
        text = "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
        target.must(f"sleep 1; logger --tag kernel 'NVRM: Xid (PCI:{slot}): 154, {text}'")
        assert verdicts(check(target)) == ["PASS", "PASS"]
    assert {found[SECOND] for found in verified().values()} == {"pass"}


def test_lost_card_and_missing_driver_are_reported(
    verified: Verified, targets: list[Machine], nvml: Callable[[dict[str, Entry]], None]
) -> None:
    nvml(state(gpu__1__lost="1"))
    for target in targets:
        assert verdicts(check(target)) == ["PASS", "REBOOT"]
        assert of_second(target) == "4"

    nvml(state(driver__module=None))
    for target in targets:
        report = check(target)
        assert (report["verdict"], [row["what"] for row in report["reasons"]]) == ("REBOOT", ["nvml_DRIVER_NOT_LOADED"])
    for found in verified().values():
        assert (found["gpu_health.nvml"], found["gpu_health.timer"]) == ("warn", "pass")


def test_verify_reports_a_stopped_check(verified: Verified, targets: list[Machine]) -> None:
    old = json.dumps({"time": 0, "findings": []})
    for target in targets:
        target.must(f"systemctl stop rigwright-gpu-health.timer; echo '{old}' > {REPORT}")
    for found in verified().values():
        assert (found["gpu_health.timer"], found["gpu_health.fresh"]) == ("fail", "fail")
    for target in targets:
        target.must("systemctl start rigwright-gpu-health.timer")
        check(target)
