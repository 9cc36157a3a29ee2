"""Containers with GPUs, on hosts with two of them (molecule/nvidia_container_toolkit/prepare.yml).

nvidia-ctk, the runtime, the hooks, docker and runc are the real programs; driver, NVML and device nodes are fakes, and no driver
answers when a node is opened. So ENXIO says that the kernel let a container through to the device, EPERM that its control group did not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.depot import container_toolkit
from harness.fakes import gpu_host as fake_gpu_host
from harness.fakes import nvml as fake_nvml
from harness.fakes.gpu_hosts import state
from harness.sandbox import engine, fingerprint, lab
from harness.sandbox.clients import Entry, Machine, kept

Apply = Callable[..., Any]
OLD, NEW = "1.19.1", "1.20.1"
PACKAGES = (
    "nvidia-container-toolkit",
    "nvidia-container-toolkit-base",
    "libnvidia-container-tools",
    "libnvidia-container1",
)
SPEC = "/var/run/cdi/nvidia.yaml"
DAEMON_JSON = "/etc/docker/daemon.json"
SOURCES = "/etc/apt/sources.list.d"
VARIABLES = str(lab.ROOT / "molecule/nvidia_container_toolkit/vars.yml")

# An image of the host's own programs: nothing is downloaded, and nvidia-smi is not in it.
IMAGE = r"""
set -e
programs="/usr/bin/sleep /usr/bin/sh /usr/bin/ls /usr/bin/python3"
libraries=$(for program in $programs; do ldd $program; done | grep -o '/[^ ):]*' | sort -u)
tar --create --dereference $programs $libraries /usr/lib/python3* | docker import - local
"""
OPEN = """python3 -c '
import errno, os, sys
for path in sys.argv[1:]:
    try: os.close(os.open(path, os.O_RDWR)); print("opened")
    except OSError as error: print(errno.errorcode[error.errno])
' /dev/nvidia0 /dev/nvidiactl"""


def knows_cdi(target: Machine) -> bool:
    return not target.must("docker version --format '{{.Server.Version}}'").startswith("20.")


def with_gpu(target: Machine, which: str) -> str:
    """Return the options by which a user of this docker requests GPUs: by index, by UUID, or all."""
    if knows_cdi(target):
        return f"--device nvidia.com/gpu={which}"
    return f"--runtime nvidia --env NVIDIA_VISIBLE_DEVICES={which}"


def uuids(text: str) -> list[str]:
    return re.findall(r"UUID: ([^)]+)", text)


def versions(target: Machine) -> set[str]:
    text = target.must(f"dpkg-query --show --showformat '${{db:Status-Abbrev}}${{Version}}\\n' {' '.join(PACKAGES)}")
    return {line.removeprefix("ii ").removeprefix("hi ") for line in text.splitlines()}


def started(target: Machine) -> str:
    return fingerprint.service_starts(target)["docker.service"]


@pytest.fixture(autouse=True)
def image(all_targets: list[Machine]) -> None:
    for target in all_targets:
        if target.run("docker image inspect local").rc != 0:
            target.must(IMAGE)


@pytest.fixture
def containers() -> Iterator[Callable[..., None]]:
    """Start containers, which are gone after the test: `containers(target, "train", "--device nvidia.com/gpu=0")`."""
    started = []

    def start(target: Machine, name: str, how: str = "") -> None:
        started.append((target, name))
        target.must(f"docker run --detach --name {name} --network none {how} local sleep 3600")

    yield start
    for target, name in started:
        target.run(f"docker rm --force {name}")


@pytest.fixture
def applied(applied: Apply) -> Apply:
    """Apply a role with variables named without the prefix of this one, which has to succeed."""

    def run(role: str = "nvidia_container_toolkit", hosts: str = "targets", **variables: Any) -> Any:
        named = {f"nvidia_container_toolkit_{name}": value for name, value in variables.items()}
        return applied({"scenario_vars": VARIABLES, **named}, role=role, hosts=hosts)

    return run


# --- What containers get ---


@pytest.mark.parametrize("index", [0, 1])
def test_container_gets_only_the_requested_gpu(target: Machine, index: int) -> None:
    on_host = uuids(target.must("nvidia-smi -L"))
    for which in (str(index), on_host[index]):
        output = target.must(f"docker run --rm {with_gpu(target, which)} local sh -c 'ls /dev; nvidia-smi -L'")
        assert re.findall(r"^nvidia\d+$", output, re.MULTILINE) == [f"nvidia{index}"]
        assert uuids(output) == [on_host[index]]


