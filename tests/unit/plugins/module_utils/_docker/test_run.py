# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of a plan: files below a root, systemd, docker's API on a socket, and dockerd's validation of its options."""

from __future__ import annotations

import http.server
import json
import os
import shlex
import socketserver
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import (
    STORE,
    Record,
    State,
    Store,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import api as docker_api
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import facts
from ansible_collections.rigwright.workstation.plugins.module_utils._docker import model as docker
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.run import run
from ansible_collections.rigwright.workstation.plugins.module_utils._firewall.table import RULES

from tests.unit.plugins.module_utils._core.test_openpgp import FINGERPRINT, KEY, SMUGGLED
from tests.unit.plugins.module_utils._docker.test_plan import PARAMS

Run = Callable[..., Any]

PACKAGES: Any = {"docker.io": ["docker.io"], "docker-ce": ["docker-ce"]}
UNKNOWN = "unable to configure the Docker daemon with file {}: the following directives don't match any configuration option: bogus\n"


class Api(http.server.BaseHTTPRequestHandler):
    """The part of docker's API that the plan uses."""

    answers: ClassVar[Any] = {}

    def do_GET(self) -> None:
        found = self.answers.get(self.path)
        content = json.dumps(found).encode()
        self.send_response(200 if found is not None else 404)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_words: Any) -> None:
        """Say nothing."""

    def address_string(self) -> str:
        return "a socket"


