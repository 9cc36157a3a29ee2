# SPDX-License-Identifier: GPL-3.0-or-later
"""Findings that Ansible takes, and metrics that Prometheus takes."""

from __future__ import annotations

import re
from typing import Any, cast

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import report
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health import verdict as health_verdict
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.health.xid_log import Xid
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import NvmlError
from ansible_collections.rigwright.workstation.plugins.plugin_utils import _finding

from tests.unit.support.gpu.cards import ADDRESS, UUID, card

# prometheus.io/docs/instrumenting/exposition_formats: a sample with or without labels.
SAMPLE = re.compile(r'[a-z_]+(\{([a-z_]+="(\\.|[^"\\])*",?)+\})? -?\d+(\.\d+)?(e[+-]?\d+)?')


NO_SWITCH: Any = {"nvswitches": [], "expected_count": None}


def result(signs: Any = None, *xids: Xid, unread: tuple[str, ...] = ()) -> Any:
    facts = card() if signs is None else signs
    judged = health_verdict.judge(facts, xids, {})
    gpu = {
        **{name: facts.get(name) for name in ("index", "uuid", "pci_address", "name")},
        **judged,
        "xids": [xid.as_result() for xid in xids],
        "card": facts,
    }
    return {
        "verdict": judged["verdict"],
        "reasons": [],
        "gpus": [gpu],
        "unread": list(unread),
        "time": 1000.5,
        **NO_SWITCH,
    }


@pytest.mark.parametrize(
    ("xid", "status"), [(None, "pass"), (63, "pass"), (92, "warn"), (31, "fail"), (109, "fail"), (79, "fail")]
)
def test_a_verdict_is_a_finding_with_evidence_and_remedy(xid: int | None, status: str) -> None:
    findings = report.findings(result(card(), *([Xid(xid, "0000:41:00")] if xid else [])))
    by_id = {row["id"]: _finding.parse(row) for row in findings}
    assert list(by_id) == [f"gpu_health.{UUID}", "gpu_health.nvml", "gpu_health.unread"]
    finding = by_id[f"gpu_health.{UUID}"]
    assert finding["status"] == status
    assert "NVIDIA H200 at 0000:41:00.0" in finding["evidence"]
    assert (f"xid_{xid}" in finding["evidence"]) is (status != "pass")
    assert bool(finding["remedy"]) is (status != "pass")


def test_nvswitches_and_gpu_count_have_findings() -> None:
    sxid = vars(health_verdict.reason("sxid_20034", "once: Fatal", "https://x", "RESET_GPU"))
    count = vars(health_verdict.reason("gpu_count", "1 GPUs of 2 are there", "https://x", "REBOOT"))
    switch = {"name": "nvswitch0", "pci_address": "0000:05:00.0", "verdict": "RESET_GPU", "reasons": [sxid]}
    checked = result() | {"reasons": [count], "nvswitches": [switch], "expected_count": 2}
    found = {row["id"]: _finding.parse(row)["status"] for row in report.findings(checked)}
    # NVML answers, and the GPU that is there is well.
    assert found == {
        f"gpu_health.{UUID}": "pass",
        "gpu_health.nvswitch0": "fail",
        "gpu_health.count": "fail",
        "gpu_health.nvml": "pass",
        "gpu_health.unread": "pass",
    }
    assert 'rigwright_gpu_health_nvswitch_verdict{name="nvswitch0",pci_address="0000:05:00.0"} 3\n' in report.metrics(
        checked
    )
    well = {row["id"]: row for row in report.findings(checked | {"reasons": []})}
    assert well["gpu_health.count"]["status"] == "pass"


def test_unread_facts_are_a_warning() -> None:
    findings = {row["id"]: row for row in report.findings(result(None, unread=("the kernel's log: no rights",)))}
    assert _finding.parse(findings["gpu_health.unread"])["status"] == "warn"
    assert findings["gpu_health.unread"]["evidence"] == "the kernel's log: no rights"
    assert findings[f"gpu_health.{UUID}"]["status"] == "pass"


