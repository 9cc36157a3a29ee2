"""The driver on machines with a fake of the kernel's side (harness/fakes/gpu_host.py); apt, dpkg, DKMS and systemd are real.

Whatever fails, the machine keeps its previous driver: each test that shows so ends in `has_driver(target, OLD)`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.fakes import gpu_host as fake_gpu_host
from harness.sandbox import fingerprint
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Entry, Machine, kept

EARLIER, OLD, NEW = "580.105.08", "580.159.04", "590.48.01"
Apply = Callable[..., Any]
# DKMS reads it for the new version alone: the previous driver has to be built again on the way back.
BROKEN = f"/etc/dkms/nvidia-{NEW}.conf"


def packages(target: Machine) -> dict[str, str]:
    listed = target.must("dpkg-query --show --showformat '${db:Status-Abbrev} ${Package} ${Version}\\n'").splitlines()
    return {name: version for status, name, version in map(str.split, listed) if status in ("ii", "hi")}


def has_driver(target: Machine, version: str, *, loaded: bool = False) -> None:
    """Check that all of the driver is of this version and built for the kernel that boots, and that dpkg has no complaint."""
    assert target.must("dpkg --audit") == ""
    found = packages(target)
    of_driver = {
        name: found[name]
        for name in found
        if re.match(r"libcuda1|libnvidia-ml1|nvidia-(driver|kernel)-(?!pinning)", name)
    }
    assert set(of_driver.values()) == {f"{version}-1"}
    assert {name for name in found if "pinning" in name} == {f"nvidia-driver-pinning-{version[:3]}"}
    kernel = target.must("uname -r").strip()
    about = target.must(f"modinfo -k {kernel} nvidia")
    assert re.search(rf"^version: +{version}$", about, re.MULTILINE)
    assert re.search(rf"^vermagic: +{re.escape(kernel)} ", about, re.MULTILINE)
    if loaded:
        assert target.must("cat /sys/module/nvidia/version").strip() == version
        assert target.must("nvidia-smi -L").startswith("GPU 0")


@pytest.fixture
def applied(applied: Apply) -> Apply:
    """Apply the role with variables named without their prefix, which has to succeed."""
    return lambda **variables: applied({f"nvidia_driver_{name}": value for name, value in variables.items()})


@pytest.fixture
def refused(apply: Apply, targets: list[Machine]) -> Callable[..., str]:
    """Apply the role, which has to refuse and to change nothing; gives its words."""

    def run(hosts: str = "targets", **variables: Any) -> str:
        before = [fingerprint.of(target) for target in targets]
        result = apply(hosts=hosts, variables={f"nvidia_driver_{name}": value for name, value in variables.items()})
        assert result.rc != 0
        assert "The request is refused" in result.output
        assert [fingerprint.of(target) for target in targets] == before
        return result.text

    return run


@pytest.fixture
def refusing(targets: list[Machine]) -> Iterator[None]:
    """Make the kernel refuse the new driver."""
    path = f"{fake_gpu_host.HOME}/machine.json"
    before = [target.must(f"cat {path}") for target in targets]
    for target, text in zip(targets, before, strict=True):
        described = json.loads(text) | {"refuses": {NEW: "NVRM: this GPU is not supported"}}
        target.put({path: Entry(json.dumps(described).encode())})
    yield
    for target, text in zip(targets, before, strict=True):
        target.put({path: Entry(text.encode())})


@pytest.fixture
def with_all_components(machine: Callable[[str], Machine]) -> Iterator[Machine]:
    """Yield Debian 12 with contrib and non-free, where the archive has its own driver."""
    target = machine("debian12")
    with kept([target], "/etc/apt"):
        fake_gpu_host.enable_all_components(target)
        yield target
    target.must("apt-get update", seconds=fake_gpu_host.SLOW_S)


@pytest.fixture
def training(machine: Callable[[str], Machine]) -> Iterator[tuple[Machine, str]]:
    """Yield a host on which a program has the GPU open, and the id of its process."""
    target = machine("debian13")
    target.start("exec -a training sleep 300 3</dev/nvidia0")
    process = target.must("for i in $(seq 50); do pgrep -f '^training 300' && exit; sleep 0.2; done; exit 1").split()[0]
    yield target, process
    target.must(f"kill {process}")


# --- What is there afterwards ---


def test_the_driver_is_built_and_nouveau_goes_with_the_next_boot(target: Machine) -> None:
    has_driver(target, OLD)
    assert "blacklist nouveau" in target.must("cat /etc/modprobe.d/rigwright-nvidia-driver.conf")


def test_lock_keeps_the_branch(target: Machine) -> None:
    held = target.must("apt-mark showhold").split()
    assert {"libcuda1", "nvidia-driver-cuda", "nvidia-kernel-open-dkms", "linux-image-amd64"} <= set(held)
    assert f"Candidate: {OLD}-1" in target.must("apt-cache policy nvidia-driver-cuda")
    assert f"{NEW}-1" in target.must("apt-cache madison nvidia-driver-cuda")

    # Each half holds alone: without the holds the pin, without the pin the holds.
    upgrade, pin = "apt-get --simulate dist-upgrade", "/etc/apt/preferences.d/nvidia-driver-pinning"
    target.must(f"apt-mark unhold {' '.join(held)}")
    assert NEW not in target.must(upgrade)
    with kept([target], pin):
        target.must(f"rm {pin}")
        assert NEW in target.must(upgrade)
        target.must(f"apt-mark hold {' '.join(held)}")
        assert NEW not in target.must(upgrade)


@pytest.mark.both_releases
def test_a_reboot_is_announced_and_done_when_allowed(applied: Apply, targets: list[Machine]) -> None:
    announced = applied()
    for target in targets:
        assert announced.findings(target.host.name)["nvidia_driver.reboot"] == "warn"
        assert target.run("test -e /sys/module/nouveau").rc == 0

    done = applied(reboot=True)

    for target in targets:
        has_driver(target, OLD, loaded=True)
        assert target.run("test -e /sys/module/nouveau").rc != 0
        assert done.findings(target.host.name)["nvidia_driver.reboot"] == "pass"


@pytest.mark.both_releases
def test_the_proofs_hold(apply: Apply, applied: Apply, targets: list[Machine]) -> None:
    applied()
    verdict = apply(variables={"apply_tasks_from": "verify"})
    for target in targets:
        found = verdict.findings(target.host.name)
        assert set(found.values()) == {"pass"}, found
        assert {
            "nvidia_driver.loaded",
            "nvidia_driver.matches",
            "nvidia_driver.locked",
            "nvidia_driver.dkms",
        } <= found.keys()
        target.must("mv /sys/module/nvidia/version /sys/module/nvidia/version.away")
        target.must("mount --bind /dev/null /proc/driver/nvidia/version")
    verdict = apply(variables={"apply_tasks_from": "verify"})
    for target in targets:
        assert verdict.findings(target.host.name)["nvidia_driver.loaded"] == "fail"
        target.must("umount /proc/driver/nvidia/version; mv /sys/module/nvidia/version.away /sys/module/nvidia/version")


# --- What is refused, before anything changes ---


@pytest.mark.parametrize(
    ("variables", "output"),
    [
        ({"branch": "42"}, "nvidia_driver_branch: is 42, which is unknown"),
        (
            {"gpus": ["2b85"], "modules": "closed"},
            "nvidia_driver_modules: is closed, which has no support for Blackwell",
        ),
        (
            {"toolkits": ["13.4"], "branch": "570"},
            "nvidia_driver_toolkits: has CUDA 13.4, which needs driver 580.65.06",
        ),
        ({"branch": "590", "free_bytes": 10**15}, "free on"),
    ],
    ids=["unknown branch", "closed on Blackwell", "toolkit", "free disk"],
)
def test_bad_input_is_refused(refused: Callable[..., str], variables: dict[str, Any], output: str) -> None:
    assert output in refused(**variables)


def test_a_gpu_in_use_is_left_alone(refused: Callable[..., str], training: tuple[Machine, str]) -> None:
    target, process = training
    output = refused(hosts=target.host.name, branch="590")
    assert f"nvidia_driver_interrupt: is off, and the GPU is in use by sleep ({process}, root)" in output


def test_hold_of_the_owner_is_respected(applied: Apply, refused: Callable[..., str], targets: list[Machine]) -> None:
    applied(lock=False)
    for target in targets:
        assert target.must("apt-mark showhold") == ""
        target.must("apt-mark hold libcuda1")

    output = refused(branch="590", lock=False)

    assert "holds libcuda1; run `apt-mark unhold libcuda1`" in output
    for target in targets:
        has_driver(target, OLD)
        target.must("apt-mark unhold libcuda1")
    applied()


def test_a_pair_that_is_known_not_to_build_is_refused(refused: Callable[..., str]) -> None:
    output = refused(hosts="debian13", source="archive", branch="550")
    assert "which does not build for the kernel 6.12." in output
    assert "pci_resize_resource" in output
    assert "`nvidia_driver_source: cuda_repository`" in output


def test_mixed_sources_are_refused(refused: Callable[..., str], with_all_components: Machine) -> None:
    with_all_components.must("apt-get install --yes libnvidia-nvvm4", seconds=300)
    output = refused(hosts="debian12", branch="590")
    with_all_components.must("apt-get purge --yes libnvidia-nvvm4")
    assert re.search(r"several sources \(archive: libnvidia-nvvm4; cuda_repository: [^)]*libcuda1", output)


# --- Another branch, and back ---


def test_another_branch_and_back(applied: Apply, targets: list[Machine]) -> None:
    applied(branch="590", reboot=True)
    for target in targets:
        has_driver(target, NEW, loaded=True)
        assert "libcuda1" in target.must("apt-mark showhold").split()

    applied(reboot=True)
    for target in targets:
        has_driver(target, OLD, loaded=True)


def test_an_upgrade_is_one_action(applied: Apply, targets: list[Machine]) -> None:
    """Unlock, upgrade, verify, lock: nothing of it happens unasked."""
    for target in targets:
        downgrade = [f"{name}={EARLIER}-1" for name, version in packages(target).items() if version == f"{OLD}-1"]
        options = "--yes --allow-downgrades --allow-change-held-packages"
        target.must(f"{fake_gpu_host.APT_GET} install {options} {' '.join(downgrade)}", seconds=fake_gpu_host.SLOW_S)

    applied()
    for target in targets:
        has_driver(target, EARLIER)

    applied(upgrade=True)
    for target in targets:
        has_driver(target, OLD, loaded=True)
        assert {"libcuda1", "linux-image-amd64"} <= set(target.must("apt-mark showhold").split())
    assert set(applied(upgrade=True).changed().values()) == {0}


# --- What fails leaves the previous driver ---


def test_a_module_that_does_not_build(apply: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.put({BROKEN: Entry(b"MAKE[0]=\"make KERNEL_UNAME=${kernelver} KCFLAGS='-include missing.h'\"\n")})

    result = apply(variables={"nvidia_driver_branch": "590"})

    assert result.rc != 0
    output = result.text
    for target in targets:
        target.must(f"rm {BROKEN}")
        has_driver(target, OLD, loaded=True)
        kernel = target.must("uname -r").strip()
        assert f"the module of driver {NEW} was not built for the kernel {kernel}" in output
        assert "missing.h: No such file or directory" in output
        assert "missing.h" in target.must("cat /var/lib/rigwright_nvidia_driver/make.log")


def test_machine_itself_takes_back_a_driver_that_fails(
    applied: Apply, refused: Callable[..., str], targets: list[Machine], refusing: None
) -> None:
    result = applied(branch="590", reboot=True, ignore_build_failures=True)

    for target in targets:
        assert result.findings(target.host.name)["nvidia_driver.change"] == "fail"
        has_driver(target, OLD)
        journal = target.must("journalctl --unit rigwright-nvidia-driver.service --boot 0 --output cat")
        assert f"driver {NEW} does not work" in journal
    # The role does not repeat it: the user has to ask for it.
    assert f"leads to driver {NEW} again: driver {NEW} does not work" in refused(branch="590")
    for target in targets:
        sandbox.reboot(target)
        has_driver(target, OLD, loaded=True)


def test_a_killed_run_is_ended_by_the_next(apply: Apply, applied: Apply, targets: list[Machine]) -> None:
    for target in targets:
        # While DKMS builds: apt, who started it (the module of the role), and what apt started die at once.
        target.start(
            "for i in $(seq 3000); do pgrep -f 'dkms (build|autoinstall)' && break; sleep 0.1; done;"
            "kill -9 $(ps -o ppid= -p $(pgrep -xo apt-get)) $(pgrep -x 'apt-get|dpkg|dkms|make')"
        )
    killed = apply(variables={"nvidia_driver_branch": "590", "nvidia_driver_ignore_build_failures": True})
    assert killed.rc != 0
    for target in targets:
        assert target.must("dpkg --audit") != ""

    applied()

    for target in targets:
        has_driver(target, OLD)
        assert "libcuda1" in target.must("apt-mark showhold").split()


def test_a_package_that_dpkg_was_killed_over_is_finished(applied: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.must("cd /tmp && apt-get download libnvidia-ml1 && dpkg --unpack libnvidia-ml1_*.deb && rm *.deb")
        assert target.must("dpkg --audit") != ""

    applied()

    for target in targets:
        has_driver(target, OLD)
    assert set(applied().changed().values()) == {0}


# --- Without the role ---


@pytest.mark.after_contract("no driver, which the contract would have to install once more")
@pytest.mark.both_releases
def test_absent_brings_nouveau_back(apply: Apply, targets: list[Machine]) -> None:
    output = apply(variables={"nvidia_driver_state": "absent"})
    assert output.rc == 0, output.output
    for target in targets:
        assert not [name for name in packages(target) if re.search(r"nvidia|libcuda|cuda-keyring", name)]
        assert target.must("apt-mark showhold") == ""
        assert target.must("dpkg --audit") == ""
        sandbox.reboot(target)
        assert target.run("test -e /sys/module/nouveau").rc == 0


# --- Debian's own driver ---


@pytest.mark.slow("compiles NVIDIA's real driver, for seven minutes on two processors")
@pytest.mark.after_contract("the daemon's package leaves its account, as Debian's packages do")
def test_archives_driver_is_compiled_or_the_previous_stays(
    apply: Apply, applied: Apply, machine: Callable[[str], Machine], targets: list[Machine]
) -> None:
    """Install the archive's driver: Debian 12's compiles; Debian 13's does not, which the role would refuse without the last variable."""
    archive = {
        "nvidia_driver_source": "archive",
        "nvidia_driver_branch": "auto",
        "nvidia_driver_ignore_build_failures": True,
    }
    built, failed = machine("debian12"), machine("debian13")
    for target in targets:
        fake_gpu_host.share_compiler_cache(target)
    before = fingerprint.of(built)
    applied(reboot=True)

    result = apply(variables=archive)

    assert not result.hosts["debian12"]["failed"], result.output
    assert built.must("dpkg --audit") == ""
    kernel = built.must("uname -r").strip()
    version = packages(built)["nvidia-kernel-dkms"].partition("-")[0]
    about = built.must(f"modinfo -k {kernel} nvidia-current")
    assert re.search(rf"^version: +{version}$", about, re.MULTILINE)
    assert re.search(rf"^vermagic: +{re.escape(kernel)} ", about, re.MULTILINE)
    assert f"nvidia-current/{version}, {kernel}, x86_64: installed" in built.must("dkms status")
    assert {"nvidia-kernel-dkms", "linux-image-amd64"} <= set(built.must("apt-mark showhold").split())
    assert OLD not in built.must("apt-cache madison libcuda1")

    assert result.hosts["debian13"]["failed"]
    kernel = failed.must("uname -r").strip()
    assert f"was not built for the kernel {kernel}" in result.text
    assert "pci_resize_resource" in result.text
    assert "pci_resize_resource" in failed.must("cat /var/lib/rigwright_nvidia_driver/make.log")
    has_driver(failed, OLD)
    # With the source that it came from.
    assert OLD in failed.must("apt-cache madison libcuda1")

    again = apply(hosts="debian12", variables=archive)
    assert again.rc == 0, again.output
    assert set(again.changed().values()) == {0}

    gone = apply(hosts="debian12", variables=archive | {"nvidia_driver_state": "absent"})
    assert gone.rc == 0, gone.output
    built.must("userdel nvpd")
    after = fingerprint.without_packages(before, fingerprint.of(built))
    assert fingerprint.difference(before, after) == []
