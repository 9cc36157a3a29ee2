"""Docker as its users meet it, on hosts with a disk of its own (molecule/docker/prepare.yml)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from harness.depot import docker_repository
from harness.sandbox import fingerprint
from harness.sandbox.clients import Machine

Apply = Callable[..., Any]
DAEMON_JSON = "/etc/docker/daemon.json"

# An image of the host's own programs: nothing is downloaded.
IMAGE = r"""
set -e
programs="/usr/bin/sleep /usr/bin/python3 /usr/bin/dd"
libraries=$(for program in $programs; do ldd $program; done | grep -o '/[^ ]*' | sort -u)
tar --create --dereference $programs $libraries /usr/lib/python3* | docker import - local
"""
SERVER = "python3 -m http.server 80"


def started(target: Machine) -> str:
    return fingerprint.service_starts(target)["docker.service"]


def info(target: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(target.must("docker info --format '{{json .}}'"))
    return found


def options(target: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(target.must(f"cat {DAEMON_JSON}"))
    return found


@pytest.fixture(autouse=True)
def image(request: pytest.FixtureRequest, targets: list[Machine]) -> None:
    if request.node.get_closest_marker("after_contract"):
        return  # no docker runs
    for target in targets:
        make_image(target)


def make_image(target: Machine) -> None:
    if target.run("docker image inspect local").rc != 0:
        target.must(IMAGE)


@pytest.fixture
def containers(targets: list[Machine]) -> Any:
    """Start containers, which are gone after the test: `containers(target, "web", "--publish 8080:80", SERVER)`."""

    def start(target: Machine, name: str, how: str = "", command: str = "sleep 600") -> None:
        target.must(f"docker run --detach --name {name} {how} local {command}")

    yield start
    for target in targets:
        target.must(
            "! systemctl --quiet is-active docker ||"
            " { docker ps --all --quiet | xargs --no-run-if-empty docker rm --force; docker network prune --force; }"
        )


# --- What it is like ---


def test_options_are_in_force(target: Machine) -> None:
    found = info(target)
    assert found["DockerRootDir"] == "/data/docker"
    assert found["LiveRestoreEnabled"] is True
    assert found["LoggingDriver"] == "local"
    assert found["Labels"] == ["lab=molecule"]


def test_a_container_runs_with_the_defaults(target: Machine, containers: Callable[..., None]) -> None:
    containers(target, "one")
    (found,) = json.loads(target.must("docker inspect one"))
    assert found["HostConfig"]["ShmSize"] == 1 << 30
    assert found["HostConfig"]["LogConfig"]["Config"] == {"max-file": "5", "max-size": "50m"}


def test_data_is_on_the_disk(target: Machine, containers: Callable[..., None]) -> None:
    before = int(target.must("df --output=used --block-size=1M /data | tail -1"))
    containers(target, "writer", "", "dd if=/dev/zero of=/filled bs=1M count=100")
    target.must("docker wait writer; sync")
    after = int(target.must("df --output=used --block-size=1M /data | tail -1"))
    assert after - before >= 90
    assert target.run("find /var/lib/docker -type f").stdout == ""


@pytest.mark.parametrize("network", ["bridge", "lab"])
def test_a_published_port_is_reachable_from_the_host_only(
    target: Machine, laptop: Machine, containers: Callable[..., None], network: str
) -> None:
    old = info(target)["ServerVersion"].startswith("20.")
    if network != "bridge":
        target.must(f"docker network create {network}")
    containers(target, "web", f"--network {network} --publish 8080:80", SERVER)
    containers(target, "open", f"--network {network} --publish 0.0.0.0:8081:80", SERVER)

    for port in (8080, 8081):
        target.must(f"curl --silent --fail --retry 10 --retry-all-errors http://127.0.0.1:{port}/ > /dev/null")
    assert reaches(laptop, target, 8081)
    # What 20.10 cannot do for networks of its users, the finding docker.ports says.
    assert reaches(laptop, target, 8080) is (old and network != "bridge")


def reaches(client: Machine, server: Machine, port: int) -> bool:
    return client.run(f"timeout 10 bash -c '</dev/tcp/{server.host.address}/{port}'").rc == 0


def test_addresses_come_from_the_pool(target: Machine) -> None:
    target.must("docker network create pooled")
    (found,) = json.loads(target.must("docker network inspect pooled"))
    target.must("docker network rm pooled")
    assert found["IPAM"]["Config"][0]["Subnet"].startswith("10.250.")


def test_container_logs_are_limited(target: Machine, applied: Apply, containers: Callable[..., None]) -> None:
    applied({"docker_log_max_size": "20k", "docker_log_max_files": 2})
    flood = "python3 -c 'import os; [print(os.urandom(600).hex()) for _ in range(400)]'"
    containers(target, "flood", "", flood)
    target.must("docker wait flood")
    size = int(
        target.must(
            "du --summarize --bytes $(dirname $(find /data/docker/containers -name '*.log*' | head -1)) | cut -f1"
        )
    )
    applied()
    assert size < 100_000


def test_only_group_members_use_docker(target: Machine) -> None:
    assert target.run("su - owner -c 'docker ps'").rc == 0
    refused = target.run("su - dave -c 'docker ps'")
    assert refused.rc != 0
    assert "permission denied" in refused.stderr.lower()


# --- Reload and restart ---


def test_reloaded_option_restarts_nothing(
    applied: Apply, targets: list[Machine], containers: Callable[..., None]
) -> None:
    for target in targets:
        containers(target, "one")
    before = [(started(target), target.must("docker inspect --format '{{.State.Pid}}' one")) for target in targets]

    applied(
        {"docker_registry_mirrors": ["https://mirror.example"], "docker_daemon_options": {"labels": ["lab=reloaded"]}}
    )

    for target, state in zip(targets, before, strict=True):
        assert info(target)["Labels"] == ["lab=reloaded"]
        assert info(target)["RegistryConfig"]["Mirrors"] == ["https://mirror.example/"]
        assert (started(target), target.must("docker inspect --format '{{.State.Pid}}' one")) == state
    # Taken away again, an option is not in force any more, also without a restart.
    applied()
    for target, state in zip(targets, before, strict=True):
        assert info(target)["RegistryConfig"]["Mirrors"] in ([], None)
        assert started(target) == state[0]


def test_containers_survive_a_restart(applied: Apply, targets: list[Machine], containers: Callable[..., None]) -> None:
    for target in targets:
        containers(target, "one")
    before = [(started(target), target.must("docker inspect --format '{{.State.Pid}}' one")) for target in targets]

    applied({"docker_shm_size": "2g"})

    for target, (start, pid) in zip(targets, before, strict=True):
        assert started(target) != start
        assert target.must("docker inspect --format '{{.State.Pid}}' one") == pid
    applied()


def test_gpu_container_postpones_a_restart(
    apply: Apply, applied: Apply, targets: list[Machine], containers: Callable[..., None]
) -> None:
    """Use a device node of that name, which makes it a GPU container without anything of NVIDIA."""
    for target in targets:
        target.must("test -e /dev/nvidia0 || mknod /dev/nvidia0 c 1 3")
        containers(target, "train", "--device /dev/nvidia0")
    before = [started(target) for target in targets]

    waiting = applied({"docker_shm_size": "2g"})

    assert [started(target) for target in targets] == before
    for target in targets:
        assert waiting.findings(target.host.name)["docker.pending"] == "warn"
        target.must("docker rm --force train; rm -f /dev/nvidia0")
    done = applied({"docker_shm_size": "2g"})
    assert all(started(target) != start for target, start in zip(targets, before, strict=True))
    assert {done.findings(target.host.name)["docker.pending"] for target in targets} == {"pass"}
    applied()


# --- One owner of daemon.json ---


def test_manual_options_stay_until_removed_by_hand(applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    before = options(target)
    for by_hand in ({"dns-search": ["lab.example"]}, {"dns-search": []}, {}):
        target.must(f"cat > {DAEMON_JSON} <<'JSON'\n{json.dumps({**before, **by_hand})}\nJSON")
        for _run in range(2):
            applied(hosts=target.host.name)
            assert options(target) == {**before, **by_hand}


def test_private_daemon_json_stays_private(applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    target.must(f"chmod 0600 {DAEMON_JSON}")
    applied(hosts=target.host.name)
    assert target.must(f"stat --format %a {DAEMON_JSON}") == "600\n"
    files = target.must("find /var/lib/rigwright_docker -type f -perm /o+r")
    assert not {"memory.json", "restart.json"} & {line.rpartition("/")[2] for line in files.splitlines()}
    target.must(f"chmod 0644 {DAEMON_JSON}")


def test_part_of_another_role_is_merged_and_removed(applied: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    part = "/var/lib/rigwright_docker/parts/another.json"
    target.must(f"""echo '{{"runtimes": {{"slow": {{"path": "runc"}}}}}}' > {part}""")
    before = started(target)
    applied()
    assert "slow" in info(target)["Runtimes"]

    target.must(f"rm {part}")
    applied()
    assert "slow" not in info(target)["Runtimes"]
    assert "runtimes" not in options(target)
    assert started(target) == before


# --- Bad input ---


def test_impossible_requests_are_refused(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            (
                {"docker_daemon_options": {"bogus": True}},
                "docker_daemon_options: has options that dockerd does not know: bogus",
            ),
            ({"docker_daemon_options": {"hosts": ["tcp://0.0.0.0:2375"]}}, "docker_daemon_options"),
            ({"docker_data_root": "/sealed/docker"}, "read-only"),
            ({"docker_data_root": "/small/docker"}, "docker_free_bytes"),
            ({"docker_data_root": "/var/lib/elsewhere"}, "which it would no longer find"),
            ({"docker_bind_ip": "localhost"}, "docker_bind_ip"),
            ({"docker_users": ["nobody-of-that-name"]}, "docker_users"),
            ({"docker_edition": "docker-ce"}, "docker_edition"),
        ]
    )


def test_data_of_a_stopped_docker_is_not_left_behind(refused: Callable[..., None], targets: list[Machine]) -> None:
    target = targets[0]
    target.must("systemctl stop docker.socket docker.service")
    try:
        refused({"docker_data_root": "/var/lib/elsewhere"}, "which it would no longer find")
    finally:
        target.must("systemctl start docker.service")


def test_killed_run_is_completed_by_the_next(
    apply: Apply, applied: Apply, targets: list[Machine], containers: Callable[..., None]
) -> None:
    variables = {"docker_shm_size": "3g"}
    for target in targets:
        # Once the file is written, every module dies: one alone may have given its result already.
        target.must("touch /run/killing")
        target.start(f"while test -e /run/killing; do grep -q 3g {DAEMON_JSON} && pkill -9 -x python3; sleep 0.1; done")
    killed = apply(variables=variables)
    for target in targets:
        target.must("rm /run/killing")
    assert killed.rc != 0

    applied(variables)

    for target in targets:
        containers(target, "one")
        assert target.must("docker inspect --format '{{.HostConfig.ShmSize}}' one").strip() == str(3 << 30)
    applied()


def test_invalid_json_of_the_host_is_refused_and_kept(apply: Apply, targets: list[Machine]) -> None:
    target = targets[0]
    kept = target.must(f"cat {DAEMON_JSON}")
    target.must(f"echo '{{' >> {DAEMON_JSON}")
    try:
        result = apply(hosts=target.host.name)
        assert result.rc != 0
        assert "is not JSON" in result.text
        assert target.must(f"tail -1 {DAEMON_JSON}") == "{\n"
    finally:
        target.must(f"cat > {DAEMON_JSON} <<'JSON'\n{kept}JSON")


# --- Rootless docker ---


@pytest.mark.both_releases
def test_rootless_user_has_a_docker(applied: Apply, targets: list[Machine]) -> None:
    variables = {"docker_rootless_users": ["carol"]}
    applied(variables)

    for target in targets:
        uid = target.must("id -u carol").strip()
        assert "name=rootless" in target.must("su - carol -c 'docker info --format {{.SecurityOptions}}'")
        target.must("docker save local | su - carol -c 'docker load'", seconds=300)
        target.must("su - carol -c 'docker run --detach --name mine local sleep 600'")
        assert target.must("ps -o uid= -C sleep").split() == [uid]
        # Her own, and not the host's.
        assert target.must("docker ps --quiet") == ""
        assert "permission denied" in target.run("su - carol -c 'docker -H unix:///run/docker.sock ps'").stderr.lower()
    again = applied(variables)
    assert set(again.changed().values()) == {0}

    # Off the list, a docker with running containers stays.
    waiting = applied()
    for target in targets:
        assert waiting.findings(target.host.name)["docker.rootless_pending"] == "warn"
        target.must("su - carol -c 'docker rm --force mine'")
    applied()
    for target in targets:
        assert target.run("su - carol -c 'docker ps'").rc != 0
        assert target.run("ls /var/lib/systemd/linger/carol /etc/systemd/user/docker.service").stdout == ""
        # Her images stay. They are hers to remove.
        target.must(
            "su - carol -c 'test -d .local/share/docker'; rm -rf /home/carol/.local /home/carol/.config /home/carol/.docker"
        )


def test_impossible_rootless_users_are_refused(all_refused: Callable[..., None]) -> None:
    all_refused(
        [
            ({"docker_rootless_users": ["nobody-of-that-name"]}, "names no user of this host: nobody-of-that-name"),
            ({"docker_rootless_users": ["owner"]}, "names users who are in docker_users as well"),
        ]
    )


# --- Docker's own packages ---


@pytest.fixture
def bare(targets: list[Machine]) -> None:
    """Remove docker from the hosts. Its data on the disk stays."""
    for target in targets:
        target.must(
            "systemctl stop docker.socket docker.service containerd.service || true;"
            "apt-get --yes purge docker.io docker-cli docker-buildx docker-compose containerd runc rootlesskit 2>&1"
            " || apt-get --yes purge docker.io containerd runc rootlesskit",
            seconds=300,
        )


def version(target: Machine) -> str:
    return target.must("dpkg-query --show --showformat '${Version}' docker-ce").partition(":")[2].partition("-")[0]


@pytest.mark.after_contract("hosts whose docker is another one")
@pytest.mark.both_releases
def test_dockers_own_packages_are_pinned_held_and_upgraded(
    apply: Apply, applied: Apply, targets: list[Machine], bare: None, containers: Callable[..., None]
) -> None:
    older, newer = ({"debian12": f"20.10.{23 + n}", "debian13": f"26.1.{4 + n}"} for n in (0, 1))
    by_host = "{{ %s[inventory_hostname] }}"
    edition = {"docker_edition": "docker-ce"}

    with docker_repository.another_key():
        refused = apply(variables=edition)
    for target in targets:
        assert refused.hosts[target.host.name]["failed"]
        assert target.run("dpkg-query --show docker-ce; ls /etc/apt/keyrings/rigwright-docker.asc").stdout == ""
    assert "is not the key that was expected" in refused.text

    # Killed while packages may start nothing: the next run ends that.
    for target in targets:
        target.must("touch /run/killing")
        target.start(
            "while test -e /run/killing; do test -e /usr/sbin/policy-rc.d && pkill -9 -x python3; sleep 0.1; done"
        )
    assert apply(variables={**edition, "docker_version": by_host % older}).rc != 0
    for target in targets:
        target.must("rm /run/killing; test -e /usr/sbin/policy-rc.d")

    applied({**edition, "docker_version": by_host % older, "docker_hold": True})
    for target in targets:
        assert target.run("test -e /usr/sbin/policy-rc.d").rc != 0
        assert version(target) == older[target.host.name]
        assert {"docker-ce", "docker-ce-cli", "containerd.io"} <= set(target.must("apt-mark showhold").split())
        assert f"Candidate: 5:{older[target.host.name]}-" in target.must("apt-cache policy docker-ce")
        make_image(target)
        target.must("test -e /dev/nvidia0 || mknod /dev/nvidia0 c 1 3")
        containers(target, "train", "--device /dev/nvidia0")
    before = [(started(target), target.must("docker inspect --format '{{.State.Pid}}' train")) for target in targets]

    # Docker's packages would restart docker; the role does, when the container has ended.
    upgraded = applied({**edition, "docker_version": by_host % newer})
    for target, state in zip(targets, before, strict=True):
        assert version(target) == newer[target.host.name]
        assert target.must("apt-mark showhold") == ""
        assert (started(target), target.must("docker inspect --format '{{.State.Pid}}' train")) == state
        assert upgraded.findings(target.host.name)["docker.pending"] == "warn"
        target.must("docker rm --force train; rm -f /dev/nvidia0")
    done = applied(edition)
    for target, (start, _pid) in zip(targets, before, strict=True):
        assert started(target) != start
        assert done.findings(target.host.name)["docker.pending"] == "pass"
    assert set(applied(edition).changed().values()) == {0}

    # The other edition would end what runs.
    other = apply(variables={"docker_edition": "docker.io"})
    assert other.rc != 0
    assert "docker-ce is installed, which apt would remove" in other.text

    applied({**edition, "docker_state": "absent"})
    for target in targets:
        assert target.run("ls /etc/apt/sources.list.d/rigwright-docker.sources").stdout == ""


# --- A proof on a live host ---


@pytest.mark.both_releases
def test_verify_passes(apply: Apply, targets: list[Machine]) -> None:
    result = apply(variables={"apply_tasks_from": "verify"})
    assert result.rc == 0, result.output
    for target in targets:
        findings = result.findings(target.host.name)
        assert findings.pop("docker.group") == "warn"
        findings.pop("docker.ports", None)
        # Older than 28, and no firewall.
        assert findings.pop("docker.direct") == "warn"
        assert set(findings.values()) == {"pass"}, findings