def test_container_gets_all_gpus_on_request(target: Machine) -> None:
    output = target.must(f"docker run --rm {with_gpu(target, 'all')} local sh -c 'ls /dev; nvidia-smi -L'")
    assert uuids(output) == uuids(target.must("nvidia-smi -L"))
    assert {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"} <= set(output.split())


def test_container_without_a_request_gets_no_gpu(target: Machine) -> None:
    assert "nvidia" not in target.must("docker run --rm local ls /dev")
    refused = target.run("docker run --rm local nvidia-smi -L")
    assert "executable file not found" in refused.stderr


def test_missing_gpu_is_an_error(target: Machine) -> None:
    assert target.run(f"docker run --rm {with_gpu(target, '7')} local ls /dev").rc != 0


# --- gpu_usage and a container ---


def test_gpu_usage_knows_the_user_of_a_container(
    apply: Apply, containers: Callable[..., None], targets: list[Machine]
) -> None:
    target = targets[0]
    settings = {"scenario_vars": VARIABLES, "gpu_usage_index_url": f"http://{lab.DEPOT}/simple/"}
    result = apply("gpu_usage", target.host.name, {**settings, "gpu_usage_interval_s": 5})
    assert result.rc == 0, result.output
    containers(target, "train", f"--label rigwright.user=owner {with_gpu(target, '0')}")
    pid = int(target.must("docker inspect --format '{{.State.Pid}}' train"))
    target.put(state(**{f"gpu__0__process__{pid}": fake_nvml.described_process(2 << 30, "sleep")}))

    def owner() -> tuple[str, str, str] | None:
        done = target.run("gpu-who --json", user="nobody")
        gpus = json.loads(done.stdout)["gpus"] if done.rc == 0 else []
        rows = [row for gpu in gpus for row in gpu["processes"] if row["pid"] == pid and row["user"]]
        return (rows[0]["user"], rows[0]["kind"], rows[0]["name"]) if rows else None

    assert engine.wait_for(owner, "the user of the container") == ("owner", "container", "train")
    target.put(state())
    result = apply("gpu_usage", target.host.name, {**settings, "gpu_usage_state": "absent"})
    assert result.rc == 0, result.output


# --- They keep them ---


def opens(target: Machine) -> set[str]:
    return set(target.must(f"docker exec train {OPEN}").split())


def test_gpus_stay_when_systemd_reloads(target: Machine, containers: Callable[..., None]) -> None:
    containers(target, "train", with_gpu(target, "0"))
    assert opens(target) == {"ENXIO"}

    target.must("systemctl daemon-reload")

    assert opens(target) == {"ENXIO"}
    assert len(uuids(target.must("docker exec train nvidia-smi -L"))) == 1


def test_container_loses_gpus_without_device_links(
    machine: Callable[[str], Machine], containers: Callable[..., None], applied: Apply
) -> None:
    """Show what the role prevents, with the runc of Debian 12; newer ones also list devices without a link in the unit."""
    target = machine("debian12")
    target.must("mv /dev/char /dev/char.away")
    try:
        containers(target, "train", with_gpu(target, "0"))
        assert opens(target) == {"ENXIO"}
        target.must("systemctl daemon-reload")
        assert opens(target) == {"EPERM"}
        assert "Failed to initialize NVML: Unknown Error" in target.run("docker exec train nvidia-smi -L").stdout
    finally:
        target.must("rm -rf /dev/char.away")
    # The next run finds the links missing, and makes them.
    applied(hosts="debian12")
    assert target.must("readlink /dev/char/60:0").strip() == "/dev/nvidia0"


# --- The CDI spec is as the driver says ---


def test_changed_gpus_are_found_without_a_new_driver(applied: Apply, targets: list[Machine]) -> None:
    """Change no file that NVIDIA's path unit watches, as with MIG."""
    gpu = fake_gpu_host.gpus(["2684"])
    paths = list(fake_gpu_host.table(gpu))
    with kept(targets, *paths):
        for target in targets:
            target.put(fake_gpu_host.table(gpu))
        applied()
        for target in targets:
            assert "/dev/nvidia1" not in target.must(f"cat {SPEC}")
        assert set(applied().changed().values()) == {0}
    applied()
    for target in targets:
        assert "/dev/nvidia1" in target.must(f"cat {SPEC}")


def test_removed_spec_is_written_again(applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    target.must(f"rm {SPEC}")
    applied(hosts=target.host.name)
    assert "nvidia.com/gpu" in target.must(f"cat {SPEC}")


# --- One owner of daemon.json ---


@pytest.mark.both_releases
def test_docker_role_next_to_the_toolkit_changes_nothing(applied: Apply, targets: list[Machine]) -> None:
    before = [(target.must(f"cat {DAEMON_JSON}"), started(target)) for target in targets]
    runs = [applied(role) for role in ("docker", "nvidia_container_toolkit", "docker")]
    assert [set(run.changed().values()) for run in runs] == [{0}, {0}, {0}]
    assert [(target.must(f"cat {DAEMON_JSON}"), started(target)) for target in targets] == before
    for target in targets:
        names = ("docker", "nvidia_container_toolkit")
        taken = [
            run.hosts[target.host.name]["roles"][name]["module_runs"] for run, name in zip(runs, names, strict=False)
        ]
        assert sum(taken) <= 4


def test_docker_gets_the_part_for_its_version(target: Machine) -> None:
    options = json.loads(target.must(f"cat {DAEMON_JSON}"))
    info = json.loads(target.must("docker info --format '{{json .}}'"))
    if knows_cdi(target):
        assert options["features"] == {"cdi": True}
        assert "nvidia" not in info["Runtimes"]
    else:
        assert options["runtimes"]["nvidia"]["path"] == "nvidia-container-runtime"
        assert "features" not in options
    assert info["DefaultRuntime"] == "runc"


def test_legacy_mode_and_back(machine: Callable[[str], Machine], applied: Apply) -> None:
    target = machine("debian13")
    applied(hosts="debian13", mode="legacy")
    output = target.must(
        "docker run --rm --runtime nvidia --env NVIDIA_VISIBLE_DEVICES=1 local sh -c 'ls /dev; nvidia-smi -L'"
    )
    assert uuids(output) == uuids(target.must("nvidia-smi -L"))[1:]
    applied(hosts="debian13")
    assert "nvidia" not in json.loads(target.must("docker info --format '{{json .Runtimes}}'"))


def test_docker_is_not_restarted_under_a_container_with_a_gpu(
    machine: Callable[[str], Machine], applied: Apply, containers: Callable[..., None]
) -> None:
    """Leave CDI, an option that docker reads only when it starts."""
    target = machine("debian13")
    containers(target, "train", "--device nvidia.com/gpu=0")
    before = started(target)

    waiting = applied(hosts="debian13", mode="legacy")

    assert started(target) == before
    assert waiting.findings("debian13")["docker.pending"] == "warn"
    target.must("docker rm --force train")
    done = applied(hosts="debian13", mode="legacy")
    assert started(target) != before
    assert done.findings("debian13")["docker.pending"] == "pass"
    applied(hosts="debian13")


# --- Packages ---


def test_four_packages_in_another_version_and_back(applied: Apply, targets: list[Machine]) -> None:
    applied(version=OLD)
    for target in targets:
        assert versions(target) == {f"{OLD}-1"}
        assert f"Candidate: {OLD}-1" in target.must("apt-cache policy libnvidia-container1")
        test_container_gets_only_the_requested_gpu(target, 1)
    assert set(applied(version=OLD).changed().values()) == {0}
    applied()
    for target in targets:
        assert versions(target) == {f"{NEW}-1"}
        assert (
            target.must("systemctl is-enabled nvidia-cdi-refresh.path nvidia-cdi-refresh.service").split()
            == ["enabled"] * 2
        )
        # Not one that 1.19 has left in /etc, where it would hide the new one.
        assert "/usr/lib/" in target.must(
            "realpath $(systemctl show --value --property FragmentPath nvidia-cdi-refresh.service)"
        )


def test_a_hold_holds_and_ends(applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    applied(hosts=target.host.name, hold=True)
    assert set(PACKAGES) <= set(target.must("apt-mark showhold").split())
    assert set(applied(hosts=target.host.name, hold=True).changed().values()) == {0}
    applied(hosts=target.host.name)
    assert not set(PACKAGES) & set(target.must("apt-mark showhold").split())


def test_older_source_of_the_toolkit_is_replaced(target: Machine) -> None:
    """Replace the source of prepare.yml, which has another key: apt fails with two keys for one repository."""
    away = f"{SOURCES}/nvidia-docker.list"
    assert target.run(f"test -e {away}").rc != 0
    target.must("apt-get indextargets")
    with kept([target], away):
        target.must(
            f"echo 'deb [signed-by=/another.gpg] {json.loads(container_toolkit.ABOUT.read_text())['url']} /' > {away}"
        )
        assert "Conflicting values set for option Signed-By" in target.run("apt-get indextargets").stderr


# --- A user's own docker ---


def test_no_cgroups_is_only_for_rootless_docker(machine: Callable[[str], Machine], applied: Apply) -> None:
    target, drop_in = machine("debian13"), "/etc/systemd/user/docker.service.d/rigwright-nvidia.conf"
    applied(hosts="debian13", mode="legacy")
    own = target.must(f"env $(sed -n s/^Environment=//p {drop_in}) nvidia-ctk config")
    assert re.search(r"^ *no-cgroups = true", own, re.MULTILINE)
    assert not re.search(r"^ *no-cgroups = true", target.must("nvidia-ctk config"), re.MULTILINE)
    applied(hosts="debian13")
    assert target.run(f"test -e {drop_in}").rc != 0


# --- Bad input ---


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"nvidia_container_toolkit_version": "9.9.9"}, "does not have for all four packages"),
        ({"nvidia_container_toolkit_version": "newest"}, "nvidia_container_toolkit_version: is not a version"),
        ({"nvidia_container_toolkit_mode": "cdi"}, "docker 20.10.24 does not support CDI"),
    ],
)
def test_impossible_requests_are_refused(refused: Callable[..., None], variables: dict[str, Any], message: str) -> None:
    refused(variables, message)


