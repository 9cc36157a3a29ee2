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
# The plain id is that of docker and podman without systemd, of containerd, and below any other parent (`--cgroup-parent`, ECS).
_CONTAINER = re.compile(
    rf"(?:[^:]*:(?:docker|cri-containerd|nerdctl):|(?:docker|libpod|crio|nerdctl|cri-containerd)-)?({_ID})(?:\.scope)?"
)
# A container of podman in a unit of its own (`--cgroups=split`, Quadlet).
_PAYLOAD = re.compile(rf"libpod-payload-({_ID})")
_MACHINE = re.compile(r"machine-(.+)\.scope|lxc\.payload\.(.+)|systemd-nspawn@(.+)\.service")
# Parents with the name of a container below them: LXC before 4, Proxmox, and the builds of docker.
_PARENT = re.compile(r"lxc(?:\.payload)?|buildkit")
# systemd writes a dash of a name as this in the name of a unit (systemd-escape(1)).
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
# containerd without systemd writes `kubepods-podUID.slice:cri-containerd:ID` as one name.
_PODS = re.compile(r"(?:kubelet-)?kubepods(?:[.-].*)?")
_POD = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[-_]?[0-9a-f_-]{23,27})(?:\.slice(?::.*)?)?")
_SLURM = re.compile(r"slurm(?:_[\w-]+)?|(?:[\w-]+_)?slurmstepd\.scope")
# The number of a job; from Slurm 26.05 on, the id of its record.
_JOB = re.compile(r"job_(\d+)|(s[0-9A-Z]{8,20})")
_SLURM_UID = re.compile(r"uid_(\d+)")
_JUPYTER = re.compile(r"jupyter-(.+?)(?:-singleuser)?\.service")
_UNIT = re.compile(r".+\.(?:service|scope)")
# System units of root that make the groups of others below their own.
_ENGINES = re.compile(r"(?:docker|containerd|k3s|k3s-agent|kubelet|rke2-server|rke2-agent|crio|slurmd)\.service")
# The first groups that systemd makes: below another one they are those of a guest.
_FIRST_SLICES = ("user.slice", "system.slice")


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
    :param containers: ``name``, ``user`` (label) and ``uid`` (``docker run --user``) of a running container, by its id.
    :param uids: the uid of a name; None for none.
    :param subordinate: the text of ``/etc/subuid``.
    """

    users: t.Callable[[int], str]
    services: t.Callable[[str], str] = lambda _session: ""
    containers: t.Mapping[str, t.Mapping[str, str]] = dataclasses.field(default_factory=dict)
    uids: t.Callable[[str], int | None] = lambda _name: None
    subordinate: str = ""


@dataclasses.dataclass(frozen=True)
class _Process:
    """What the kernel says of a process: its real uid, and the user who logged in (None for none)."""

    uid: int
    login: int | None
    names: Names


def attribute(groups: str, uid: int, names: Names, login: int | None = None) -> Owner:
    """Return the owner of a process.

    :param groups: the text of ``/proc/PID/cgroup``, of cgroup v1, v2 or both.
    :param uid: the real uid of the process.
    :param login: the uid in ``/proc/PID/loginuid``, which no user can change; None where nobody logged in.
    """
    process = _Process(uid, login, names)
    found = [_of_path(path, process) for path in paths_of(groups)]
    return min(found, key=lambda owner: KINDS.index(owner.kind), default=_known(process, UNKNOWN, ""))


def paths_of(groups: str) -> list[str]:
    """Return the distinct paths of a process, without the root of a hierarchy."""
    # The kernel refuses a line feed alone: any other line break of Unicode is a part of a name that a user has chosen.
    rows = [line.split(":", 2) for line in groups.split("\n")]
    return list(dict.fromkeys(row[2] for row in rows if len(row) == 3 and row[2].strip("/.")))


def _of_path(path: str, process: _Process) -> Owner:
    parts = [part for part in path.split("/") if part not in ("", "..")]
    slice_of = _USER_SLICE.fullmatch("".join(parts[1:2]))
    if slice_of and parts[0] == _FIRST_SLICES[0]:
        return _of_user(int(slice_of[1]), parts[2:], process.names)
    for number, part in enumerate(parts):
        below = parts[number + 1 :]
        if _SLURM.fullmatch(part):
            return _of_slurm(below, process)
        if _PODS.fullmatch(part):
            return Owner("", None, KUBERNETES, _first(_POD, parts[number:]).replace("_", "-"))
        identifier = _container(part, below)
        if identifier:
            return _of_container(identifier, process.names.containers.get(identifier, {}), process)
        jupyter = _JUPYTER.fullmatch(part)
        if jupyter:
            return _of_jupyter(jupyter[1], part, process)
        if _UNIT.fullmatch(part) and not (_ENGINES.fullmatch(part) and below):
            # The user of the unit may have made the groups below: they name no other container.
            payload = _first(_PAYLOAD, below)
            return _of_container(payload, {}, process) if payload else _known(process, SYSTEM, part)
        if number and part in _FIRST_SLICES:
            # A guest of an unknown kind: its uids are not those of the host.
            return Owner("", None, UNKNOWN, parts[0])
    return _known(process, UNKNOWN, "")


def _of_user(uid: int, below: t.Sequence[str], names: Names) -> Owner:
    """Return an owner below the slice of a user: whatever the groups there are called, they are this user's."""
    process = _Process(uid, None, names)
    for number, part in enumerate(below):
        session = _SESSION.fullmatch(part)
        if session:
            kind = SSH if names.services(session[1]).startswith("ssh") else SESSION
            return _known(process, kind, "")
        identifier = _container(part, below[number + 1 :])
        if identifier:
            return _known(process, CONTAINER, names.containers.get(identifier, {}).get("name") or _shown(identifier))
        if _UNIT.fullmatch(part) and part != f"user@{uid}.service":
            return _known(process, JUPYTER if _JUPYTER.fullmatch(part) else UNIT, part)
    return _known(process, UNIT if below else UNKNOWN, "")


