"""CUDA toolkits as their users meet them.

NVIDIA's repository is a fake (harness/depot/cuda_repository.py). Its nvcc prints its version and compiles nothing. Debian 13's own
toolkit is the real one, and really compiles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from harness.depot import cuda_repository
from harness.sandbox import fingerprint, lab
from harness.sandbox.clients import Entry, Machine, kept

REPOSITORIES = f"http://{lab.DEPOT}/{cuda_repository.REPOSITORIES}"
NVCC = "nvcc --version"
TOOLKIT = re.compile(r"release ([\d.]+)")
# Where apt works for the rest of the host, also after something was refused.
APT_WORKS = "apt-get update -o APT::Update::Error-Mode=any 2>&1 && apt-get check"

Apply = Callable[..., Any]
# `apply` with these runs the proof alone, with the variables of the scenario.
PROVE = {"apply_tasks_from": "verify"}


def release(output: str) -> str:
    found = TOOLKIT.search(output)
    assert found, output
    return found[1]


def folder(target: Machine) -> str:
    """Return the repository's name for a host."""
    return str(target.host.image)


@pytest.fixture
def restored(apply: Apply) -> Iterator[None]:
    """Install the toolkits of the scenario again after the test."""
    yield
    result = apply()
    assert result.rc == 0, result.output


def test_two_toolkits_are_installed_with_one_default(target: Machine) -> None:
    assert release(target.must("/usr/local/cuda-12.9/bin/nvcc --version")) == "12.9"
    assert release(target.must("/usr/local/cuda-13.0/bin/nvcc --version")) == "13.0"
    assert release(target.must("/usr/local/cuda/bin/nvcc --version")) == "13.0"
    assert release(target.must("/usr/local/cuda-12/bin/nvcc --version")) == "12.9"
    assert re.search(r"libcudart\.so\.13 .*=> /usr/local/cuda/", target.must("/sbin/ldconfig -p"))


def test_no_driver_comes_along(target: Machine) -> None:
    packages = target.must("dpkg-query --show --showformat '${Package}\n'").split()
    assert [name for name in packages if name.startswith(("cuda-drivers", "nvidia-", "libcuda1", "libnvidia"))] == []


def test_a_command_over_ssh_finds_the_default(target: Machine, laptop: Machine) -> None:
    keys = "/home/owner/.ssh/authorized_keys"
    target.must(f"grep -q '{laptop.public_key().strip()}' {keys} || echo '{laptop.public_key().strip()}' >> {keys}")

    done = laptop.ssh(f"owner@{target.host.name}", f"{NVCC} && echo home: $CUDA_HOME")

    assert release(done.stdout) == "13.0", done.stderr
    assert "home: /usr/local/cuda\n" in done.stdout


@pytest.mark.parametrize(
    "command",
    [
        f"env -i HOME=/root bash --login -c '{NVCC}'",
        f"su --login owner --command '{NVCC}'",
        f"systemd-run --quiet --wait --pipe --property=EnvironmentFile=/etc/default/cuda sh -c '{NVCC}'",
        "bash -c 'set -a; eval $(/usr/lib/systemd/user-environment-generators/30-systemd-environment-d-generator); nvcc --version'",
    ],
    ids=["login shell", "login of a user", "system service", "user service"],
)
def test_every_other_session_finds_the_default(target: Machine, command: str) -> None:
    assert release(target.must(command)) == "13.0"


def test_the_default_is_switched_and_back(apply: Apply, targets: list[Machine], restored: None) -> None:
    result = apply(variables={"cuda_default": "12.9"})

    assert result.rc == 0, result.output
    for target in targets:
        assert release(target.must(f"bash --login -c '{NVCC}'")) == "12.9"
        assert target.must("readlink -f /usr/local/cuda /usr/local/cuda-13").split() == [
            "/usr/local/cuda-12.9",
            "/usr/local/cuda-13.0",
        ]
    assert set(apply(variables={"cuda_default": "12.9"}).changed().values()) == {0}


