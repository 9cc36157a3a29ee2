"""cuDNN as a C compiler finds it. The wheel for CUDA 13 is NVIDIA's real one, which the depot serves. Others are fakes."""

from __future__ import annotations

import hashlib
import io
import subprocess
import zipfile
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_plan import PINNED, WHEELS

from harness.depot import wheels
from harness.sandbox import fingerprint, lab
from harness.sandbox.clients import Entry, Machine

Apply = Callable[..., Any]
# `apply` with these runs the proof alone, with the variables of the scenario.
PROVE = {"apply_tasks_from": "verify"}

PROGRAM = (lab.ROOT / "roles/cudnn/files/cudnn_version.c").read_bytes()


def fake_wheel(version: str, target: Machine) -> bytes:
    """Return a wheel laid out as NVIDIA's, with a library of one function that a compiler of the host has made."""
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    number = major * 10000 + minor * 100 + patch
    target.must(
        f"mkdir -p /tmp/fake && cd /tmp/fake && echo 'unsigned long cudnnGetVersion(void) {{ return {number}; }}' > v.c"
        " && cc -shared -fPIC -Wl,-soname,libcudnn.so.9 -o libcudnn.so.9 v.c"
    )
    library = subprocess.run(
        ["docker", "exec", target.host.container, "cat", "/tmp/fake/libcudnn.so.9"],
        check=True,
        capture_output=True,
    ).stdout
    target.must("rm -r /tmp/fake")
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("nvidia/cudnn/include/cudnn.h", '#include "cudnn_version.h"\n')
        archive.writestr("nvidia/cudnn/include/cudnn_version.h", f"#define CUDNN_VERSION {number}\n")
        archive.writestr("nvidia/cudnn/lib/libcudnn.so.9", library)
        info = f"nvidia_cudnn_cu12-{version}.dist-info"
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: {version}\n")
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-manylinux_2_27_x86_64\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return content.getvalue()


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def checksums(contents: dict[str, bytes]) -> dict[str, dict[str, list[str]]]:
    """Return the value of cudnn_wheels for wheels of CUDA 12."""
    return {version: {"12": [digest(content)]} for version, content in contents.items()}


def compiled(target: Machine) -> str:
    """Return the output of a program that a user compiles without naming any folder."""
    target.put({"/home/owner/version.c": Entry(PROGRAM)})
    try:
        return target.must("cd && cc -o version version.c -lcudnn && ./version", user="owner")
    finally:
        target.must("rm -f /home/owner/version /home/owner/version.c")


def number(version: str) -> int:
    major, minor, patch = (int(part) for part in version.split(".")[:3])
    return major * 10000 + minor * 100 + patch


def test_the_depot_hands_on_the_pinned_wheel() -> None:
    prepare = yaml.safe_load((lab.ROOT / "molecule/cudnn/prepare.yml").read_text())[0]["vars"]
    assert prepare["wheel_version"] == PINNED
    assert prepare["wheel_sha256"] in WHEELS[PINNED][13]


def test_headers_and_library_of_the_real_wheel_are_one_version(target: Machine) -> None:
    wanted = number(PINNED)
    assert compiled(target) == f"headers: {wanted}\nlibrary: {wanted}\n"
    assert "libcudnn.so.9 (libc6,x86-64) => /usr/local/lib/libcudnn.so.9" in target.must("/sbin/ldconfig -p")
    assert f"Version: {PINNED}" in target.must("cat /usr/local/lib/pkgconfig/cudnn.pc")
    assert target.must("readlink /opt/cudnn/default /opt/cudnn/cuda13") == f"cuda13\ncuda13-{PINNED}\n"


@pytest.mark.both_releases
def test_verification_passes_and_names_skipped_checks(apply: Apply, targets: list[Machine]) -> None:
    proof = apply(variables=PROVE)

    for target in targets:
        assert proof.findings(target.host.name) == {"cudnn.version": "pass", "cudnn.convolution": "skip"}


def test_proof_fails_for_headers_of_another_cudnn(apply: Apply, targets: list[Machine]) -> None:
    header = "/usr/local/include/cudnn_version.h"
    before = [target.must(f"readlink {header}").strip() for target in targets]
    for target in targets:
        target.must(f"rm {header} && echo '#define CUDNN_VERSION 80905' > {header}")
    try:
        proof = apply(variables=PROVE)
        assert [proof.findings(target.host.name)["cudnn.version"] for target in targets] == ["fail"] * len(targets)
    finally:
        for target, link in zip(targets, before, strict=True):
            target.must(f"ln -sf {link} {header}")


def test_second_cuda_can_become_the_default(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]
    content = fake_wheel(PINNED, targets[0])
    beside = {"cudnn_wheels": checksums({PINNED: content}), "cudnn_cuda_majors": [13, 12]}

    with wheels.publish("nvidia-cudnn-cu12", PINNED, content):
        assert apply(variables=beside).rc == 0
    for target in targets:
        assert target.must("readlink /opt/cudnn/default /opt/cudnn/cuda12") == f"cuda13\ncuda12-{PINNED}\n"
        assert compiled(target).startswith(f"headers: {number(PINNED)}\n")

    # Nothing is published any more: what is there is enough.
    assert apply(variables={**beside, "cudnn_cuda_majors": [12, 13]}).rc == 0
    for target in targets:
        assert target.must("readlink /opt/cudnn/default") == "cuda12\n"
        assert target.run("ls /usr/local/lib/libcudnn_ops.so.9").rc != 0  # the fake has one library

    assert apply().rc == 0
    assert [
        fingerprint.difference(state, fingerprint.of(target)) for state, target in zip(before, targets, strict=True)
    ] == [[]] * len(targets)


