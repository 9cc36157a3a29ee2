"""GPUs that are shared as declared, now and after a reboot; and a card that cannot be what is asked.

The GPUs are imitated (harness/hosts_with_gpus.py): kernel, NVML and nvidia-smi. Modules, units, what these run at boot, and nvidia-ml-py
are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.clients import Machine
from harness.hosts_with_gpus import GPUS, state

Apply = Callable[..., Any]
Verified = Callable[..., dict[str, dict[str, str]]]
UNIT = "rigwright-gpu-mode.service"


def facts(target: Machine) -> dict[str, str]:
    """What the imitated cards have, by name."""
    (path,) = state()
    return dict(line.split("=", 1) for line in target.must(f"cat {path}").splitlines() if "=" in line)


def limits(target: Machine) -> list[str]:
    found = facts(target)
    return [found[f"gpu.{index}.power.limit"] for index in range(len(GPUS))]


def test_cards_are_as_declared(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        # 80 % of 450 W.
        assert limits(target) == ["360000", "360000"]
        assert target.must("nvidia-smi compute-policy -l").count("Long") == 2
    for found in verified().values():
        assert found["gpu_sharing.declared"] == found["gpu_sharing.complete"] == "pass", found


def test_what_a_reboot_takes_is_brought_back_by_the_unit(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        assert target.must(f"systemctl is-enabled {UNIT}") == "enabled\n"
        # As the driver begins.
        target.put(state())
        assert limits(target) == ["450000", "450000"]
        target.must(f"systemctl restart {UNIT}", seconds=120)
        assert limits(target) == ["360000", "360000"]
        assert "power_limit 360 W" in target.must(f"journalctl --boot --unit {UNIT}")
    for found in verified().values():
        assert found["gpu_sharing.declared"] == "pass", found


def test_what_somebody_else_has_set_is_told_and_mended(
    applied: Apply, verified: Verified, targets: list[Machine]
) -> None:
    for target in targets:
        target.must("nvidia-smi compute-policy --set-timeslice=1 -i 1")
    for found in verified().values():
        assert found["gpu_sharing.declared"] == "fail", found
    applied()
    for target in targets:
        assert target.must("nvidia-smi compute-policy -l").count("Long") == 2


def test_a_choice_that_does_not_fit_is_a_warning(applied: Apply, targets: list[Machine]) -> None:
    told = applied({"gpu_sharing_gpus": [{"device": "all", "users": "strangers", "persistence": True}]})
    for target in targets:
        assert told.findings(target.host.name)["gpu_sharing.gpu0"] == "warn"
    applied()


def test_mig_on_a_geforce_is_refused_and_nothing_is_changed(apply: Apply, targets: list[Machine]) -> None:
    before = [facts(target)["writes"] for target in targets]
    gpus = [{"device": "all", "power_limit": "200 W", "mig": {"mode": "enabled", "layout": []}}]
    result = apply(variables={"gpu_sharing_gpus": gpus})
    assert result.rc != 0
    assert "RTX 4090" in result.text and "MIG" in result.text
    assert [facts(target)["writes"] for target in targets] == before