def test_unlisted_version_goes_with_its_dependencies(apply: Apply, targets: list[Machine], restored: None) -> None:
    result = apply(variables={"cuda_toolkits": ["12.9"]})

    assert result.rc == 0, result.output
    for target in targets:
        remaining = target.must("dpkg-query --show --showformat '${db:Status-Abbrev} ${Package}\n'")
        assert not re.search(r"13-0|cuda-toolkit-13-config", remaining)
        assert target.run("ls -d /usr/local/cuda-13*").rc != 0
        assert release(target.must(f"bash --login -c '{NVCC}'")) == "12.9"


def test_a_package_that_was_there_before_stays(apply: Apply, targets: list[Machine], restored: None) -> None:
    # The owner has asked apt for a part of 12.9 by its name.
    for target in targets:
        target.must("apt-mark manual cuda-nvcc-12-9")

    assert apply(variables={"cuda_toolkits": ["13.0"]}).rc == 0

    for target in targets:
        assert release(target.must("/usr/local/cuda-12.9/bin/nvcc --version")) == "12.9"
        assert target.run("dpkg -s cuda-cudart-dev-12-9").rc != 0
        target.must("apt-mark auto cuda-nvcc-12-9")


def test_bad_input_changes_nothing(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            (
                {"cuda_driver_branch": "570"},
                "cuda_toolkits: has CUDA 13.0, which needs driver 580.65.06 or newer, not 570 (docs.nvidia.com/cuda/",
            ),
            ({"cuda_driver_branch": "580-open"}, "cuda_driver_branch: is 580-open, which is no branch that is known"),
            (
                {"cuda_repository": {"ulr": "http://m.example"}},
                "cuda_repository.ulr. Supported parameters include: keyring_sha256, url",
            ),
            ({"cuda_toolkits": ["13.99"]}, "cuda_toolkits: has CUDA 13.99, which is not one of 11.8, 12.0"),
            ({"cuda_toolkits": ["13.0", "13.0"]}, "cuda_toolkits: has 13.0 twice"),
            ({"cuda_default": "12.8"}, "cuda_default: is 12.8, which is not among the toolkits (13.0, 12.9)"),
            (
                {"cuda_toolkits": ["13.0", "12.9", "12.8"], "cuda_free_bytes": 10**15},
                "cuda_toolkits: asks for 1 new, which need 931323 GiB",
            ),
            ({"cuda_source": "run_file"}, "value of cuda_source must be one of"),
            ({"cuda_source": "archive"}, "cuda_toolkits: has 13.0, and the archive of Debian 12 has 11.8 alone"),
        ]
    )


@pytest.fixture
def held(targets: list[Machine]) -> Iterator[str]:
    """Yield a package of the role that the owner has put on hold."""
    targets[0].must("apt-mark hold cuda-toolkit-12-9")
    yield "cuda-toolkit-12-9"
    targets[0].must("apt-mark unhold cuda-toolkit-12-9")


@pytest.mark.parametrize("variables", [{"cuda_toolkits": ["13.0"]}, {"cuda_state": "absent"}], ids=["leaves", "absent"])
def test_held_package_is_named(
    held: str, refused: Callable[[dict[str, Any], str], None], variables: dict[str, Any]
) -> None:
    refused(variables, f"removes {held}, which dpkg holds; run `apt-mark unhold {held}` first")


