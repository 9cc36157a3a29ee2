# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The units of the backups, as text: a service and a timer for everything that runs regularly.

Each runs as an unprivileged user. The unit that reads all files has only the capability for that. The drill has those for restoring;
maintenance has none. Secrets are credentials of systemd, which only the unit reads.
"""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.config import Config, Target
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.state import (
    CHECK,
    DRILL,
    FORGET,
    PRUNE,
    RUN,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.mounts import is_within

PROGRAM = "/usr/local/sbin/rigwright-backup"
FOLDER = "/etc/systemd/system"
SECRETS = "/etc/rigwright/backup"

DESCRIPTIONS = {
    RUN: "Back up {}",
    FORGET: "Forget old snapshots of {}",
    DRILL: "Restore files of {} and compare them",
    CHECK: "Check the repository {}",
    PRUNE: "Free room in the repository {}",
}
_RIGHTS = {
    RUN: ("CAP_DAC_READ_SEARCH",),
    DRILL: (
        "CAP_CHOWN",
        "CAP_DAC_OVERRIDE",
        "CAP_DAC_READ_SEARCH",
        "CAP_FOWNER",
        "CAP_FSETID",
        "CAP_MKNOD",
        "CAP_SETFCAP",
    ),
}


def name(verb: str, subject: str, kind: str = "service") -> str:
    return f"rigwright-backup-{verb}-{subject}.{kind}"


def quoted(text: str) -> str:
    """Quote a word for systemd. A line break is refused before (_backup/checks.py)."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%")
    return f'"{escaped}"' if not text or any(letter in text for letter in " \t\"'\\;") else escaped


def credentials(target: Target, secrets: t.Iterable[str]) -> list[str]:
    """Return the credentials of a repository, by the names that the program uses."""
    files = {kind: f"{SECRETS}/{target.name}.{kind}" for kind in sorted({*secrets, "password"})}
    if target.password_file:
        files["password"] = target.password_file
    # The path is the rest of the line: blanks and quotes are part of it.
    return [
        "LoadCredential=backup.json:/etc/rigwright/backup.json",
        *(f"LoadCredential={target.name}.{kind}:{path.replace('%', '%%')}" for kind, path in files.items()),
    ]


def service(
    config: Config, verb: str, subject: str, secrets: t.Mapping[str, t.Iterable[str]], hardening: str, header: str
) -> str:
    """Return the text of a service.

    :param secrets: the kinds of secret files by repository.
    """
    job = config.jobs.get(subject) if verb in (RUN, FORGET, DRILL) else None
    target = config.repositories[job.repository if job else subject]
    call = f"{{}}{PROGRAM} step {{}} {verb} {subject}"
    lines = [
        header.rstrip("\n"),
        "[Unit]",
        f"Description={DESCRIPTIONS[verb].format(subject)}",
        "Documentation=https://restic.readthedocs.io/",
    ]
    if not target.local_path:
        lines += ["Wants=network-online.target", "After=network-online.target"]
    if verb != FORGET:
        lines += ["# It would empty a battery.", "ConditionACPower=true"]
    if config.reports_failures:
        lines.append("OnFailure=rigwright-backup-failed@%n.service")
    lines += ["", "[Service]", "Type=oneshot", f"User={config.user}"]
    if target.password_file or (job and verb == RUN and (job.pre or (job.paths and config.manifest))):
        lines += [
            "# As root, as all steps with a plus are: hooks stop containers, and the manifest looks at disks.",
            f"ExecStartPre={call.format('+', 'pre')}",
        ]
    if job and verb == RUN and job.dumps:
        lines.append(f"ExecStart={call.format('+', 'dumps')}")
    lines += [
        f"ExecStart={call.format('', 'main')}",
        "# However it ended, also by a kill: cleanup, state, metrics.",
        f"ExecStopPost={call.format('+', 'end')}",
        "TimeoutStartSec=infinity",
        "# The hooks of the end have limits of their own.",
        "TimeoutStopSec=infinity",
        "# Behind all other work, but never wholly without processor: a machine that trains for weeks is never idle.",
        "Nice=19",
        "IOSchedulingClass=idle",
        f"RuntimeDirectory=rigwright_backup/{verb}-{subject}",
        "RuntimeDirectoryMode=0750",
        "CacheDirectory=rigwright_backup",
        "CacheDirectoryMode=0700",
        *credentials(target, secrets[target.name]),
        hardening.rstrip("\n"),
        "# Go asks for more open files as it starts, and goes on without.",
        "SystemCallErrorNumber=EPERM",
        *_rights(verb, target),
    ]
    return "\n".join(lines) + "\n"


def _rights(verb: str, target: Target) -> t.Iterator[str]:
    rights = _RIGHTS.get(verb)
    if rights:
        yield f"AmbientCapabilities={' '.join(rights)}"
        yield f"CapabilityBoundingSet={' '.join(rights)}"
    if verb == RUN:
        yield "# All files are there to be read, and none to be written."
        yield "ProtectHome=read-only"
        yield "PrivateTmp=no"
        yield "# It hides /usr/lib/modules, without which no machine is built again."
        yield "ProtectKernelModules=no"
    if verb == DRILL:
        yield "# What it restores may be anybody's, have the set-user-ID bit, or be a device."
        yield "RestrictSUIDSGID=no"
        yield "SystemCallFilter=@chown mknod mknodat"
    if target.local_path:
        yield "# The repository is on this machine."
        yield f"ReadWritePaths={quoted('-' + target.local_path)}"
        if any(is_within(target.local_path, place) for place in ("/home", "/root", "/run/user")):
            yield "ProtectHome=no"
        # Unlike PrivateNetwork this leaves the hooks of root what they need.
        yield "RestrictAddressFamilies="
        yield "RestrictAddressFamilies=AF_UNIX"


def timer(verb: str, subject: str, schedule: str, delay_s: int, header: str) -> str:
    """Return the text of a timer."""
    return "\n".join(
        [
            header.rstrip("\n"),
            "[Unit]",
            f"Description={DESCRIPTIONS[verb].format(subject)}",
            "",
            "[Timer]",
            f"OnCalendar={schedule}",
            "# What was missed while the machine was off is made up for.",
            "Persistent=true",
            f"RandomizedDelaySec={delay_s}",
            "",
            "[Install]",
            "WantedBy=timers.target",
            "",
        ]
    )


def notifier(config: Config, hardening: str, header: str) -> str:
    """Return the unit that reports a failed unit; its name is the last argument of each command."""
    commands = []
    if config.notify:
        commands += [
            "# As root, who may write to the socket of the notifier. The other command runs in any case.",
            f"ExecStart=-+{PROGRAM} report %i",
        ]
    if config.notify_command:
        commands.append(f"ExecStart={' '.join(quoted(word).replace('$', '$$') for word in config.notify_command)} %i")
    return "\n".join(
        [
            header.rstrip("\n"),
            "[Unit]",
            "Description=Report that %i has failed",
            "Wants=network-online.target",
            "After=network-online.target",
            "",
            "[Service]",
            "Type=oneshot",
            "DynamicUser=yes",
            *commands,
            "TimeoutStartSec=120",
            hardening.rstrip("\n"),
            "",
        ]
    )