@pytest.mark.parametrize(("code", "status"), [(18, "warn"), (9, "warn"), (12, "warn"), (11, "fail")])
def test_error_of_nvml_is_one_finding_with_a_remedy(code: int, status: str) -> None:
    """Warn only: the role nvidia_driver reports whether a reboot is due after a change of the driver."""
    problem = NvmlError(code, "nvmlInit")
    host: Any = {"problem": problem.as_result()}
    reasons = [vars(health_verdict.of_error(problem.as_result()))]
    checked = result(card(uuid=None, name=None))
    checked["gpus"][0] |= health_verdict.judge(cast(Any, {}), [], host)
    gpu, nvml, _unread = report.findings(checked | {"verdict": "REBOOT", "reasons": reasons})
    assert (nvml["id"], nvml["status"], nvml["remedy"]) == ("gpu_health.nvml", status, problem.next_step)
    assert problem.name in nvml["evidence"]
    assert (gpu["status"], gpu["evidence"]) == ("skip", "GPU at 0000:41:00.0: NVML does not answer")

    checked["gpus"][0] |= health_verdict.judge(cast(Any, {}), [Xid(79, "0000:41:00")], host)
    gpu, *_others = report.findings(checked | {"verdict": "REBOOT", "reasons": reasons})
    assert gpu["status"] == "fail" and "xid_79" in gpu["evidence"] and problem.name not in gpu["evidence"]


def test_host_without_a_gpu_skips_nvml() -> None:
    checked = result() | {"gpus": []}
    assert [(row["id"], row["status"]) for row in report.findings(checked)] == [
        ("gpu_health.nvml", "skip"),
        ("gpu_health.unread", "pass"),
    ]


@pytest.mark.parametrize(
    ("uuid", "address", "id_"),
    [
        (None, ADDRESS, "gpu_health.0000-41-00-0"),
        (None, None, "gpu_health.index-0"),
        (UUID, None, f"gpu_health.{UUID}"),
    ],
)
def test_lost_gpu_has_a_finding_by_address_or_index(uuid: str | None, address: str | None, id_: str) -> None:
    findings = report.findings(result(card(uuid=uuid, pci_address=address, name=None)))
    assert _finding.parse(findings[0])["id"] == id_


def metrics(text: str) -> dict[str, str]:
    """Return the samples by name and labels."""
    rows = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
    return {name: value for name, _space, value in rows}


def test_each_metric_has_one_help_and_one_type() -> None:
    text = report.metrics(result(card(), Xid(31, "0000:41:00"), Xid(31, "0000:41:00"), Xid(109, "0000:41:00")))
    assert text.endswith("\n")
    named: list[str] = []
    for line in text.splitlines():
        if line.startswith("# HELP "):
            named.append(line.split()[2])
        elif line.startswith("# TYPE "):
            assert line.split()[2] == named[-1] and line.split()[3] in ("gauge", "counter")
            assert (line.split()[3] == "counter") is named[-1].endswith("_total")
        else:
            assert SAMPLE.fullmatch(line), line
            assert re.split(r"[{ ]", line)[0] == named[-1]
    assert len(named) == len(set(named))


def test_metrics_have_verdict_reasons_and_counters() -> None:
    labels = f'uuid="{UUID}",pci_address="{ADDRESS}",name="NVIDIA H200"'
    found = metrics(report.metrics(result(card(counters__pcie__replays=7), Xid(109, "0000:41:00"))))
    assert found["rigwright_gpu_health_host_verdict"] == "3"
    assert found[f"rigwright_gpu_health_verdict{{{labels}}}"] == "3"
    assert found[f'rigwright_gpu_health_reason{{{labels},what="xid_109"}}'] == "3"
    assert found[f'rigwright_gpu_health_xids{{{labels},xid="109"}}'] == "1"
    assert found[f"rigwright_gpu_pcie_replays_total{{{labels}}}"] == "7"
    assert found[f"rigwright_gpu_power_watts{{{labels}}}"] == "75.5"
    assert found["rigwright_gpu_health_last_check_timestamp_seconds"] == "1000.5"


def test_missing_value_has_no_line_in_metrics() -> None:
    geforce = card(counters=dict.fromkeys(card()["counters"]), nvlink=None, temperature__memory_c=None)
    text = report.metrics(result(geforce))
    assert "ecc" not in text and "nvlink" not in text and "memory_temperature" not in text
    assert "rigwright_gpu_temperature_celsius" in text


def test_missing_gpu_has_only_its_verdict_in_metrics() -> None:
    gone = {"index": None, "uuid": None, "name": None, "pci_address": ADDRESS, "shown_by_nvml": False}
    found = metrics(report.metrics(result(gone)))
    labels = f'uuid="",pci_address="{ADDRESS}",name=""'
    assert found[f"rigwright_gpu_health_verdict{{{labels}}}"] == "4"
    assert not [name for name in found if name.startswith("rigwright_gpu_temperature")]


def test_quotes_in_a_name_are_escaped() -> None:
    text = report.metrics(result(card(name='a "b" \\ c\nd')))
    assert 'name="a \\"b\\" \\\\ c\\nd"' in text
    assert all(line.startswith("#") or SAMPLE.fullmatch(line) for line in text.splitlines())
