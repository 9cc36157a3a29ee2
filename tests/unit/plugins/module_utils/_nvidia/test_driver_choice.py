# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans of drivers: on recorded hosts, on made-up ones, and what holds for every host and request."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import catalogue as data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.driver_choice import (
    Plan,
    build_failure,
    cards_of,
    plan_driver,
    toolkit_problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.facts import (
    branch_of,
    describe_device,
    lowest_driver,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.support.nvidia import hosts as gpu_hosts

CARDS = {
    "GTX 780": "1004",
    "GTX 980": "13c0",
    "GTX 1080 Ti": "1b06",
    "V100": "1db6",
    "T4": "1eb8",
    "A100": "20b0",
    "RTX 3090": "2204",
    "RTX 4090": "2684",
    "H100": "2330",
    "B300": "3182",
    "RTX 5090": "2b85",
    "RTX 5050": "2d83",
    "RTX 5060 Ti": "2d04",
    "GB10": "2e12",
    "unknown": "3000",
}
KERNELS = {"Debian 12": "6.1.0-37-amd64", "Debian 13": "6.12.107+deb13-amd64", "Ubuntu": "6.8.0-60-generic"}
UPSTREAM = {"Debian 12": "6.1.140", "Debian 13": "6.12.107", "Ubuntu": "6.8.12"}
CODENAMES = {"12": "bookworm", "13": "trixie", "22.04": "jammy", "24.04": "noble", "26.04": "resolute"}
SYSTEMS = [(row.distribution, row.version) for row in data.ARCHIVES]


def make_host(system: str = "Debian 12", cards: tuple[str, ...] = ("RTX 4090",), **changes: Any) -> dict[str, Any]:
    """The facts of a host without a driver, as gpu_host_info gives them; *changes* replace some."""
    distribution, version = system.split()
    kind = system if distribution == "Debian" else distribution
    release = KERNELS[kind]
    flavour = "amd64" if distribution == "Debian" else "generic"
    kernel = {
        "release": release,
        "upstream": UPSTREAM[kind],
        "running": True,
        "next": True,
        "headers": True,
        "headers_package": f"linux-headers-{release}",
        "headers_available": True,
        "module": "",
        "dkms": [],
    }
    facts: dict[str, Any] = {
        "month": gpu_hosts.MONTH,
        "system": {"distribution": distribution, "version": version, "codename": CODENAMES[version]},
        "gpus": [
            {"address": f"0000:0{number}:00.0", **describe_device(int(CARDS[card], 16))}
            for number, card in enumerate(cards)
        ],
        "nvswitch": False,
        "driver": {"loaded": "", "modules": "", "libraries": {}, "library": "", "matches": None, "nouveau": False},
        "holders": [],
        "secure_boot": {"state": "disabled", "certificate": "", "enrolled": False, "pending": False},
        "next_kernel": {"release": release, "evidence": "grub.cfg"},
        "kernels": [kernel],
        "packages": {
            f"linux-image-{flavour}": {"version": "1", "hold": False, "status": "installed", "origin": "archive"}
        },
        "package_source": "none",
        "available": {},
        "holds": [],
        "pins": [],
        "repositories": [],
        "run_installer": {"installed": False, "version": "", "paths": []},
        "virtualization": {"kind": "none", "name": ""},
        "desktop": {"display_manager": "", "present": False},
        "free_bytes": {"/": 10**12, "/boot": 10**9, "/usr": 10**12, "/var": 10**12},
    }
    return {**facts, **changes}


def carry_out(host: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The facts of the host once the plan is carried out and the machine has booted."""
    after = copy.deepcopy(host)
    version = plan.version or f"{plan.branch}.65.06"
    for name in plan.remove:
        del after["packages"][name]
    for name in (*plan.pinning, *plan.install):
        prebuilt = name.startswith("linux-")
        entry = {
            "version": "6.8.0-60.63" if prebuilt else f"{version}-1",
            "hold": False,
            "status": "installed",
            "origin": plan.source,
        }
        after["packages"][name] = entry
    for name in plan.hold:
        after["packages"][name]["hold"] = True
    after["holds"] = sorted(plan.hold)
    after["package_source"] = plan.source
    after["driver"] = {
        **after["driver"],
        "loaded": version,
        "library": version,
        "matches": True,
        "nouveau": False,
        "modules": plan.modules,
    }
    after["secure_boot"] = {**after["secure_boot"], "enrolled": True, "pending": False}
    return after


def problems(plan: Plan) -> list[tuple[str, str]]:
    return [(row["variable"], row["problem"]) for row in plan.requirements if not row["ok"]]


def refusal(plan: Plan) -> tuple[str, str, str]:
    """Variable, problem and remedy of a plan that is refused for one reason."""
    (row,) = [row for row in plan.requirements if not row["ok"]]
    return row["variable"], row["problem"], row["remedy"]


# --- what is chosen ---


@pytest.mark.parametrize(
    ("system", "card", "expected"),
    [
        ("Debian 12", "RTX 4090", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
        ("Debian 12", "GTX 1080 Ti", ("cuda_repository", 580, "closed", ["nvidia-driver-cuda", "nvidia-kernel-dkms"])),
        ("Debian 13", "RTX 5090", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
        (
            "Ubuntu 24.04",
            "RTX 3090",
            ("archive", 580, "open", ["nvidia-headless-no-dkms-580-open", "nvidia-utils-580", "nvidia-dkms-580-open"]),
        ),
        (
            "Ubuntu 22.04",
            "V100",
            ("archive", 580, "closed", ["nvidia-headless-no-dkms-580", "nvidia-utils-580", "nvidia-dkms-580"]),
        ),
        (
            "Ubuntu 24.04",
            "GB10",
            ("archive", 580, "open", ["nvidia-headless-no-dkms-580-open", "nvidia-utils-580", "nvidia-dkms-580-open"]),
        ),
        ("Debian 12", "unknown", ("cuda_repository", 580, "open", ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"])),
    ],
)
def test_what_a_bare_host_gets(system: str, card: str, expected: tuple[str, int, str, list[str]]) -> None:
    plan = plan_driver(make_host(system, (card,)), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules, plan.install) == expected
    assert plan.changes is True
    assert plan.remove == []


def test_a_desktop_gets_the_whole_driver() -> None:
    host = make_host("Debian 12", desktop={"display_manager": "gdm", "present": True})
    assert plan_driver(host, {}).install == ["nvidia-open", "nvidia-kernel-open-dkms"]
    assert plan_driver(host, {"scope": "compute"}).install == ["nvidia-driver-cuda", "nvidia-kernel-open-dkms"]


def test_each_choice_can_be_overridden() -> None:
    asked = {"source": "archive", "branch": 535, "modules": "closed", "scope": "desktop"}
    plan = plan_driver(make_host("Debian 12"), asked)
    assert problems(plan) == []
    assert plan.install == [
        "nvidia-driver",
        "libcuda1",
        "nvidia-smi",
        "libnvidia-cfg1",
        "nvidia-persistenced",
        "nvidia-kernel-dkms",
    ]
    assert plan.components == ["contrib", "non-free", "non-free-firmware"]
    assert plan.reasons == [f"{field} {value}: asked for by nvidia_driver_{field}" for field, value in asked.items()]


def test_the_repository_comes_with_what_adding_it_needs() -> None:
    repository = plan_driver(make_host("Debian 13"), {}).repository
    assert repository["url"].endswith("/compute/cuda/repos/debian13")
    assert (repository["key"], repository["keyring_sha256"], repository["configured"]) == (
        "8793F200",
        {"x86_64": "dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1"},
        False,
    )


def test_signed_modules_of_the_archive_need_no_build_and_no_console() -> None:
    offered = [{"version": "6.8.0-60.63", "origins": ["archive"]}]
    secure_boot = {"state": "enabled", "certificate": "", "enrolled": False, "pending": False}
    host = make_host(
        "Ubuntu 24.04", available={"linux-modules-nvidia-580-open-generic": offered}, secure_boot=secure_boot
    )
    plan = plan_driver(host, {})
    assert plan.build == "prebuilt"
    assert plan.install[-1] == "linux-modules-nvidia-580-open-generic"
    assert (plan.secure_boot, plan.reboot, plan.headers) == ("signed", [], [])


@pytest.mark.parametrize(
    ("enrolled", "pending", "path"), [(True, False, "enrolled"), (False, True, "pending"), (False, False, "enroll")]
)
def test_secure_boot_of_a_module_that_dkms_builds(enrolled: bool, pending: bool, path: str) -> None:
    secure_boot = {"state": "enabled", "certificate": "x", "enrolled": enrolled, "pending": pending}
    plan = plan_driver(make_host("Debian 12", secure_boot=secure_boot), {})
    assert plan.secure_boot == path
    assert any("console" in reason for reason in plan.reboot) is (path != "enrolled")


def test_headers_that_are_missing_come_along() -> None:
    host = make_host("Debian 12")
    host["kernels"][0]["headers"] = False
    assert plan_driver(host, {}).headers == ["linux-headers-6.1.0-37-amd64"]


@pytest.mark.parametrize(
    ("system", "source", "branch", "package"),
    [
        ("Ubuntu 24.04", "archive", "580", "nvidia-fabricmanager-580"),
        ("Ubuntu 22.04", "cuda_repository", "570", "nvidia-fabricmanager-570"),
        ("Debian 12", "cuda_repository", "580", "nvidia-fabricmanager"),
    ],
)
def test_nvswitch_brings_the_fabric_manager(system: str, source: str, branch: str, package: str) -> None:
    plan = plan_driver(make_host(system, ("H100",), nvswitch=True), {"source": source, "branch": branch})
    assert package in plan.install


def test_nvswitch_takes_the_servers_driver_of_ubuntu() -> None:
    assert (
        "nvidia-headless-no-dkms-580-server-open"
        in plan_driver(make_host("Ubuntu 24.04", ("A100",), nvswitch=True), {}).install
    )


def test_gpus_can_be_named_for_an_image() -> None:
    plan = plan_driver(make_host(cards=()), {"gpus": [CARDS["GTX 980"]]})
    assert (plan.generations, plan.modules, plan.refused) == (["Maxwell"], "closed", False)


def test_two_generations_get_what_serves_both() -> None:
    plan = plan_driver(make_host("Ubuntu 24.04", ("GTX 1080 Ti", "RTX 4090")), {})
    assert (plan.branch, plan.modules, plan.refused) == (580, "closed", False)


def test_a_toolkit_moves_the_choice_of_the_branch() -> None:
    host = make_host("Debian 12", ("V100",))
    assert plan_driver(host, {"toolkits": ["12.9"]}).branch == 580
    plan = plan_driver(make_host("Debian 12"), {"toolkits": ["13.2"]})
    assert (plan.branch, plan.refused) == (580, False)
    assert plan.notes == [
        "CUDA 13.2 runs on driver 580 by minor-version compatibility: PTX cannot be compiled, and features that need driver"
        " 595.45.04 fail"
    ]


def test_the_archives_driver_is_kept_from_the_cuda_repository() -> None:
    preferences = plan_driver(make_host("Ubuntu 24.04"), {}).preferences
    assert "Pin: release l=NVIDIA CUDA\nPin-Priority: -1\n" in preferences


def test_without_a_pinning_package_preferences_keep_the_branch() -> None:
    offered = [{"version": "580.159.04-1", "origins": ["cuda_repository"]}]
    with_it = make_host(available={"nvidia-driver-cuda": offered, "nvidia-driver-pinning-580": offered})
    without = make_host(available={"nvidia-driver-cuda": offered})
    assert (plan_driver(with_it, {}).pinning, plan_driver(with_it, {}).preferences) == (
        ["nvidia-driver-pinning-580"],
        "",
    )
    assert plan_driver(without, {}).pinning == []
    assert "Pin: version 580.*\nPin-Priority: 1000\n" in plan_driver(without, {}).preferences


def test_a_plan_is_preliminary_until_apt_has_the_lists_of_its_source() -> None:
    offered = [{"version": "535.309.01-0+deb12u1", "origins": ["archive"]}]
    host = make_host(available={"libcuda1": offered, "linux-headers-6.1.0-37-amd64": offered})
    assert plan_driver(host, {"source": "archive"}).preliminary is False
    assert plan_driver(host, {"source": "cuda_repository"}).preliminary is True


# --- what changes ---


def test_a_healthy_workstation_stays_as_it_is(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("healthy_workstation", tmp_path), {})
    assert problems(plan) == []
    assert (plan.changes, plan.install, plan.remove, plan.reboot) == (False, [], [], [])
    assert {"nvidia-open", "libcuda1", "linux-image-amd64", "linux-headers-amd64"} <= set(plan.hold)
    assert "nvidia-container-toolkit" not in plan.hold


def test_a_switch_of_the_branch_takes_the_old_names_away(tmp_path: Path) -> None:
    host = gpu_hosts.gather("held_package", tmp_path)
    plan = plan_driver(host, {"branch": "580", "own_holds": host["holds"]})
    assert problems(plan) == []
    assert plan.remove == ["nvidia-dkms-570-open", "nvidia-headless-no-dkms-570-open", "nvidia-utils-570"]
    assert plan.install == [
        "nvidia-headless-no-dkms-580-open",
        "nvidia-utils-580",
        "linux-modules-nvidia-580-open-generic-hwe-22.04",
    ]
    assert plan.downgrade is False


def test_a_prebuilt_module_of_another_branch_goes_although_its_version_is_the_kernels(tmp_path: Path) -> None:
    host = gpu_hosts.gather("mismatch_after_upgrade", tmp_path)
    host["kernels"] = [{**kernel, "headers": True} for kernel in host["kernels"]]
    plan = plan_driver(host, {"branch": "595"})
    assert "linux-modules-nvidia-580-open-generic" in plan.remove


def test_a_switch_of_the_flavour_leaves_the_libraries(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    plan = plan_driver(host, {"modules": "closed", "interrupt": True})
    assert problems(plan) == []
    assert (plan.install, plan.remove) == (
        ["cuda-drivers", "nvidia-kernel-dkms"],
        ["nvidia-kernel-open-dkms", "nvidia-open"],
    )
    assert plan.reboot == ["driver 580.159.04 is loaded and will be replaced"]


def test_a_version_that_its_source_has_dropped_stays(tmp_path: Path) -> None:
    host = gpu_hosts.gather("superseded_version", tmp_path)
    plan = plan_driver(host, {"own_holds": host["holds"]})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules, plan.changes) == ("archive", 580, "open", False)


def test_a_version_that_its_source_has_dropped_gives_way_to_another_source(tmp_path: Path) -> None:
    host = gpu_hosts.gather("superseded_version", tmp_path)
    host["kernels"] = [{**kernel, "headers": True} for kernel in host["kernels"]]
    plan = plan_driver(host, {"source": "cuda_repository", "own_holds": host["holds"]})
    assert problems(plan) == []
    assert "nvidia-utils-580" in plan.install


def test_a_driver_whose_repository_is_off_gets_it_back(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("repository_off", tmp_path), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch, plan.modules) == ("cuda_repository", 580, "open")
    assert (plan.downgrade, plan.remove) == (False, [])
    assert plan.repository["directory"] == "debian12"


def test_a_driver_of_an_unknown_source_keeps_its_flavour(tmp_path: Path) -> None:
    host = gpu_hosts.gather("repository_off", tmp_path)
    host["packages"]["nvidia-kernel-dkms"] = host["packages"].pop("nvidia-kernel-open-dkms")
    assert plan_driver(host, {}).modules == "closed"


def test_nobody_is_taken_down_a_branch_without_a_word(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    host["holders"] = []
    for entry in host["packages"].values():
        entry["version"] = entry["version"].replace("580.159.04", "620.10.01")
    variable, problem, remedy = refusal(plan_driver(host, {}))
    assert (variable, problem) == (
        "nvidia_driver_branch",
        "is auto, which does not go down from the installed branch 620 to 615",
    )
    assert "615" in remedy
    assert plan_driver(host, {"branch": "615"}).downgrade is True
    # A source that is asked for is taken, and the branch goes down as little as may be.
    assert plan_driver(host, {"source": "archive"}).branch == 535


def test_a_source_that_is_asked_for_takes_no_older_branch_than_it_has_to() -> None:
    host = make_host("Ubuntu 24.04")
    host = carry_out(host, plan_driver(host, {"source": "cuda_repository", "branch": "590"}))
    assert plan_driver(host, {"source": "archive"}).branch == 595


def test_a_branch_that_has_ended_is_kept_with_a_warning() -> None:
    host = make_host("Debian 12")
    host = carry_out(host, plan_driver(host, {"branch": "570"}))
    plan = plan_driver(host, {})
    assert (plan.branch, plan.refused) == (570, False)
    assert plan.notes == ["branch 570 was supported until 2026-02, and gets no more fixes"]
    assert plan_driver({**host, "month": "2026-02"}, {}).notes == []


@pytest.mark.parametrize(("lock", "headers"), [(True, []), (False, ["linux-headers-amd64"])])
def test_what_is_not_locked_gets_the_headers_of_the_next_kernel(lock: bool, headers: list[str]) -> None:
    offered = [{"version": "6.1.140-1", "origins": ["archive"]}]
    host = make_host("Debian 12", available={"linux-headers-amd64": offered})
    assert plan_driver(host, {"lock": lock}).headers == headers


def test_a_lower_branch_is_a_downgrade(tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    plan = plan_driver(host, {"branch": "570", "interrupt": True})
    assert (plan.downgrade, plan.branch, plan.refused) == (True, 570, False)
    assert "nvidia-driver-pinning-580" in plan.remove


def test_a_mismatch_needs_a_reboot_and_nothing_else(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("mismatch_after_upgrade", tmp_path), {})
    assert (plan.changes, plan.reboot) == (False, ["driver 580.126.09 is loaded, the libraries are of 580.159.03"])


def test_nouveau_needs_a_reboot(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("nouveau_bound", tmp_path), {})
    assert "nouveau is loaded" in plan.reboot
    assert plan.headers == ["linux-headers-6.12.107+deb13-amd64"]


def test_a_key_that_waits_stays_waiting(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("mok_pending", tmp_path), {})
    assert (plan.changes, plan.secure_boot) == (False, "pending")


def test_what_did_not_build_is_replaced_by_what_does(tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather("failed_build", tmp_path), {})
    assert problems(plan) == []
    assert (plan.source, plan.branch) == ("cuda_repository", 580)
    assert "nvidia-open-kernel-dkms" in plan.remove
    assert plan.notes == ["dpkg has not finished nvidia-open-kernel-dkms"]


def test_nothing_is_held_when_nothing_is_locked() -> None:
    assert plan_driver(make_host(), {"lock": False}).hold == []


# --- what is refused ---


@pytest.mark.parametrize(
    ("host", "request_", "variable", "problem", "remedy"),
    [
        pytest.param(
            make_host(), {"branch": "581"}, "nvidia_driver_branch", "is 581, which is unknown", "580", id="branch"
        ),
        pytest.param(
            make_host(), {"source": "ppa"}, "nvidia_driver_source", "is ppa, which is unknown", "archive", id="source"
        ),
        pytest.param(
            make_host(cards=("RTX 5090",)),
            {"modules": "closed"},
            "nvidia_driver_modules",
            "no support for Blackwell",
            "open",
            id="closed on Blackwell",
        ),
        pytest.param(
            make_host(cards=("V100",)),
            {"modules": "open"},
            "nvidia_driver_modules",
            "no support for Volta",
            "closed",
            id="open on Volta",
        ),
        pytest.param(
            make_host(cards=("GTX 980",)),
            {"branch": "595"},
            "nvidia_driver_branch",
            "580 is the last for Maxwell",
            "580",
            id="too new for Maxwell",
        ),
        pytest.param(
            make_host(cards=("RTX 5050",)),
            {"branch": "570"},
            "nvidia_driver_branch",
            "known from driver 575.64.03 on",
            "580",
            id="too old for it",
        ),
        pytest.param(
            make_host("Debian 12", cards=("RTX 5090",)),
            {"source": "archive"},
            "nvidia_driver_source",
            "leaves no driver for Blackwell",
            "cuda_repository",
            id="the archive is too old",
        ),
        pytest.param(
            make_host("Debian 12"),
            {"source": "archive", "modules": "open"},
            "nvidia_driver_source",
            "leaves no driver for Ada",
            "535 closed from archive",
            id="the archive's open module lags behind",
        ),
        pytest.param(
            make_host(cards=("GTX 780",)),
            {},
            "this host",
            "whose last driver branch is 470",
            "replace the card",
            id="Kepler",
        ),
        pytest.param(
            make_host(cards=("GTX 1080 Ti", "RTX 5090")),
            {},
            "this host",
            "no kernel module serves together",
            "take one",
            id="cards that exclude each other",
        ),
        pytest.param(make_host(cards=()), {}, "this host", "has no NVIDIA GPU", "nvidia_driver_gpus", id="no GPU"),
        pytest.param(
            make_host(),
            {"branch": "570", "toolkits": ["13.0"]},
            "nvidia_driver_toolkits",
            "needs driver 580.65.06 or newer",
            "12.9",
            id="toolkit too new",
        ),
        pytest.param(
            make_host(cards=("V100",)),
            {"toolkits": ["13.0"]},
            "nvidia_driver_toolkits",
            "12.9 is the last for Volta",
            "12.9",
            id="toolkit too new for Volta",
        ),
        pytest.param(
            make_host(), {"toolkits": ["12.7"]}, "nvidia_driver_toolkits", "is not one of", "12.9", id="toolkit unknown"
        ),
        pytest.param(
            make_host("Debian 13"),
            {"source": "archive"},
            "nvidia_driver_source",
            "does not build for the kernel 6.12.107+deb13-amd64",
            "cuda_repository",
            id="known not to build",
        ),
        pytest.param(
            make_host(free_bytes={"/": 10**12, "/var": 9 * 1024**3}),
            {},
            "this host",
            "less than 10 GiB free on /var",
            "nvidia_driver_free_bytes",
            id="disk",
        ),
        pytest.param(
            make_host(repositories=[{"file": "/etc/apt/sources.list.d/x.list", "url": "x", "directory": "debian11"}]),
            {},
            "this host",
            "has the CUDA repository of debian11",
            "x.list",
            id="repository of another system",
        ),
    ],
)
def test_refused(host: dict[str, Any], request_: dict[str, Any], variable: str, problem: str, remedy: str) -> None:
    plan = plan_driver(host, request_)
    found = refusal(plan)
    assert found[0] == variable
    assert problem in found[1]
    assert remedy in found[2]
    assert plan.as_dict()["refused"] is True
    assert (plan.changes, plan.pinning, plan.install, plan.remove, plan.hold) == (False, [], [], [], [])


@pytest.mark.parametrize(
    ("name", "request_", "problem"),
    [
        (
            "no_headers",
            {},
            "has no headers for the kernel 6.12.43+deb13-amd64, and no configured source has linux-headers-6.12.43+deb13-amd64",
        ),
        (
            "mixed_repositories",
            {},
            "has driver packages of several sources (archive: nvidia-driver, nvidia-kernel-dkms; cuda_repository: libcuda1)",
        ),
        ("run_leftovers", {}, "has driver 550.54.14 from a .run file"),
        ("recorded_h200", {}, "has driver 580.159.04 that no package brought"),
        ("held_package", {"branch": "580"}, "holds nvidia-headless-no-dkms-570-open, nvidia-utils-570"),
        ("healthy_workstation", {"branch": "595"}, "is off, and the GPU is in use by python3 (1421, alice)"),
        ("failed_build", {"source": "archive"}, "leads to driver 550.163.01 from archive, which does not build"),
        ("vm_without_gpu", {}, "has no NVIDIA GPU"),
    ],
)
def test_a_recorded_host_is_refused(name: str, request_: dict[str, Any], problem: str, tmp_path: Path) -> None:
    plan = plan_driver(gpu_hosts.gather(name, tmp_path), request_)
    assert [found for _variable, found in problems(plan) if found.startswith(problem)]


@pytest.mark.parametrize("command", ["nvidia-persiste", "nv-fabricmanage", "nv-hostengine"])
def test_a_daemon_does_not_count_as_use(command: str, tmp_path: Path) -> None:
    host = gpu_hosts.gather("healthy_workstation", tmp_path)
    host["holders"] = [{"pid": 602, "command": command, "user": "root", "devices": ["/dev/nvidiactl"]}]
    assert plan_driver(host, {"branch": "595"}).refused is False


def test_what_is_known_not_to_build_can_be_tried() -> None:
    plan = plan_driver(make_host("Debian 13"), {"source": "archive", "ignore_build_failures": True})
    assert (plan.branch, plan.changes, plan.refused) == (550, True, False)


def test_every_fault_is_told_at_once(tmp_path: Path) -> None:
    host = gpu_hosts.gather("held_package", tmp_path)
    host["free_bytes"] = {"/": 0}
    host["holders"] = [{"pid": 1, "command": "x", "user": "y", "devices": []}]
    assert len(problems(plan_driver(host, {"branch": "580"}))) == 3


def test_an_unknown_part_of_a_request_is_an_error() -> None:
    with pytest.raises(ValueError, match="brnach is no part of a request"):
        plan_driver(make_host(), {"brnach": "580"})


@pytest.mark.parametrize("gpu", ["xyz", "10de:2684", "", "99999999", "-1", "2684 "])
def test_a_gpu_that_is_no_device_id_is_refused(gpu: str) -> None:
    variable, problem, _remedy = refusal(plan_driver(make_host(), {"gpus": ["2684", gpu]}))
    assert (variable, problem) == ("nvidia_driver_gpus", f"has {gpu!r}, which is no PCI device id")


@pytest.mark.parametrize("gpu", ["2684", "0x2684", "1eB8"])
def test_a_device_id_is_four_hexadecimal_digits(gpu: str) -> None:
    assert not plan_driver(make_host(), {"gpus": [gpu]}).refused


# --- the tables behind it ---


@pytest.mark.parametrize(
    ("version", "driver", "generations", "fits"),
    [
        ("12.9", "525.60.13", ["Ada"], True),
        ("12.9", "525.60.11", ["Ada"], False),
        ("13.3", "580.65.06", ["Ada"], True),
        ("13.0", "580.65.06", ["Pascal"], False),
        ("12.9", "580.65.06", ["Pascal", "Ada"], True),
        ("11.8", "580.65.06", ["Hopper"], True),
        ("12.6", "580.65.06", ["Blackwell"], False),
        ("12.8", "580.65.06", ["Blackwell"], True),
    ],
)
def test_toolkit(version: str, driver: str, generations: list[str], fits: bool) -> None:
    assert (toolkit_problem(version, driver, generations) == "") is fits


@pytest.mark.parametrize(
    ("version", "kernel", "source", "distribution", "builds"),
    [
        ("550.163.01", "6.12.107", "archive", "Debian", False),
        ("550.163.01", "6.12.117", "archive", "Debian", False),
        ("550.163.01", "6.12.96", "archive", "Debian", True),
        ("550", "6.12.107", "archive", "Debian", False),
        ("580.105.08", "6.12.107", "cuda_repository", "Debian", False),
        ("580.126.09", "6.12.107", "cuda_repository", "Debian", True),
        # A whole branch is only said to fail when all of it does.
        ("580", "6.12.107", "cuda_repository", "Debian", True),
        ("580.105.08", "7.3.4", "cuda_repository", "Debian", False),
        ("590.44.01", "6.12.107", "cuda_repository", "Debian", False),
        ("590.48.01", "6.12.107", "cuda_repository", "Debian", True),
        ("535.309.01", "6.1.192", "archive", "Debian", True),
        ("535.309.01", "6.19", "archive", "Ubuntu", True),
    ],
)
def test_pairs_that_do_not_build(version: str, kernel: str, source: str, distribution: str, builds: bool) -> None:
    assert (build_failure(version, kernel, source, distribution) is None) is builds


# --- what holds for every host and request ---

HOSTS = st.builds(
    make_host,
    system=st.sampled_from([f"{distribution} {version}" for distribution, version in SYSTEMS]),
    cards=st.lists(st.sampled_from(sorted(CARDS)), min_size=1, max_size=3, unique=True).map(tuple),
    desktop=st.booleans().map(lambda present: {"display_manager": "", "present": present}),
    nvswitch=st.booleans(),
    secure_boot=st.sampled_from(["enabled", "disabled"]).map(
        lambda state: {"state": state, "certificate": "", "enrolled": False, "pending": False}
    ),
    available=st.sampled_from(
        [{}, {"linux-modules-nvidia-580-open-generic": [{"version": "6.8.0-60.63", "origins": ["archive"]}]}]
    ),
)
REQUESTS = st.fixed_dictionaries(
    {},
    optional={
        "source": st.sampled_from(["auto", "archive", "cuda_repository"]),
        "branch": st.sampled_from(["auto", *(str(row.number) for row in data.BRANCHES)]),
        "modules": st.sampled_from(["auto", "open", "closed"]),
        "scope": st.sampled_from(["auto", "compute", "desktop"]),
        "toolkits": st.lists(st.sampled_from([row.version for row in data.TOOLKITS]), max_size=2),
    },
)


@given(HOSTS, REQUESTS)
def test_a_plan_is_within_what_the_gpus_and_the_branch_support(host: dict[str, Any], request: dict[str, Any]) -> None:
    plan = plan_driver(host, request)
    if plan.refused:
        assert not (plan.install or plan.remove or plan.pinning or plan.changes)
        return
    branch = next(row for row in data.BRANCHES if row.number == plan.branch)
    assert plan.modules in branch.modules
    for gpu in host["gpus"]:
        generation = next(row for row in data.GENERATIONS if row.name == gpu["generation"])
        assert plan.modules in generation.modules
        assert plan.branch <= (generation.highest_branch or plan.branch)
        assert plan.branch >= int(lowest_driver(int(gpu["device_id"], 16)).partition(".")[0] or 0)
    if any(gpu["generation"] == "Blackwell" for gpu in host["gpus"]):
        assert not [name for name in plan.install if "dkms" in name and "open" not in name]


@given(HOSTS, REQUESTS)
def test_what_is_asked_for_is_what_is_planned(host: dict[str, Any], request: dict[str, Any]) -> None:
    plan = plan_driver(host, request)
    for field in ("source", "branch", "modules", "scope"):
        if not plan.refused and request.get(field, "auto") != "auto":
            assert str(getattr(plan, field)) == request[field]


@given(HOSTS, REQUESTS)
def test_a_plan_that_is_carried_out_leaves_nothing_to_do(host: dict[str, Any], request: dict[str, Any]) -> None:
    first = plan_driver(host, request)
    if first.refused:
        return
    after = carry_out(host, first)
    second = plan_driver(after, {**request, "own_holds": first.hold})
    assert problems(second) == []
    assert (second.changes, second.install, second.remove, second.pinning, second.reboot) == (False, [], [], [], [])
    assert [second.source, second.branch, second.modules, second.scope] == [
        first.source,
        first.branch,
        first.modules,
        first.scope,
    ]
    assert second.hold == first.hold
    # And what was asked for stays when nobody asks any more, as far as no toolkit had a say.
    if not request.get("toolkits"):
        third = plan_driver(after, {"own_holds": first.hold})
        assert (third.branch, third.modules, third.source, third.changes) == (
            first.branch,
            first.modules,
            first.source,
            False,
        )


def test_a_branch_that_a_later_release_of_fits_the_card_is_not_refused() -> None:
    assert plan_driver(make_host(cards=("RTX 5060 Ti",)), {"branch": "570"}).branch == 570


@settings(max_examples=50)
@given(HOSTS, REQUESTS, REQUESTS)
def test_a_change_leaves_one_branch_and_one_source(
    host: dict[str, Any], before: dict[str, Any], now: dict[str, Any]
) -> None:
    """Whatever driver was there, after the next plan only packages of the new one are, or such as apt replaces in place."""
    first = plan_driver(host, before)
    if first.refused:
        return
    middle = carry_out(host, first)
    second = plan_driver(middle, {**now, "own_holds": first.hold})
    if second.refused or not second.changes:
        return
    after = carry_out(middle, second)
    driver = {name: entry for name, entry in after["packages"].items() if branch_of(entry["version"])}
    assert {branch_of(entry["version"]) for entry in driver.values()} == {second.branch}
    assert {entry["origin"] for entry in driver.values()} == {second.source}


@given(st.lists(st.sampled_from(sorted(CARDS.values())), min_size=1, max_size=4))
def test_more_cards_never_allow_more(devices: list[str]) -> None:
    alone = [cards_of([int(device, 16)]) for device in devices]
    together = cards_of([int(device, 16) for device in devices])
    assert together.highest_branch == min(cards.highest_branch for cards in alone)
    assert all(set(together.modules) <= set(cards.modules) for cards in alone)
