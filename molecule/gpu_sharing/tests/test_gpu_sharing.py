"""GPUs that are shared as declared, now and after a reboot; and impossible requests.

The GPUs are fakes (harness/fakes/gpu_hosts.py): kernel, NVML and nvidia-smi. Modules, units, their boot programs and nvidia-ml-py are real.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from harness.fakes import gpu_host as fake_gpu_host
from harness.fakes import mps as fake_mps
from harness.fakes.gpu_hosts import GPUS, state
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Entry, Machine

Apply = Callable[..., Any]
Verified = Callable[..., dict[str, dict[str, str]]]
UNIT = "rigwright-gpu-mode.service"


def facts(target: Machine) -> dict[str, str]:
    """Return the facts of the fake cards, by name."""
    (path,) = state()
    return dict(line.split("=", 1) for line in target.must(f"cat {path}").splitlines() if "=" in line)


def limits(target: Machine) -> list[str]:
    found = facts(target)
    return [found[f"gpu.{index}.power.limit"] for index in range(len(GPUS))]


@pytest.mark.both_releases
def test_cards_are_as_declared(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        # 80 % of 450 W.
        assert limits(target) == ["360000", "360000"]
        assert target.must("nvidia-smi compute-policy -l").count("Long") == 2
    for found in verified().values():
        assert found["gpu_sharing.declared"] == found["gpu_sharing.complete"] == "pass", found
        assert found["gpu_sharing.jobs"] == "pass", found


@pytest.mark.both_releases
def test_unit_restores_the_modes_after_a_reboot(verified: Verified, targets: list[Machine]) -> None:
    for target in targets:
        assert target.must(f"systemctl is-enabled {UNIT}") == "enabled\n"
        # The state of a driver after its start.
        target.put(state())
        assert limits(target) == ["450000", "450000"]
        target.must(f"systemctl restart {UNIT}", seconds=120)
        assert limits(target) == ["360000", "360000"]
        assert "power_limit 360 W" in target.must(f"journalctl --boot --unit {UNIT}")
    for found in verified().values():
        assert found["gpu_sharing.declared"] == "pass", found


def test_setting_of_another_program_is_reported_and_fixed(
    applied: Apply, verified: Verified, targets: list[Machine]
) -> None:
    for target in targets:
        target.must("nvidia-smi compute-policy --set-timeslice=1 -i 1")
    for found in verified().values():
        assert found["gpu_sharing.declared"] == "fail", found
    applied()
    for target in targets:
        assert target.must("nvidia-smi compute-policy -l").count("Long") == 2


def test_unfit_choice_is_a_warning(applied: Apply, targets: list[Machine]) -> None:
    result = applied({"gpu_sharing_gpus": [{"device": "all", "users": "untrusted", "persistence": True}]})
    for target in targets:
        assert result.findings(target.host.name)["gpu_sharing.gpu0"] == "warn"
    applied()


def test_mig_on_a_geforce_is_refused_and_nothing_is_changed(apply: Apply, targets: list[Machine]) -> None:
    before = [facts(target)["writes"] for target in targets]
    gpus = [{"device": "all", "power_limit": "200 W", "mig": {"mode": "enabled", "layout": []}}]
    result = apply(variables={"gpu_sharing_gpus": gpus})
    assert result.rc != 0
    assert "RTX 4090" in result.text and "MIG" in result.text
    assert [facts(target)["writes"] for target in targets] == before


# --- MIG, on cards that have it ---


@pytest.fixture
def with_mig(applied: Apply, targets: list[Machine]) -> Iterator[None]:
    """Replace the cards by two H100 80GB for a test."""
    for target in targets:
        target.put(fake_gpu_host.table(fake_gpu_host.gpus(["2330", "2330"])))
    yield
    applied({"gpu_sharing_state": "absent"})
    for target in targets:
        target.put(state())
    applied()


def instances(target: Machine) -> list[str]:
    """Return profile and UUID of the MIG devices that nvidia-smi lists."""
    return re.findall(r"MIG (\S+) .*UUID: (MIG-\S+)\)", target.must("nvidia-smi -L"))


def test_mig_layout_is_restored_after_a_reboot(applied: Apply, targets: list[Machine], with_mig: None) -> None:
    mig = {"mode": "enabled", "layout": [{"profile": "3g.40gb"}, {"profile": "1g.10gb", "count": 3}]}
    cards = {"gpu_sharing_gpus": [{"device": GPUS[0]["uuid"], "users": "untrusted", "mig": mig}]}

    applied(cards)

    before = [instances(target) for target in targets]
    for found in before:
        assert sorted(profile for profile, _uuid in found) == ["1g.10gb", "1g.10gb", "1g.10gb", "3g.40gb"]
    assert set(applied(cards).changed().values()) == {0}
    with ThreadPoolExecutor() as pool:
        list(pool.map(sandbox.reboot, targets))
    for target, found in zip(targets, before, strict=True):
        target.must("systemctl start rigwright-gpu-mig.service", seconds=120)
        assert instances(target) == found


# --- MPS ---


@pytest.fixture
def mps(applied: Apply, targets: list[Machine]) -> Iterator[None]:
    """Add the fake MPS to the driver."""
    files = fake_mps.files([gpu["uuid"] for gpu in GPUS])
    cuda = f"{fake_gpu_host.LIBRARIES}/libcuda.so.{fake_gpu_host.DRIVER}"
    # Behind its link, as the driver has it.
    entries = {cuda if path.endswith(".so.1") else path: Entry(*entry) for path, entry in files.items()}
    for target in targets:
        target.put(entries)
    yield
    applied()
    for target in targets:
        assert target.run("pgrep -f '[n]vidia-cuda-mps-control'").rc != 0
        target.must(f"rm -r {fake_mps.HOME}/harness {fake_mps.TABLE} /usr/bin/{fake_mps.PROGRAM}")


def limit(target: Machine) -> str:
    """Return the percentage that the daemon of the team reports."""
    ask = "echo get_default_active_thread_percentage | CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps/vision nvidia-cuda-mps-control"
    return target.must(ask, user="owner").strip()


def test_mps_daemon_has_its_limits_after_a_crash(applied: Apply, targets: list[Machine], mps: None) -> None:
    daemon = {"name": "vision", "user": "owner", "active_thread_percentage": 50, "memory_limits": {"all": "4G"}}
    cards = {"gpu_sharing_gpus": [{"device": "all", "users": "team", "jobs": "small", "mps": [daemon]}]}

    applied(cards)

    for target in targets:
        assert target.must("systemctl is-enabled nvidia-mps@vision").strip() == "enabled"
        assert limit(target) == "50.0"
    assert set(applied(cards).changed().values()) == {0}
    for target in targets:
        target.must("systemctl kill --signal=KILL nvidia-mps@vision")
        target.must(
            "for i in $(seq 100); do systemctl is-active --quiet nvidia-mps@vision && exit; sleep 0.2; done; exit 1"
        )
        assert limit(target) == "50.0"
        # It really stops.
        target.must("systemctl stop nvidia-mps@vision")
        assert target.run("pgrep -f '[n]vidia-cuda-mps-control'").rc != 0
    applied(cards)
    assert [limit(target) for target in targets] == ["50.0"] * len(targets)