def test_another_key_is_refused(apply: Apply, targets: list[Machine], unchanged: Callable[[], None]) -> None:
    target = targets[0]
    key = "/etc/apt/keyrings/rigwright-nvidia-container-toolkit.asc"
    about = json.loads(container_toolkit.ABOUT.read_text()) | {
        "fingerprints": ["C95B321B61E88C1809C4F759DDCAE044F796ECB0"]
    }
    before = target.must(f"cat {key}")
    result = apply(hosts=target.host.name, variables={"nvidia_container_toolkit_repository": about})
    assert result.rc != 0
    assert "is not the key that was expected" in result.text
    assert target.must(f"cat {key}") == before
    unchanged()


def test_mixed_source_file_is_refused(targets: list[Machine], apply: Apply) -> None:
    target = targets[0]
    with kept([target], f"{SOURCES}/mixed.list"):
        text = "deb http://archive.example/debian bookworm contrib\ndeb https://nvidia.github.io/libnvidia-container/stable/deb/amd64 /\n"
        target.put({f"{SOURCES}/mixed.list": Entry(text.encode())})
        result = apply(hosts=target.host.name)
    assert result.rc != 0
    assert f"{SOURCES}/mixed.list: has the toolkit's repository among other sources" in result.text


LIBRARIES = "/usr/lib/x86_64-linux-gnu"