def _of_slurm(below: t.Sequence[str], process: _Process) -> Owner:
    named = _first(_SLURM_UID, below)
    owner = dataclasses.replace(process, uid=int(named)) if named else process
    return _known(owner, SLURM, _first(_JOB, below))


def _of_container(identifier: str, entry: t.Mapping[str, str], process: _Process) -> Owner:
    """Return the owner of a container: its label, the user who started it, or nobody.

    The uids in a container are those of its image: uid 1000 in it says nothing about the account 1000 of the host.
    """
    name = entry.get("name") or _shown(identifier)
    label = entry.get("user", "")
    if label.isdecimal() and process.names.uids(label) is None:
        # `--label rigwright.user=$UID`
        label = process.names.users(int(label)) or label
    if label:
        uid = process.names.uids(label)
        return Owner(label, uid, CONTAINER, name)
    uids = [process.uid] if entry.get("uid") == str(process.uid) else []
    for uid in [*uids, *([] if process.login is None else [process.login])]:
        owner = _person(uid, CONTAINER, name, process.names)
        if owner.user:
            return owner
    return Owner("", None, CONTAINER, name)


def _of_jupyter(label: str, unit: str, process: _Process) -> Owner:
    owner = _person(process.uid, JUPYTER, unit, process.names)
    # A spawner with dynamic users: the hub, which is a system service, has named the unit.
    return owner if owner.user else Owner(label, None, JUPYTER, unit)


def _container(part: str, below: t.Sequence[str]) -> str:
    if _PARENT.fullmatch(part) and below:
        return below[0]
    match = _CONTAINER.fullmatch(part) or _PAYLOAD.fullmatch(part) or _MACHINE.fullmatch(part)
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), _group(match)) if match else ""


def _first(pattern: re.Pattern[str], parts: t.Iterable[str]) -> str:
    return next((_group(match) for match in map(pattern.fullmatch, parts) if match), "")


def _group(match: re.Match[str]) -> str:
    return next(filter(None, match.groups()), "")


def _shown(identifier: str) -> str:
    """Return an id as docker shortens it, and the whole name of a machine."""
    return identifier[:_SHORT_ID] if re.fullmatch(_ID, identifier) else identifier


def _known(process: _Process, kind: str, name: str) -> Owner:
    """Return the owner of a process of the host: its account; for a subordinate uid the user who logged in, or who has the range."""
    names = process.names
    if names.users(process.uid):
        return Owner(names.users(process.uid), process.uid, kind, name)
    found = {process.login} if process.login is not None else _owners_of(process.uid, names)
    if len(found) > 1 or None in found:
        return Owner("", None, kind, name)
    uid = next(iter(found), process.uid)
    return Owner(names.users(t.cast(int, uid)) or str(uid), uid, kind, name)


def _owners_of(uid: int, names: Names) -> set[int | None]:
    """Return the users who have a subordinate uid by ``/etc/subuid``: several where ranges overlap, None for one without an account."""
    found: set[int | None] = set()
    for line in names.subordinate.split("\n"):
        user, first, count = ([field.strip() for field in line.split(":")] + ["", "", ""])[:3]
        if first.isdecimal() and count.isdecimal() and int(first) <= uid < int(first) + int(count):
            number = names.uids(user)
            found.add(int(user) if number is None and user.isdecimal() else number)
    return found


def _person(uid: int, kind: str, name: str, names: Names) -> Owner:
    user = names.users(uid) if uid >= _FIRST_PERSON and uid not in _DYNAMIC else ""
    return Owner(user, uid if user else None, kind, name)
