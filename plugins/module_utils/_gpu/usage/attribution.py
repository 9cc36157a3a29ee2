# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Attribute a process to a user and to the kind of work that started it, by its control group and its uid. Pure.

The outermost part of the control group decides. Root has made it, and a user can name only the groups below their own slice.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

SSH, SESSION, CONTAINER, UNIT, JUPYTER = "ssh", "session", "container", "unit", "jupyter"
SLURM, KUBERNETES, SYSTEM, UNKNOWN = "slurm", "kubernetes", "system", "unknown"
# A process has several groups under cgroup v1, one for each controller. The first of these kinds wins.
KINDS = (SLURM, KUBERNETES, CONTAINER, JUPYTER, UNIT, SSH, SESSION, SYSTEM, UNKNOWN)

# UIDs of people (login.defs(5)), without those of systemd's dynamic users and of nobody.
_FIRST_PERSON, _DYNAMIC = 1000, range(61184, 65536)
_SHORT_ID = 12

_ID = r"[0-9a-f]{64}"
_USER_SLICE = re.compile(r"user-(\d+)\.slice")
_SESSION = re.compile(r"session-([^/.]+)\.scope")
_CONTAINER = re.compile(rf"(?:docker|libpod|crio|nerdctl|cri-containerd)-({_ID})(?:\.scope)?")
# Parents with the plain id of a container below them: docker and podman without systemd, and containerd.
_PARENTS = re.compile(r"docker|libpod_parent|containerd|default|k8s\.io")
_MACHINE = re.compile(r"(?:machine-|lxc\.payload\.)(.+?)(?:\.scope)?")
_PODS = re.compile(r"(?:kubelet-)?kubepods(?:\.slice)?")
_POD = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[-_]?[0-9a-f_-]{23,27})(?:\.slice)?")
_SLURM = re.compile(r"slurm(?:_[\w-]+)?|(?:[\w-]+_)?slurmstepd\.scope")
_JOB = re.compile(r"job_(\d+)")
_SLURM_UID = re.compile(r"uid_(\d+)")
_JUPYTER = re.compile(r"jupyter-(.+?)(?:-singleuser)?\.service")
_UNIT = re.compile(r".+\.(?:service|scope)")
# System units of root that make the groups of others below their own.
_ENGINES = re.compile(r"(?:docker|containerd|k3s|k3s-agent|kubelet|rke2-server|rke2-agent|crio|slurmd)\.service")


@dataclasses.dataclass(frozen=True)
class Owner:
    """The user of a process, empty where nobody knows, and what started it."""

    user: str
    uid: int | None
    kind: str
    name: str = ""


NOBODY = Owner("", None, UNKNOWN)


@dataclasses.dataclass(frozen=True)
class Names:
    """What a host knows by name.

    :param users: the name of a uid; empty for none.
    :param services: the PAM service of a login session, such as ``sshd``, by its id; empty for none.
    :param containers: ``name`` and ``user`` of a running container, by its id.
    """

    users: t.Callable[[int], str]
    services: t.Callable[[str], str] = lambda _session: ""
    containers: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)


def attribute(groups: str, uid: int, names: Names) -> Owner:
    """Return the owner of a process.

    :param groups: the text of ``/proc/PID/cgroup``, of cgroup v1, v2 or both.
    :param uid: the real uid of the process.
    """
    found = [_of_path(path, uid, names) for path in paths_of(groups)]
    return min(found, key=lambda owner: KINDS.index(owner.kind), default=_known(uid, UNKNOWN, "", names))


def paths_of(groups: str) -> list[str]:
    """Return the distinct paths of a process, without the root of a hierarchy."""
    # The kernel refuses a line feed alone: any other line break of Unicode is a part of a name that a user has chosen.
    rows = [line.split(":", 2) for line in groups.split("\n")]
    return list(dict.fromkeys(row[2] for row in rows if len(row) == 3 and row[2].strip("/.")))


def _of_path(path: str, uid: int, names: Names) -> Owner:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    for number, part in enumerate(parts):
        below = parts[number + 1 :]
        slice_of = _USER_SLICE.fullmatch(part)
        if slice_of:
            return _of_user(int(slice_of[1]), below, names)
        if _SLURM.fullmatch(part):
            return _of_slurm(below, uid, names)
        if _PODS.fullmatch(part):
            return Owner("", None, KUBERNETES, _first(_POD, below).replace("_", "-"))
        identifier = _container(part, below)
        if identifier:
            return _of_container(identifier, uid, names)
        jupyter = _JUPYTER.fullmatch(part)
        if jupyter:
            return _of_jupyter(jupyter[1], part, uid, names)
        if _UNIT.fullmatch(part) and not (_ENGINES.fullmatch(part) and below):
            return _known(uid, SYSTEM, part, names)
    return _known(uid, UNKNOWN, "", names)


def _of_user(uid: int, below: t.Sequence[str], names: Names) -> Owner:
    """Return an owner below the slice of a user: whatever the groups there are called, they are this user's."""
    for number, part in enumerate(below):
        session = _SESSION.fullmatch(part)
        if session:
            kind = SSH if names.services(session[1]).startswith("ssh") else SESSION
            return _known(uid, kind, "", names)
        identifier = _container(part, below[number + 1 :])
        if identifier:
            name = names.containers.get(identifier, {}).get("name") or identifier[:_SHORT_ID]
            return _known(uid, CONTAINER, name, names)
        if _UNIT.fullmatch(part) and part != f"user@{uid}.service":
            return _known(uid, JUPYTER if _JUPYTER.fullmatch(part) else UNIT, part, names)
    return _known(uid, UNIT if below else UNKNOWN, "", names)


def _of_slurm(below: t.Sequence[str], uid: int, names: Names) -> Owner:
    named = _first(_SLURM_UID, below)
    return _known(int(named) if named else uid, SLURM, _first(_JOB, below), names)


def _of_container(identifier: str, uid: int, names: Names) -> Owner:
    entry = names.containers.get(identifier, {})
    name = entry.get("name") or identifier[:_SHORT_ID]
    if entry.get("user"):
        return Owner(entry["user"], None, CONTAINER, name)
    # Root and the service users of an image are nobody's account on the host.
    return _person(uid, CONTAINER, name, names)


def _of_jupyter(label: str, unit: str, uid: int, names: Names) -> Owner:
    owner = _person(uid, JUPYTER, unit, names)
    # A spawner with dynamic users: the hub, which is a system service, has named the unit.
    return owner if owner.user else Owner(label, None, JUPYTER, unit)


def _container(part: str, below: t.Sequence[str]) -> str:
    match = _CONTAINER.fullmatch(part)
    if match:
        return match[1]
    if _PARENTS.fullmatch(part) and below:
        match = re.fullmatch(rf"(?:libpod-)?({_ID})", below[0])
        return match[1] if match else ""
    match = _MACHINE.fullmatch(part)
    return match[1] if match else ""


def _first(pattern: re.Pattern[str], parts: t.Iterable[str]) -> str:
    return next((match[1] for match in map(pattern.fullmatch, parts) if match), "")


def _known(uid: int, kind: str, name: str, names: Names) -> Owner:
    return Owner(names.users(uid) or str(uid), uid, kind, name)


def _person(uid: int, kind: str, name: str, names: Names) -> Owner:
    user = names.users(uid) if uid >= _FIRST_PERSON and uid not in _DYNAMIC else ""
    return Owner(user, uid if user else None, kind, name)