@pytest.mark.parametrize(
    ("hide", "show", "message"),
    [
        (
            "mount --bind /dev/null /var/lib/dpkg/status",
            "umount /var/lib/dpkg/status",
            "docker is not installed on this host",
        ),
        (
            "for path in /proc/driver /sys/module/nvidia; do mount -t tmpfs none $path; done; mkdir /root/away;"
            f" mv {LIBRARIES}/lib{{nvidia-ml,cuda}}.so* /root/away",
            f"umount /proc/driver /sys/module/nvidia; mv /root/away/* {LIBRARIES}; rmdir /root/away; ldconfig",
            "no NVIDIA driver is installed on this host",
        ),
    ],
    ids=["docker", "driver"],
)
def test_missing_docker_or_driver_is_refused(
    targets: list[Machine], apply: Apply, hide: str, show: str, message: str
) -> None:
    target = targets[0]
    target.must(hide)
    try:
        result = apply(hosts=target.host.name)
    finally:
        target.must(show)
    assert result.rc != 0
    assert message in result.text


def test_absent_waits_for_containers_with_a_gpu(
    targets: list[Machine], apply: Apply, containers: Callable[..., None]
) -> None:
    target = targets[0]
    containers(target, "train", with_gpu(target, "0"))
    result = apply(hosts=target.host.name, variables={"nvidia_container_toolkit_state": "absent"})
    assert result.rc != 0
    assert "is absent, and these containers use a GPU: train" in result.text


# --- A proof on a live host ---


@pytest.mark.both_releases
def test_verify_passes(apply: Apply, targets: list[Machine]) -> None:
    result = apply(variables={"apply_tasks_from": "verify"})
    assert result.rc == 0, result.output
    for target in targets:
        assert set(result.findings(target.host.name).values()) == {"pass"}


def test_verify_names_the_problem(apply: Apply, applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    target.must(f"sed -i 's/GPU-00000041/GPU-99999999/' {SPEC}")
    result = apply(hosts=target.host.name, variables={"apply_tasks_from": "verify"})
    applied(hosts=target.host.name)
    assert result.findings(target.host.name)["nvidia_container_toolkit.spec"] == "fail"
