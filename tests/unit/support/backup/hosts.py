# SPDX-License-Identifier: GPL-3.0-or-later
"""A host with backups in a temporary directory: the real restic, real files with all that they can have, and the program's own steps.

Which restic: that of the PATH, or what RIGWRIGHT_RESTIC names; slow tests have the pinned release besides.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import struct
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import cli as program
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import hooks
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import retention as keeping
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import state as states
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import step_files as leaving
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.request import separate
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import Restic
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.depot import restic_releases
from harness.sandbox.lab import Refusal
from tests.unit.support.backup.restic_keys import weaken

CHECKOUT = Path(__file__).parents[4]
PASSWORD = "correct horse battery"
MOUNTS = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"


@functools.cache
def restic() -> str:
    """Return the restic of this machine; without it most tests fail, since they would prove nothing."""
    found = os.environ.get("RIGWRIGHT_RESTIC") or shutil.which("restic")
    if not found:
        raise Refusal("There is no restic on this machine: script/bootstrap --dev installs it")
    return found


def pinned_restic() -> str:
    """Return the release that the role installs on request."""
    return str(restic_releases.program())


# For what versions do each in their own way. What the pinned one does is also seen on Debian 13 in molecule/backup.
EACH_RESTIC = [
    pytest.param(restic, id="own"),
    pytest.param(pinned_restic, id="pinned", marks=pytest.mark.slow("compiles restic, and runs all once more")),
]


@functools.cache
def empty_repository(program: str) -> Path:
    """Return a fresh repository, made once in this process, whose weak key opens at once."""
    folder = Path(tempfile.mkdtemp(prefix="rigwright-restic-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    environment = {**os.environ, "RESTIC_PASSWORD": PASSWORD}
    subprocess.run(
        [program, "init", "--no-cache", "--repo", str(folder / "repository")],
        env=environment,
        check=True,
        capture_output=True,
    )
    weaken(folder / "repository", PASSWORD)
    return folder / "repository"


@dataclass
class Host:
    """A host whose job `home` goes into the repository `disk`."""

    root: Path
    restic: str
    address: str = ""
    job: Any = field(default_factory=dict)
    settings: Any = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.place = configuration.Place(
            **{
                name: str(self.root / name)
                for name in ("config", "secrets", "state", "run", "cache", "mountinfo", "fstab", "machine_id")
            }
        )
        for name in ("secrets", "state", "run", "source", "textfile"):
            (self.root / name).mkdir(parents=True)
        for verb, subject in [
            *((verb, "home") for verb in states.OF_JOBS),
            *((verb, "disk") for verb in states.OF_REPOSITORIES),
        ]:
            Path(leaving.folder(self.place, verb, subject)).mkdir()
        self.write("mountinfo", MOUNTS)
        self.write("fstab", "")
        self.write("machine_id", "a" * 32 + "\n")
        self.write("secrets/disk.address", self.address or str(self.root / "repository"))
        self.write("secrets/disk.password", PASSWORD + "\n")
        self.configure()

    @property
    def source(self) -> Path:
        return self.root / "source"

    def write(self, name: str, text: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def configure(self, **settings: Any) -> None:
        """Write what the role would, with a job changed by `job`, or a setting by another keyword."""
        self.job.update(settings.pop("job", {}))
        self.settings.update(settings)
        job = {
            "name": "home",
            "repository": "disk",
            "host": "ws",
            "paths": [str(self.source)],
            "retention": {"last": 2},
        }
        whole = {
            "program": self.restic,
            "textfile_directory": str(self.root / "textfile"),
            "retry_lock_s": 0,
            "check_parts": 1,
            "repositories": [{"name": "disk"}],
            "jobs": [{**job, **self.job}],
            **self.settings,
        }
        self.write("secrets/commands.json", hooks.text(whole["jobs"]))
        self.write("config", json.dumps({**whole, "jobs": hooks.public(whole["jobs"])}))

    @property
    def config(self) -> configuration.Config:
        return configuration.read(self.place)

    def open(self) -> Restic:
        restic = configuration.open_repository(self.config, self.place, "disk")
        restic.user, restic.cache = "", self.place.cache
        return restic

    def init(self) -> None:
        shutil.copytree(empty_repository(self.restic), self.root / "repository")

    def ask(self, *message: str) -> str:
        """Run restic itself, which has to succeed; return its output."""
        done = self.open().run(*message)
        assert done.rc == 0, done.err
        return done.out

    def do(self, verb: str, **environment: str) -> Any:
        """Run a unit to its end as systemd does; return the state that it leaves."""
        subject = "disk" if verb in states.OF_REPOSITORIES else "home"
        folder = Path(leaving.folder(self.place, verb, subject))
        rc = program.step(self.config, self.place, "pre", verb, subject)
        if not rc and verb == states.RUN and self.job.get("dumps"):
            rc = program.step(self.config, self.place, "dumps", verb, subject)
        if not rc:
            rc = program.step(self.config, self.place, "main", verb, subject)
        ended = {"SERVICE_RESULT": "exit-code" if rc else "success", "EXIT_STATUS": str(rc), **environment}
        with pytest.MonkeyPatch.context() as patch:
            for name, value in ended.items():
                patch.setenv(name, value)
            program.step(self.config, self.place, "end", verb, subject)
        shutil.rmtree(folder)
        folder.mkdir()
        return self.state(verb)

    def state(self, verb: str) -> Any:
        subject = "disk" if verb in states.OF_REPOSITORIES else "home"
        return states.read_state(self.place, verb, subject)

    def snapshots(self) -> list[keeping.Snapshot]:
        return keeping.parse_snapshots(self.ask("snapshots", "--json", "--no-lock"))

    def restored(self, snapshot: str, to: str = "restored") -> Path:
        """Restore a whole snapshot with restic alone."""
        target = self.root / to
        shutil.rmtree(target, ignore_errors=True)
        restic = self.open()
        self.ask("restore", snapshot, "--target", str(target), *(["--sparse"] if restic.has("sparse") else []))
        return target

    def metric(self, name: str) -> float | None:
        text = (self.root / "textfile" / states.TEXTFILE).read_text()
        rows = [line for line in text.splitlines() if line.startswith(f"rigwright_backup_{name}{{")]
        return float(rows[0].rpartition(" ")[2]) if rows else None


def fill(folder: Path) -> None:
    """Create files with everything that a bad backup loses."""
    (folder / "plain").write_bytes(os.urandom(200_000))
    (folder / "odd\nname [x] *?\\ é").write_text("odd")
    os.fsencode(folder)
    (Path(os.fsdecode(os.fsencode(folder) + b"/not utf-8 \xff"))).write_text("bytes")
    (folder / "-dash").write_text("dash")
    (folder / "linked").write_text("one file")
    os.link(folder / "linked", folder / "the same")
    os.symlink("nowhere/at all", folder / "dangling")
    os.mkfifo(folder / "fifo")
    with (folder / "sparse").open("wb") as file:
        file.seek(8 << 20)
        file.write(b"end")
    (folder / "program").write_text("#!/bin/sh\n")
    (folder / "program").chmod(0o4755)
    os.setxattr(folder / "program", "user.comment", b"kept")
    (folder / "capable").write_text("ping")
    # VFS_CAP_REVISION_2 with the effective bit: cap_net_raw+ep.
    os.setxattr(folder / "capable", "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
    (folder / "shared").write_text("ACL")
    acl = struct.pack("<I", 2)
    for tag, rights, who in ((1, 6, -1), (2, 6, 1234), (4, 4, -1), (0x10, 6, -1), (0x20, 4, -1)):
        acl += struct.pack("<HHi", tag, rights, who)
    os.setxattr(folder / "shared", "system.posix_acl_access", acl)
    (folder / "theirs").write_text("theirs")
    os.chown(folder / "theirs", 1234, 4321)
    (folder / "deep/er").mkdir(parents=True)
    (folder / "deep/er/file").write_text("deep")


def flip_a_byte(path: Path) -> None:
    """Flip a byte, as a bad disk does."""
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.chmod(0o600)
    path.write_bytes(content)


def same(before: Path, after: Path) -> list[str]:
    """Return the differences between two trees, in all attributes."""
    from ansible_collections.rigwright.workstation.plugins.module_utils._backup.sample import describe, differences

    names = sorted({str(path.relative_to(root)) for root in (before, after) for path in root.rglob("*")})
    found = []
    for name in names:
        if not os.path.lexists(before / name) or not os.path.lexists(after / name):
            found.append(f"{name} is in one of them")
            continue
        found += [
            f"{name} {message}" for message in differences(describe(str(before / name)), describe(str(after / name)))
        ]
    return found


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


CONTEXT: Any = {
    "packages": {"restic": ["restic"], "sftp": ["openssh-client"]},
    "program": "/usr/bin/restic",
    "release": {"version": "", "url": "", "checksum": "", "requirements": []},
    "hardening": "NoNewPrivileges=yes",
    "header": "#",
    "notify": False,
}


def options(**changes: Any) -> Any:
    """Return the options of the role without its prefix; a repository is given by its differences from a default."""
    disk = {"name": "disk", "url": "/backup/ws", "password": PASSWORD}
    return {
        "host": "ws",
        "textfile_directory": "",
        "jobs": [{"name": "home", "paths": ["/home"]}],
        **changes,
        "repositories": [{**disk, **entry} for entry in changes.get("repositories", [{}])],
    }


def whole_request(**changes: Any) -> Any:
    """Return what the action plan hands to the plan module, as the plan module has it: secrets, context and all defaults."""
    specs = options_of(str(CHECKOUT / "roles/backup"))
    context = {**CONTEXT, **{name: changes.pop(name) for name in CONTEXT if name in changes}}
    wanted = {f"backup_{name}": value for name, value in options(**changes).items()}
    request, secrets = request_of("backup", specs, wanted)
    return {**request, **secrets, **context}


def request(**changes: Any) -> Any:
    """Return the request of the role without its secrets."""
    return separate(whole_request(**changes)).request
