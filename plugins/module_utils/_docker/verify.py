# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Use docker as its users do, and return what was found."""

from __future__ import annotations

import json
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.model import (
    CONTAINERD_ROOT,
    DATA_ROOT,
    named_root,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._docker.options import Options, Params
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import same_path

Outcome = tuple[int, str, str]

# The image has the host's own `sleep`: nothing is downloaded, and nothing remains.
CONTAINER = """\
set -e -o pipefail
name=rigwright-verify-$$
trap '{ docker rm -f $name; docker rmi -f $name; } >&2' EXIT
sleep=$(command -v sleep)
tar --create --dereference "$sleep" $(ldd "$sleep" | grep -o '/[^ ]*') | docker import - $name >&2
docker run --detach --name $name --publish 9 $name "$sleep" 60 >&2
docker exec $name "$sleep" 0
docker inspect $name
"""
INFO = ["docker", "info", "--format", "{{json .}}"]
# A user outside of the group docker.
OUTSIDER = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "docker", "version"]
# What answers there is the user's own: it may never end, or say too much.
ROOTLESS = """\
DOCKER_HOST="unix:///run/user/$(id -u)/docker.sock" docker info --format "{{.SecurityOptions}}" | head --bytes=65536
"""
AS_USER = ["timeout", "--kill-after=5", "30", "runuser", "-u"]


def shortened(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[: length - 3]}..."


def other_options(info: JsonObject, wanted: Options, mirrors: t.Sequence[str]) -> list[str]:
    """Return the options that dockerd has in another way than daemon.json.

    :param info: the answer of dockerd.
    :param mirrors: the mirrors of the request; without any, those of the host are not compared.
    """
    found = [mirror.rstrip("/") for mirror in (info.get("RegistryConfig") or {}).get("Mirrors") or []]
    same = {
        "live-restore": info.get("LiveRestoreEnabled", False) == wanted.get("live-restore", False),
        "log-driver": info.get("LoggingDriver", "") == wanted.get("log-driver", "json-file"),
        "data-root": same_path(named_root(info), wanted.get("data-root", DATA_ROOT)),
        "registry-mirrors": not mirrors or found == [mirror.rstrip("/") for mirror in mirrors],
    }
    return [name for name, is_same in same.items() if not is_same]


def published_address(container: JsonObject) -> str:
    """Return the address of the host on which a container's port 9 listens; empty without one."""
    ports = (container.get("NetworkSettings") or {}).get("Ports") or {}
    return str((ports.get("9/tcp") or [{}])[0].get("HostIp", ""))