class Host:
    """A root directory with a fake systemctl and dockerd; docker's API is real HTTP on a socket."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "root"
        self.program = folder / "dockerd"
        self.socket = folder / "docker.sock"
        self.active = False
        self.started = time.time() - 3600
        self.commands: list[list[str]] = []
        (self.root / "var/lib/dpkg").mkdir(parents=True)
        self.install("")

    def install(self, version: str) -> None:
        text = f"Package: docker.io\nStatus: install ok installed\nVersion: {version}\n" if version else ""
        (self.root / "var/lib/dpkg/status").write_text(text)
        if version:
            self.program.write_text("")

    def write(self, path: str, text: str) -> None:
        place = self.root / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def run_command(self, command: list[str], **_options: Any) -> tuple[int, str, str]:
        self.commands.append(command)
        if command[0] == "systemctl":
            stamp = time.strftime("%a %Y-%m-%d %H:%M:%S UTC", time.gmtime(self.started))
            flags = "{ path=/usr/sbin/dockerd ; argv[]=/usr/sbin/dockerd -H fd:// $DOCKER_OPTS ; ignore_errors=no }"
            active = "active" if self.active else "inactive"
            enabled = "enabled" if self.active else "disabled"
            shown = f"ActiveState={active}\nUnitFileState={enabled}\nActiveEnterTimestamp={stamp}\nExecStart={flags}\n"
            return (
                0,
                "\n".join(
                    f"Id={name}\nNames={name}\n{shown}" for name in command if name.endswith((".service", ".socket"))
                ),
                "",
            )
        path = next(word for word in command if word.startswith("--config-file=")).partition("=")[2]
        with open(path) as file:
            bogus = "bogus" in json.load(file)
        if bogus:
            return 1, "", UNKNOWN.format(path)
        if command[0] == "setpriv":
            return 1, "", "dockerd needs to be started with root privileges. To run dockerd in rootless mode ...\n"
        return 0, "configuration OK\n", ""


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    found = Host(tmp_path)
    monkeypatch.setattr(facts, "ROOT", str(found.root))
    monkeypatch.setattr(docker_api, "SOCKET", str(found.socket))
    for edition in PACKAGES:
        monkeypatch.setitem(docker.PROGRAMS, edition, str(found.program))
    return found


@pytest.fixture
def api(host: Host) -> Iterator[Any]:
    """Run docker's API and return its answers by their paths."""
    answers: Any = {
        "/info": {"DockerRootDir": "/var/lib/docker", "LiveRestoreEnabled": True, "Containers": 0, "Images": 0},
        "/networks": [],
        "/containers/json": [],
    }
    handler = type("Answers", (Api,), {"answers": answers})
    with socketserver.UnixStreamServer(str(host.socket), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host.active = True
        yield answers
        server.shutdown()


@pytest.fixture
def planned(host: Host) -> Run:
    def plan(**params: Any) -> dict[str, Any]:
        wanted: Any = {**PARAMS, "packages": PACKAGES, "repository": {}, "planned": {}, **params}
        found: dict[str, Any] = run(wanted, host.run_command, RULES).result()
        return found

    return plan


def variables(result: Any) -> list[str]:
    return [fault["variable"] for fault in result["requirements"]]


def direct(result: Any) -> str:
    (found,) = [finding for finding in result["findings"] if finding["id"] == "docker.direct"]
    return str(found["status"])


def test_role_firewall_is_found_by_its_rules(planned: Run, host: Host) -> None:
    host.install("26.1.5+dfsg1")
    assert direct(planned()) == "warn"
    store = Store("firewall", f"{host.root}{STORE}")
    store.keep_original(RULES, State("missing"))
    store.save({RULES: Record(State("missing"), written="1")}, "first")
    assert direct(planned()) == "pass"


def unit(result: Any) -> Any:
    return next(unit for unit in result["units"] if unit["name"] == "docker.service")


def test_a_fresh_host_is_planned_without_docker(planned: Run, host: Host) -> None:
    result = planned()
    packages = result["packages"]
    assert (packages["install"], result["installed"], result["requirements"]) == (["docker.io"], False, [])
    assert packages["files_due"]
    assert [command[0] for command in host.commands] == ["systemctl"]
    assert "enabled" not in unit(result)


@pytest.mark.parametrize(("version", "first"), [("20.10.24+dfsg1", "setpriv"), ("26.1.5+dfsg1", "dockerd")])
def test_dockerd_validates_with_the_arguments_of_its_unit(planned: Run, host: Host, version: str, first: str) -> None:
    host.install(version)

    taken = planned(daemon_options={"mtu": 1400})
    refused = planned(daemon_options={"bogus": 1})

    assert taken["requirements"] == []
    assert variables(refused) == ["docker_daemon_options"]
    assert "does not know: bogus" in refused["requirements"][0]["problem"]
    command = host.commands[1]
    assert os.path.basename(command[0]) == first
    assert "-H fd:// --config-file=" in shlex.join(command)
    assert "$DOCKER_OPTS" not in command


def test_bad_json_is_refused_by_its_file(planned: Run, host: Host) -> None:
    host.install("26.1.5")
    host.write(docker.DAEMON_JSON, '{"debug": true,}')
    assert variables(planned()) == ["/etc/docker/daemon.json"]


def test_part_of_another_role_is_merged(planned: Run, host: Host) -> None:
    host.write(f"{docker.PARTS}/nvidia_container_toolkit.json", '{"runtimes": {"nvidia": {"path": "x"}}}')
    host.write(f"{docker.PARTS}/.staged", "no part")
    assert planned()["options"]["runtimes"] == {"nvidia": {"path": "x"}}


def test_coming_part_counts_in_check_mode(planned: Run, host: Host) -> None:
    host.write(f"{docker.PARTS}/another.json", '{"debug": true}')
    coming = {"another": {}, "nvidia_container_toolkit": {"features": {"cdi": True}}}
    options = planned(coming_parts=coming)["options"]
    assert "debug" not in options
    assert options["features"] == {"cdi": True}


def test_containers_of_a_running_docker_are_read(planned: Run, host: Host, api: Any) -> None:
    host.install("26.1.5")
    api["/info"].update(Containers=2, Images=1)
    api["/containers/json"] = [{"Id": "a1"}, {"Id": "gone"}]
    api["/containers/a1/json"] = {"Name": "/train", "HostConfig": {"Runtime": "nvidia"}}

    result = planned()

    assert unit(result)["may_restart"] is False
    assert result["pending"]["waits"] == "still has older options: containers use a GPU: train"


def test_an_idle_docker_may_be_restarted(planned: Run, host: Host, api: Any) -> None:
    host.install("26.1.5")
    assert unit(planned())["may_restart"] is True


def test_a_docker_that_does_not_answer_is_not_restarted(planned: Run, host: Host) -> None:
    host.install("26.1.5")
    host.active = True
    assert unit(planned())["may_restart"] is False


def test_options_that_docker_has_loaded_need_no_restart(planned: Run, host: Host, api: Any) -> None:
    host.install("26.1.5")
    host.write(docker.DAEMON_JSON, json.dumps(planned()["options"]))
    assert "loaded" not in unit(planned())

    host.started = time.time() + 60  # since the file was written
    assert unit(planned())["loaded"] == [docker.RESTART]


@pytest.mark.parametrize("path", facts.SNAP)
def test_docker_of_snap_is_refused(planned: Run, host: Host, path: str) -> None:
    host.active = True
    host.write(path, "")
    assert variables(planned()) == ["docker_edition"]


def test_docker_of_snap_that_is_switched_off_is_none(tmp_path: Path) -> None:
    (tmp_path / "snap/docker/current").mkdir(parents=True)
    off = {"ActiveState": "inactive", "UnitFileState": "disabled"}
    assert facts.has_snap(Tree(str(tmp_path)), {})
    assert not facts.has_snap(Tree(str(tmp_path)), off)


def test_stopped_docker_of_a_swarm_gets_no_live_restore(planned: Run, host: Host) -> None:
    host.install("26.1.5+dfsg1-9")
    assert planned()["options"]["live-restore"] is True
    host.write("/var/lib/docker/swarm/docker-state.json", "{}")
    assert "live-restore" not in planned()["options"]
    # It runs, and does not answer.
    host.active = True
    assert "live-restore" not in planned()["options"]


def source_of(result: dict[str, Any]) -> str:
    files = {file["path"]: file["content"] for file in result["packages"]["files"]}
    return str(files.get(docker.SOURCE, ""))


def test_a_source_of_the_host_stays_in_use(planned: Run, host: Host) -> None:
    url = "https://repo.example/debian"
    repository = {"url": url, "key_url": "x", "fingerprints": ["A" * 40], "suite": "trixie", "architecture": "amd64"}
    assert "Suites: trixie" in source_of(planned(edition="docker-ce", repository=repository))
    host.write(
        "/etc/apt/sources.list.d/docker.list", f"deb [signed-by=/etc/apt/keyrings/docker.asc] {url}/ trixie stable\n"
    )
    assert source_of(planned(edition="docker-ce", repository=repository)) == ""


@pytest.mark.parametrize(
    ("content", "key"),
    [
        (KEY, KEY),
        (KEY.replace(b"\n\n", b"\nComment: theirs\n\n"), KEY),
        (SMUGGLED["a message before"], b""),
        (b"", b""),
    ],
    ids=["as the role writes it", "as it was downloaded", "another key next to it", "none"],
)
def test_the_key_file_holds_the_key_and_nothing_else(planned: Run, host: Host, content: bytes, key: bytes) -> None:
    repository: Any = {"url": "https://repo.example/debian", "key_url": "x", "suite": "trixie", "architecture": "amd64"}
    host.write(docker.KEY, content.decode())
    result = planned(edition="docker-ce", repository={**repository, "fingerprints": [FINGERPRINT]})
    packages = result["packages"]
    assert [file["content"] for file in packages["files"] if file["path"] == docker.KEY] == [key.decode()] * bool(key)
    download = {"url": "x", "fingerprints": [FINGERPRINT], "path": docker.KEY}
    assert packages["key"] == ({} if key else download)


def test_missing_directory_is_checked_by_its_future_disk(planned: Run, host: Host, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    result = planned(data_root=f"{tmp_path}/new/docker", free_bytes=1 << 60)
    assert variables(result) == ["docker_data_root", "docker_containerd_root"]
    assert "MiB free" in result["requirements"][0]["problem"]
    assert "a file is in the way" in planned(data_root=f"{tmp_path}/file", free_bytes=0)["requirements"][0]["problem"]


def test_a_read_only_disk_is_refused(planned: Run, host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(tmp_path)
    sealed = os.statvfs_result((*real[:8], os.ST_RDONLY, real[9]))
    monkeypatch.setattr(os, "statvfs", lambda _path: sealed)
    assert "read-only" in planned(data_root=f"{tmp_path}/docker")["requirements"][0]["problem"]


@pytest.mark.parametrize("path", [docker.MEMORY, docker.ROLE_UNITS, docker.FORMER_ROLE_UNITS])
def test_damaged_memory_is_refused_by_its_path(planned: Run, host: Host, path: str) -> None:
    host.write(path, "{")
    (refused,) = planned()["requirements"]
    assert path in refused["remedy"]


def test_data_of_a_stopped_docker_is_counted(planned: Run, host: Host, tmp_path: Path) -> None:
    host.install("26.1.5")
    host.write("/var/lib/docker/containers/c0ffee/config.v2.json", "{}")
    host.write("/var/lib/docker/image/overlay2/imagedb/content/sha256/c0ffee", "{}")
    refused = planned(data_root=f"{tmp_path}/docker", free_bytes=0)["requirements"][0]
    assert refused["variable"] == "docker_data_root"
    assert "2 containers and images in /var/lib/docker" in refused["problem"]


def test_link_as_daemon_json_is_refused(planned: Run, host: Host) -> None:
    host.write("/etc/docker/mine.json", "{}")
    (host.root / "etc/docker/daemon.json").symlink_to("mine.json")
    assert variables(planned()) == ["/etc/docker/daemon.json"]


def test_unknown_users_are_refused(planned: Run, host: Host) -> None:
    assert variables(planned(users=["root", "nobody-of-that-name"])) == ["docker_users"]


def test_absent_plans_nothing_on_an_unmanaged_host(planned: Run, host: Host) -> None:
    result = planned(state="absent")
    assert (result["units"], result["files"], result["groups"], result["requirements"]) == ([], [], [], [])


@pytest.mark.parametrize("active", [False, True])
def test_unused_units_count_as_started_by_the_role(planned: Run, host: Host, active: bool) -> None:
    host.install("26.1.5")
    status = host.root / "var/lib/dpkg/status"
    status.write_text(status.read_text() + "\nPackage: containerd\nStatus: install ok installed\nVersion: 1.7\n")
    host.active = active
    content = next(entry["content"] for entry in planned()["packages"]["files"] if entry["path"] == docker.ROLE_UNITS)
    assert json.loads(content) == ([] if active else list(docker.UNITS))


def test_record_of_units_moves_to_its_new_name(planned: Run, host: Host) -> None:
    host.install("26.1.5")
    host.write(docker.FORMER_ROLE_UNITS, '["docker.service"]')
    result = planned()
    content = {entry["path"]: entry["content"] for entry in result["packages"]["files"]}
    assert json.loads(content[docker.ROLE_UNITS]) == ["docker.service"]
    assert docker.FORMER_ROLE_UNITS not in content
    assert result["packages"]["files_due"] is True


@pytest.mark.parametrize(
    ("edition", "folder"), [("docker.io", "/usr/share/docker.io/contrib"), ("docker-ce", "/usr/bin")]
)
def test_rootless_docker_has_options_that_it_can_have(planned: Run, edition: str, folder: str) -> None:
    options = {"mtu": 1400, "storage-driver": "overlay2", "proxies": {"https-proxy": "http://a:b@proxy.example:3128"}}
    repository = {"url": "https://x", "key_url": "x", "fingerprints": [], "suite": "x", "architecture": "amd64"}
    result = planned(edition=edition, daemon_options=options, repository=repository)
    (config,) = [file["data"] for file in result["rootless_files"] if "data" in file]
    assert config["mtu"] == 1400 and not {"storage-driver", "live-restore", "proxies"} & config.keys()
    assert result["rootless_program"] == f"{folder}/dockerd-rootless.sh"