def test_another_version_takes_the_place_of_the_old_one(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]
    first, second = fake_wheel("9.99.1.2", targets[0]), fake_wheel("9.99.2.1", targets[0])
    sums = checksums({"9.99.1.2": first, "9.99.2.1": second})
    request = {"cudnn_wheels": sums, "cudnn_cuda_majors": [12]}

    with (
        wheels.publish("nvidia-cudnn-cu12", "9.99.1.2", first),
        wheels.publish("nvidia-cudnn-cu12", "9.99.2.1", second),
    ):
        assert apply(variables={**request, "cudnn_version": "9.99.1.2"}).rc == 0
        assert {compiled(target) for target in targets} == {"headers: 99901\nlibrary: 99901\n"}
        assert apply(variables={**request, "cudnn_version": "9.99.2.1"}).rc == 0

    for target in targets:
        assert compiled(target) == "headers: 99902\nlibrary: 99902\n"
        assert target.must("ls /opt/cudnn") == "cuda12\ncuda12-9.99.2.1\ndefault\n"
    assert apply().rc == 0
    for old, target in zip(before, targets, strict=True):
        assert fingerprint.difference(old, fingerprint.of(target)) == []


def test_packages_of_the_repository_take_the_place_of_the_wheel(apply: Apply, targets: list[Machine]) -> None:
    request = {"cudnn_source": "cuda_repository"}
    # The role ignores other files next to its own.
    theirs = "/opt/cudnn/9.1/include/cudnn.h"
    for target in targets:
        target.must(f"mkdir -p $(dirname {theirs}) && echo theirs > {theirs}")

    result = apply(variables=request)

    assert result.rc == 0, result.output
    for target in targets:
        assert target.must("find /opt/cudnn -type f") == f"{theirs}\n"
        target.must("rm -r /opt/cudnn")
        assert compiled(target) == "headers: 91301\nlibrary: 91301\n"
    assert set(apply(variables=request).changed().values()) == {0}
    assert apply().rc == 0
    for target in targets:
        assert target.run("dpkg -s cuda-keyring").rc != 0
        assert target.run("dpkg -s libcudnn9-cuda-13").rc != 0
        assert compiled(target).startswith(f"headers: {number(PINNED)}\n")


def test_wheel_with_another_checksum_is_refused(apply: Apply, targets: list[Machine]) -> None:
    before = [fingerprint.of(target) for target in targets]
    content = fake_wheel("9.99.1.2", targets[0])

    with wheels.publish("nvidia-cudnn-cu12", "9.99.1.2", content + b"x"):
        result = apply(
            variables={
                "cudnn_wheels": checksums({"9.99.1.2": content}),
                "cudnn_version": "9.99.1.2",
                "cudnn_cuda_majors": [12],
            }
        )

    assert result.rc != 0
    assert "pip did not deliver nvidia-cudnn-cu12==9.99.1.2" in result.text
    assert "DO NOT MATCH THE HASHES" in result.text
    for old, target in zip(before, targets, strict=True):
        assert fingerprint.difference(old, fingerprint.of(target)) == []
        assert compiled(target).startswith(f"headers: {number(PINNED)}\n")


def test_an_unmanaged_library_is_not_replaced(apply: Apply, targets: list[Machine]) -> None:
    theirs = "/usr/local/lib/libcudnn_theirs.so"
    for target in targets:
        target.put({theirs: Entry(b"theirs")})
    try:
        result = apply()
        assert result.rc != 0
        assert f"{theirs} is in the way" in result.text
    finally:
        for target in targets:
            assert target.must(f"cat {theirs}; rm {theirs}") == "theirs"


def test_a_damaged_library_is_repaired(apply: Apply, targets: list[Machine]) -> None:
    for target in targets:
        target.must("truncate -s -1 /opt/cudnn/default/lib/libcudnn_graph.so.9")

    result = apply()

    assert result.rc == 0, result.output
    for target in targets:
        assert compiled(target).startswith(f"headers: {number(PINNED)}\n")


def test_bad_input_changes_nothing(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            ({"cudnn_cuda_majors": []}, "cudnn_cuda_majors: is empty, and no CUDA toolkit is installed"),
            ({"cudnn_cuda_majors": [11]}, "cudnn_cuda_majors: has 11, and there is no cuDNN 9 for that"),
            ({"cudnn_version": "9.0.0.1"}, "cudnn_version: is 9.0.0.1, of which no SHA-256 is known for CUDA 13"),
            ({"cudnn_source": "archive"}, "value of cudnn_source must be one of"),
            (
                {"cudnn_source": "cuda_repository", "cudnn_version": "9.12.0.46"},
                "cudnn_version: is 9.12.0.46, and the repository gives its newest alone",
            ),
        ]
    )
