"""Real trainings with Debian 13's PyTorch: by the host's interpreter, by one in the place of conda's, and in containers.

No GPU computes here: nvidia-smi and libcuda are fakes. tests/hardware uses a real GPU.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.fakes import gpu_host as fake_gpu_host
from harness.fakes import nvml as fake_nvml
from harness.sandbox import fingerprint
from harness.sandbox.clients import Entry, Machine, kept

pytestmark = pytest.mark.both_releases

Apply = Callable[..., Any]

NVML = f"{fake_gpu_host.LIBRARIES}/{fake_nvml.SONAME}"
LIBCUDA = "/usr/local/lib/libcuda.so.1"
UUID = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"  # as molecule/smoke_test/fake_cuda.c has it
FIGURES = re.compile(
    r"PyTorch (\S+) on cpu \(.+\) got ([\d.]+) of 359 digits right after 20 epochs of ([\d.]+) s, with (\d+) MiB"
)
DEBIAN = {"name": "debian", "python": "/usr/bin/python3"}
ONLY = {"smoke_test_environments": [], "smoke_test_images": []}
MODULE_RUNS = 2
PROVE = {"apply_tasks_from": "verify"}


def findings_of(result: Any, host: str) -> dict[str, dict[str, str]]:
    """Return the findings of a host by id."""
    return {finding["id"]: finding for finding in result.hosts[host]["findings"]}


@pytest.fixture(autouse=True)
def nothing_left(targets: list[Machine]) -> Iterator[None]:
    """Check after each test that no container, process or file of a training is left."""
    yield
    for target in targets:
        assert target.must("docker ps --all --quiet") == ""
        assert target.run("pgrep --full -- '[-]I -B - --device|^sleep 454545'").stdout == ""
        assert target.must("find /tmp /var/tmp -user nobody") == ""


@pytest.fixture
def failed(apply: Apply, machine: Callable[[str], Machine]) -> Callable[..., dict[str, dict[str, str]]]:
    """Return a function that applies the role, which has to fail and change nothing, and returns the findings."""

    def run(host: str, variables: dict[str, Any]) -> dict[str, dict[str, str]]:
        target = machine(host)
        before = fingerprint.of(target)
        result = apply(hosts=host, variables=variables)
        assert result.rc != 0
        assert result.changed() == {host: 0}
        assert fingerprint.difference(before, fingerprint.of(target)) == []
        findings = findings_of(result, host)
        for finding in findings.values():
            if finding["status"] == "fail":
                assert " ".join(finding["remedy"].split()) in result.text
        return findings

    return run


# --- Success ---


def test_the_network_is_trained_everywhere(first_run: Any) -> None:
    assert first_run.findings("debian12") == {"smoke_test.image.digits": "pass", "smoke_test.gpus": "skip"}
    assert first_run.findings("debian13") == {
        "smoke_test.environment.debian": "pass",
        "smoke_test.environment.torch": "pass",
        "smoke_test.image.digits": "pass",
        "smoke_test.gpus": "skip",
    }


def test_figures_are_plausible(first_run: Any, machine: Callable[[str], Machine]) -> None:
    version = machine("debian13").must("dpkg-query --show --showformat '${Version}' python3-torch")
    accuracies = set()
    for host in ("debian12", "debian13"):
        for finding in findings_of(first_run, host).values():
            if figures := FIGURES.search(finding["evidence"]):
                torch, accuracy, seconds, mebibytes = figures.groups()
                assert version.startswith(torch.split("+")[0])
                assert 0.95 <= float(accuracy) <= 1
                assert 0.001 < float(seconds) < 60
                assert 100 < int(mebibytes) < 4000
                accuracies.add(accuracy)
    # The same packages compute the same, in an environment and in containers of two releases of docker.
    assert len(accuracies) == 1


def test_a_run_changes_nothing(first_run: Any, targets: list[Machine]) -> None:
    assert set(first_run.changed().values()) == {0}
    fresh = fingerprint.remembered("molecule")
    for target in targets:
        assert fingerprint.difference(fresh[target.host.name], fingerprint.of(target)) == []
        assert first_run.hosts[target.host.name]["roles"]["smoke_test"]["module_runs"] <= MODULE_RUNS


def test_container_runs_as_nobody_without_a_network(apply: Apply, machine: Callable[[str], Machine]) -> None:
    """Run an interpreter that prints its user instead of training."""
    target, spy = machine("debian13"), "/opt/spy"
    with kept([target], spy):
        target.put({spy: Entry(b"#!/bin/sh\nid --user --name >&2\nid --groups --name >&2\nexit 1\n", mode=0o755)})
        result = apply(
            hosts="debian13", variables={**ONLY, "smoke_test_environments": [{"name": "spy", "python": spy}]}
        )
    assert findings_of(result, "debian13")["smoke_test.environment.spy"]["evidence"].endswith(
        "exit status 1. nobody nogroup"
    )


def test_verify_records_and_does_not_end_the_play(apply: Apply) -> None:
    result = apply(hosts="debian13", variables={**PROVE, **ONLY, "smoke_test_images": [{"image": "absent"}]})
    assert result.rc == 0, result.output
    assert result.findings("debian13")["smoke_test.image.absent"] == "fail"


# --- Failures ---


@pytest.fixture(scope="module")
def images(machine: Callable[[str], Machine]) -> None:
    """Build images without PyTorch, without scikit-learn, and without a Python."""
    target = machine("debian13")
    for name, command in {
        "no-torch": "rm -r /usr/lib/python3/dist-packages/torch",
        "no-sklearn": "rm -r /usr/lib/python3/dist-packages/sklearn",
        "no-python": "rm /usr/bin/python3",
    }.items():
        target.must(
            f"docker run --name {name} digits {command} && docker commit {name} {name} && docker rm {name}", seconds=120
        )


@pytest.mark.parametrize(
    ("host", "environment", "evidence", "remedy"),
    [
        ("debian12", DEBIAN, "No module named 'torch'", "install PyTorch: apt-get install python3-torch"),
        (
            "debian13",
            {"name": "gone", "python": "/opt/conda/envs/gone/bin/python"},
            "No such file",
            "smoke_test_environments",
        ),
        ("debian13", {"name": "wrong", "python": "/usr/bin/true"}, "exit status 0", "name a Python of 3.9 or newer"),
        ("debian13", {"name": "perl", "python": "/usr/bin/perl"}, "exit status", "name a Python of 3.9 or newer"),
        ("debian13", {**DEBIAN, "device": "cuda"}, "was built without CUDA", "apt-get install python3-torch-cuda"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_a_broken_environment_is_named_with_its_remedy(
    failed: Any, host: str, environment: dict[str, str], evidence: str, remedy: str
) -> None:
    finding = failed(host, {**ONLY, "smoke_test_environments": [environment]})[
        f"smoke_test.environment.{environment['name']}"
    ]
    assert (finding["status"], evidence in finding["evidence"]) == ("fail", True), finding
    assert remedy in finding["remedy"]


@pytest.mark.parametrize(
    ("image", "evidence", "remedy"),
    [
        ("no-torch", "No module named 'torch'", "FROM no-torch, RUN"),
        ("no-sklearn", "No module named 'sklearn'", "FROM no-sklearn, RUN"),
        ("no-python", "python3", "set python: for this image"),
        ("not-pulled", "docker has no image not-pulled", "docker pull not-pulled"),
    ],
)
def test_a_broken_image_is_named_with_its_remedy(
    failed: Any, images: None, image: str, evidence: str, remedy: str
) -> None:
    finding = failed("debian13", {**ONLY, "smoke_test_images": [{"image": image}]})[f"smoke_test.image.{image}"]
    assert (finding["status"], evidence in finding["evidence"]) == ("fail", True), finding
    assert remedy in finding["remedy"]


def test_missed_accuracy_fails(failed: Any) -> None:
    findings = failed("debian12", {"smoke_test_accuracy": 1.0, "smoke_test_epochs": 1})
    evidence = findings["smoke_test.image.digits"]["evidence"]
    assert re.search(r"0\.\d{4} of the digits are right, and 1\.0 is asked for", evidence)


def test_slow_training_is_ended(failed: Any) -> None:
    findings = failed("debian13", {"smoke_test_timeout_s": 1})
    for id_ in ("smoke_test.environment.debian", "smoke_test.image.digits"):
        assert "not done in time" in findings[id_]["evidence"]
        assert "smoke_test_timeout_s" in findings[id_]["remedy"]


def test_hanging_program_is_killed_with_its_children(failed: Any, machine: Callable[[str], Machine]) -> None:
    """Use an interpreter that ignores its limit. It is killed 20 seconds later."""
    target, sleeper = machine("debian13"), "/usr/bin/sleeper"
    script = "#!/bin/sh\\nsleep 454545 & sleep 454545\\n"
    make = f"printf '{script}' >{sleeper} && chmod 755 {sleeper}"
    with kept([target], sleeper):
        target.must(make)
        target.must(f'docker run --name once digits sh -c "{make}" && docker commit once sleeper && docker rm once')
        findings = failed(
            "debian13",
            {
                "smoke_test_environments": [{"name": "sleeper", "python": sleeper}],
                "smoke_test_images": [{"image": "sleeper", "python": sleeper}],
                "smoke_test_timeout_s": 1,
            },
        )
    for kind in ("environment", "image"):
        assert findings[f"smoke_test.{kind}.sleeper"]["evidence"] == f"{kind} sleeper: not done in time"


def test_without_docker_the_role_is_named(failed: Any, machine: Callable[[str], Machine]) -> None:
    target = machine("debian13")
    target.must("systemctl stop docker.socket docker.service")
    try:
        found = failed("debian13", {**ONLY, "smoke_test_images": [{"image": "digits"}]})
    finally:
        target.must("systemctl start docker.socket docker.service")
    assert "docker daemon" in found["smoke_test.image.digits"]["evidence"].lower()
    assert "apply the role docker" in found["smoke_test.image.digits"]["remedy"]


# --- Fake GPUs ---


@pytest.fixture
def gpu(machine: Callable[[str], Machine]) -> Iterator[Machine]:
    """Install a fake nvidia-smi that lists a GPU."""
    target = machine("debian13")
    files = fake_gpu_host.user_space()
    table = fake_gpu_host.table([{"device": "2684", "uuid": UUID, "address": "0000:41:00.0"}], device_nodes=False)
    with kept([target], *files, NVML, fake_gpu_host.FIRMWARE):
        target.must(f"mkdir -p {fake_gpu_host.FIRMWARE}/{fake_gpu_host.DRIVER}")
        target.put({**files, **table})
        target.must("ldconfig")
        yield target
    target.must("ldconfig")


@pytest.fixture
def library(gpu: Machine, tmp_path: Path) -> Iterator[None]:
    """Install a fake libcuda: programs of that host see the GPU, containers do not."""
    source, built = Path(__file__).parents[1] / "fake_cuda.c", tmp_path / "libcuda.so.1"
    subprocess.run(["gcc", "-shared", "-fPIC", "-nostdlib", "-O2", "-o", built, source], check=True)
    gpu.put({LIBCUDA: Entry(built.read_bytes(), mode=0o755)})
    gpu.must("ldconfig")
    yield
    gpu.must(f"rm {LIBCUDA} && ldconfig")


def test_fallback_on_the_processor_fails(failed: Any, gpu: Machine) -> None:
    findings = failed("debian13", {**ONLY, "smoke_test_environments": [DEBIAN]})
    assert {finding["status"] for finding in findings.values()} == {"fail"}
    assert "was built without CUDA" in findings["smoke_test.environment.debian"]["evidence"]
    assert f"the host sees {UUID}; environment debian none (libcuda.so.1" in findings["smoke_test.gpus"]["evidence"]
    assert "nvidia_driver" in findings["smoke_test.gpus"]["remedy"]


def test_places_on_the_processor_pass(apply: Apply, gpu: Machine) -> None:
    result = apply(hosts="debian13", variables={**ONLY, "smoke_test_environments": [{**DEBIAN, "device": "cpu"}]})
    assert result.rc == 0, result.output
    assert result.findings("debian13") == {"smoke_test.environment.debian": "pass", "smoke_test.gpus": "skip"}


def test_image_without_a_gpu_fails_and_environment_passes(failed: Any, library: None) -> None:
    """Ask docker for a CDI device that does not exist; without the option the container starts, and sees no GPU."""
    requested = {"smoke_test_environments": [DEBIAN], "smoke_test_images": [{"image": "digits"}]}
    refused = failed("debian13", requested)["smoke_test.image.digits"]
    assert "cdi" in refused["evidence"].lower()
    assert "nvidia-ctk cdi list" in refused["remedy"]

    findings = failed("debian13", {**requested, "smoke_test_gpu_options": ["--env", "GPUS=all"]})
    evidence = findings["smoke_test.gpus"]["evidence"]
    assert f"the host sees {UUID}; image digits none (libcuda.so.1" in evidence
    assert "environment debian" not in evidence
    assert "nvidia-cdi-refresh" in findings["smoke_test.gpus"]["remedy"]


def test_a_full_gpu_is_a_warning(apply: Apply, gpu: Machine, library: None) -> None:
    """Let another program hold all but 295 MiB of the card: the training is not started."""
    state = f"{fake_gpu_host.FIRMWARE}/{fake_gpu_host.DRIVER}/gsp_fake.bin"
    gpu.must(f"sed -i 's/^gpu.0.memory.idle=.*/gpu.0.memory.idle={23 << 30 | 256 << 20}/' {state}")
    result = apply(hosts="debian13", variables={**ONLY, "smoke_test_environments": [DEBIAN]})
    assert result.rc == 0, result.output
    findings = findings_of(result, "debian13")
    full = findings["smoke_test.environment.debian"]
    assert full["status"] == "warn" and f"not started: it needs 383 MiB of {UUID}" in full["evidence"]
    assert findings["smoke_test.gpus"]["status"] == "pass"
    assert findings["smoke_test.gpus"]["evidence"] == f"the host, environment debian see {UUID}"


def test_missing_required_gpu_fails(failed: Any) -> None:
    findings = failed("debian12", {**ONLY, "smoke_test_device": "cuda"})
    assert "no NVIDIA GPU on the PCI bus" in findings["smoke_test.gpus"]["evidence"]


# --- Bad input ---


def test_bad_input_is_refused(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            ({"smoke_test_accuracy": 95}, "smoke_test_accuracy: is no share of the digits"),
            ({"smoke_test_epochs": 0}, "smoke_test_epochs: is less than 1"),
            ({"smoke_test_timeout_s": 0}, "smoke_test_timeout_s: is less than 1"),
            ({"smoke_test_environments": [DEBIAN, DEBIAN]}, "environment debian is listed twice"),
            ({"smoke_test_environments": [{"name": "torch"}]}, "python"),
            ({"smoke_test_user": "nobody-of-that-name"}, "There is no user nobody-of-that-name"),
        ]
    )