def test_damage_by_hand_or_a_killed_apt_is_repaired(apply: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.must("rm /usr/local/cuda")
        # As dpkg leaves it that is killed before it has configured what it unpacked.
        target.must(
            "cd /tmp && apt-get download cuda-toolkit-13-0 && dpkg --unpack cuda-toolkit-13-0_*.deb && rm *.deb"
        )
        assert target.must("dpkg --audit") != ""

    result = apply()

    assert result.rc == 0, result.output
    for target in targets:
        assert target.must("dpkg --audit") == ""
        assert release(target.must("/usr/local/cuda/bin/nvcc --version")) == "13.0"
    assert set(apply().changed().values()) == {0}


def test_other_installation_is_not_the_toolkit(
    refused: Callable[[dict[str, Any], str], None], targets: list[Machine]
) -> None:
    target = targets[0]
    with kept([target], "/usr/local/cuda"):
        target.must("rm /usr/local/cuda && mkdir /usr/local/cuda")
        refused({}, "found by way of /usr/local/cuda: no link, but another installation")


@pytest.mark.both_releases
def test_proof_fails_for_a_fake_compiler(apply: Apply, targets: list[Machine]) -> None:
    proof = apply(variables=PROVE)

    for target in targets:
        assert proof.findings(target.host.name) == {
            "cuda.compiler": "fail",
            "cuda.environment": "pass",
            "cuda.device": "skip",
            "cuda.drop_ins": "pass",
        }


@pytest.mark.slow("installs gigabytes of Debian's own toolkit")
def test_debian_s_own_toolkit_really_compiles(apply: Apply, machine: Callable[[str], Machine], restored: None) -> None:
    target = machine("debian13")
    request = {"cuda_source": "archive", "cuda_toolkits": ["12.4"]}

    result = apply(hosts="debian13", variables=request)

    assert result.rc == 0, result.output
    assert target.run("ls -d /usr/local/cuda-*").rc != 0
    assert target.run("dpkg -s cuda-keyring").rc != 0
    assert release(target.must(f"bash --login -c '{NVCC}'")) == "12.4"
    assert apply(hosts="debian13", variables=request | PROVE).findings("debian13") == {
        "cuda.compiler": "pass",
        "cuda.environment": "pass",
        "cuda.device": "skip",
        "cuda.drop_ins": "pass",
    }
    again = apply(hosts="debian13", variables=request)
    assert again.changed() == {"debian13": 0}


@pytest.fixture(scope="module")
def without_cuda(apply: Apply) -> None:
    """Remove everything of the role from the targets, for the tests from here on."""
    result = apply(hosts="debian12,debian13", variables={"cuda_state": "absent"})
    assert result.rc == 0, result.output


@pytest.mark.usefixtures("without_cuda")
def test_broken_index_is_named_and_apt_keeps_working(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]

    with ExitStack() as broken:
        for target in targets:
            broken.enter_context(cuda_repository.broken_index(folder(target)))
        result = apply()

    assert result.rc != 0
    for old, target in zip(before, targets, strict=True):
        assert f"{folder(target)}/x86_64 cannot be used: its index is broken" in result.text
        assert fingerprint.difference(old, fingerprint.of(target)) == []
        target.must(APT_WORKS, seconds=120)


@pytest.mark.usefixtures("without_cuda")
def test_a_key_that_apt_refuses_is_named(apply: Apply, machine: Callable[[str], Machine]) -> None:
    # Only the newer apt refuses it: sqv since 2026-02-01.
    target = machine("debian13")
    before = fingerprint.of(target)

    with cuda_repository.sha1_key("debian13") as checksum:
        place = {"url": REPOSITORIES, "keyring_sha256": {"debian13": checksum}}
        result = apply(hosts="debian13", variables={"cuda_repository": place})

    assert result.rc != 0
    assert "debian13/x86_64 cannot be used: its key is refused" in result.text
    assert fingerprint.difference(before, fingerprint.of(target)) == []
    target.must(APT_WORKS, seconds=120)


@pytest.mark.usefixtures("without_cuda")
def test_keyring_package_with_other_checksum_is_refused(apply: Apply, targets: list[Machine]) -> None:
    # Without other checksums NVIDIA's count, and the depot's package is a fake.
    result = apply(variables={"cuda_repository": {"url": REPOSITORIES}})

    assert result.rc != 0
    assert "is not the package that was expected: its SHA-256 is" in result.text
    for target in targets:
        assert target.run("dpkg -s cuda-keyring").rc != 0
        target.must(APT_WORKS, seconds=120)


@pytest.mark.usefixtures("without_cuda")
def test_owners_source_with_another_key_is_named(
    refused: Callable[[dict[str, Any], str], None], targets: list[Machine]
) -> None:
    target, own = targets[0], "/etc/apt/sources.list.d/nvidia.sources"
    address = f"{REPOSITORIES}/{folder(target)}/x86_64/"
    output = f"Types: deb\nURIs: {address}\nSuites: /\nTrusted: yes\nSigned-By: /root/mine.gpg\n"
    with kept([target], own):
        target.put({own: Entry(output.encode())})
        refused({}, own)