class Clients:
    """The clients of docker on this host."""

    def __init__(
        self, run: t.Callable[..., Outcome], request: Params, options: Options, containerd_root: str = CONTAINERD_ROOT
    ) -> None:
        self.call = run
        self.containerd_root = containerd_root
        self.request = request
        # Of daemon.json.
        self.wanted = options
        status, text, self.silence = self._run(INFO)
        # Empty where docker does not answer.
        self.info: JsonObject = json.loads(text or "{}") if status == 0 else {}

    def findings(self) -> list[Finding]:
        rootless = [self.rootless()] if self.request["rootless_users"] and self.request["state"] == "present" else []
        return [*rootless, *self.container(), self.options(), self.socket(), self.storage()]

    def _run(self, command: list[str]) -> Outcome:
        # The variables are those of the scripts.
        return self.call(command, expand_user_and_vars=False)

    def container(self) -> list[Finding]:
        """Run a container that publishes a port."""
        status, text, error = self._run(["bash", "-c", CONTAINER])
        container = json.loads(text)[0] if status == 0 else {}
        address = published_address(container)
        wanted = self.wanted.get("ip", "")
        return [
            finding(
                "docker.run",
                "pass" if status == 0 else "fail",
                "a container ran" if status == 0 else error.strip()[-300:],
                "check `journalctl -u docker`",
            ),
            finding(
                "docker.published",
                "skip" if not container else "pass" if address in (wanted, "") or not wanted else "fail",
                f"a published port listens on {address}" if address else "no port was published",
                "check `ip` in /etc/docker/daemon.json, and whether docker was restarted since",
            ),
        ]

    def options(self) -> Finding:
        """Check that dockerd has read daemon.json."""
        others = other_options(self.info, self.wanted, self.request["registry_mirrors"]) if self.info else []
        return finding(
            "docker.options",
            "fail" if others or not self.info else "pass",
            f"docker does not answer: {self.silence.strip()}"
            if not self.info
            else f"in force differs: {', '.join(others)}"
            if others
            else f"docker {self.info.get('ServerVersion')} has the options of daemon.json",
            "run the role again; `docker info` shows the options in force",
        )

    def socket(self) -> Finding:
        """Check that a user outside the group docker cannot use docker's socket."""
        status, _text, error = self._run(OUTSIDER)
        last = (error.strip().splitlines() or [""])[-1]
        return finding(
            "docker.socket",
            "pass" if status != 0 and "permission denied" in error else "fail",
            "everybody on this host can use docker"
            if status == 0
            else f"a user outside the group gets: {shortened(last, 200)}",
            "check `ls -l /run/docker.sock`: owner root, group docker, mode 0660",
        )

    def rootless(self) -> Finding:
        """Check that each user of rootless docker has a docker without the rights of root."""
        users = self.request["rootless_users"]
        lacking = [
            user for user in users if "name=rootless" not in self._run([*AS_USER, user, "--", "sh", "-c", ROOTLESS])[1]
        ]
        return finding(
            "docker.rootless",
            "fail" if lacking else "pass",
            f"no docker of their own: {', '.join(lacking)}"
            if lacking
            else f"these have a docker of their own: {', '.join(users)}",
            "as this user: `journalctl --user -u docker`",
        )

    def storage(self) -> Finding:
        """Check that docker's data, and containerd's where that has the images, is on its disk."""
        root = self.info.get("DockerRootDir", "an unknown place")
        places = {"data": root, **({"images": self.containerd_root} if keeps_images_in_containerd(self.info) else {})}
        mounts = {content: self._mount_of(path) for content, path in places.items()}
        on_root = [content for content, mount in mounts.items() if mount[:1] == ["/"]]
        # A disk of its own is named by the variable, or by the host's own daemon.json.
        apart = bool(self.request["data_root"]) or len(on_root) < len(places)
        return finding(
            "docker.storage",
            "skip" if not self.info else "warn" if on_root and apart else "pass",
            "; ".join(f"{content} in {path}, on {' '.join(mounts[content])} free" for content, path in places.items()),
            "mount the disk of docker_data_root: the data is on the root file system"
            if "data" in on_root
            else "name both directories, docker_data_root and docker_containerd_root: docker fills the second one",
        )

    def _mount_of(self, path: str) -> list[str]:
        columns = ["--noheadings", "--output", "TARGET,FSTYPE,AVAIL"]
        return self._run(["findmnt", *columns, "--target", path])[1].split()


def keeps_images_in_containerd(info: JsonObject) -> bool:
    """Return whether the images are in the directory of the host's containerd, as since docker 29."""
    drivers = [value for _key, value in info.get("DriverStatus") or []]
    # A containerd that dockerd starts itself is inside of docker's own directory.
    address = str((info.get("Containerd") or {}).get("Address", ""))
    return "io.containerd.snapshotter.v1" in drivers and "/docker/" not in address


def findings(run: t.Callable[..., Outcome], request: Params, plan: t.Mapping[str, t.Any]) -> list[Finding]:
    """Return the findings of the plan and of the clients."""
    options = {"data-root": plan["data_root"], **plan["options"]}
    return [*plan["findings"], *Clients(run, request, options, plan["containerd_root"]).findings()]
