"""The bare-metal drill: make a machine, back it up, lose it, build it again on other disks by the playbook, and boot it to a login.

python -m harness bare-metal debian12-bios      one of the four drills; without a name, all of them
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.progress import say, step
from harness.sandbox import engine
from harness.sandbox.lab import ROOT, Refusal
from harness.vm import qemu, systems
from harness.vm.machine import play
from harness.vm.qemu import Disk, Machine, running
from harness.vm.systems import FILES, Drill

PLAYBOOK = ROOT / "playbooks" / "bare_metal_restore.yml"
# A disk that is neither empty nor large enough.
SPARE = "SPARE"
PASSWORD = "drill"  # noqa: S105 - of a repository that is thrown away

DRILLS = {
    drill.name: drill
    for drill in (
        Drill("debian12", "bios", "dos", ((3072, 4096),), ("/",)),
        Drill("debian12", "uefi", "gpt", ((4096, 3072),), ("/", "/boot/efi")),
        Drill("debian13", "bios", "two_disks", ((3072, 4096), (1024, 768)), ("/", "/srv/www")),
        Drill("debian13", "uefi", "lvm", ((5120, 4096),), ("/", "/boot", "/boot/efi", "/home")),
    )
}

# Every run of `script/test --all` has this one.
WITH_ALL = "debian12-bios"


def back_up(drill: Drill, machine: Machine) -> dict[str, Any]:
    """Back the machine up onto a separate disk, and return its fingerprint."""
    machine.ssh(
        "mkfs.ext4 -q -L backup /dev/disk/by-id/virtio-BACKUP && mkdir -p /mnt/backup && mount LABEL=backup /mnt/backup"
    )
    with step("write the manifest"):
        play(machine, str(FILES / "manifest.yml"))
    with step("see what the machine is made of"):
        before = fingerprint(machine)
    with step("back it up"):
        machine.script(FILES / "back_up.sh", PASSWORD, *drill.points)
    machine.ssh("umount /mnt/backup")
    return before


def fingerprint(machine: Machine) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(machine.ssh("python3 -", (FILES / "fingerprint.py").read_text()))
    return found


def request(drill: Drill, **more: Any) -> dict[str, Any]:
    """Return the variables of the playbook. The backup's own disk is in `bare_metal_keep`."""
    letters = "abcdefgh"
    return {
        "bare_metal_confirm": drill.name,
        "bare_metal_disks": {
            f"vd{letters[number]}": f"/dev/disk/by-id/virtio-NEW{number}" for number in range(len(drill.disks))
        },
        "bare_metal_keep": [f"vd{letters[len(drill.disks)]}"],
        "bare_metal_repository": {"url": "/mnt/backup/repository", "password": PASSWORD},
        **more,
    }


def refuse(live: Machine, messages: Sequence[str], variables: dict[str, Any]) -> None:
    """Run the playbook with a request that has to be refused before anything is written."""
    output = play(live, str(PLAYBOOK), variables=variables, must_work=False).output
    missing = [message for message in (*messages, "failed=1", "changed=0") if message not in output]
    if missing:
        raise Refusal(f"The playbook was to refuse with {missing}, and said:\n{output[-3000:]}")


def refuse_all(drill: Drill, live: Machine) -> None:
    """Run the requests that have to be refused, each with the variable and the remedy."""
    spare = f"/dev/disk/by-id/virtio-{SPARE}"
    disks = {**request(drill)["bare_metal_disks"], "vda": spare}
    refuse(
        live,
        (
            f"bare_metal_confirm: is 'another', and the manifest is of '{drill.name}'; set it to {drill.name}",
            f"bare_metal_disks: has {spare} for vda, which is not empty (ext4: no partitions); name an empty disk",
        ),
        request(drill, bare_metal_confirm="another", bare_metal_disks=disks),
    )
    refuse(
        live,
        (f"bare_metal_disks: vda does not fit on {spare} (200 MiB)", "name a larger disk"),
        request(drill, bare_metal_disks=disks, bare_metal_overwrite=[spare]),
    )


def rebuild(drill: Drill, live: Machine, untouched: Sequence[Path]) -> None:
    """Run refused requests, then the plan, then the rebuild."""
    live.ssh("mkdir -p /mnt/backup && mount -o ro LABEL=backup /mnt/backup")
    before = [systems.content(path) for path in untouched]
    with step("refuse what must be refused"):
        refuse_all(drill, live)
    with step("show the plan"):
        play(live, str(PLAYBOOK), "--check", variables=request(drill))
    if [systems.content(path) for path in untouched] != before:
        raise Refusal("a request that was refused, or --check, has written to a disk")
    with step("build the machine again"):
        play(live, str(PLAYBOOK), variables=request(drill))


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the differences, a line each."""
    lines = []
    for name in sorted(before["files"].keys() | after["files"].keys()):
        old, new = before["files"].get(name), after["files"].get(name)
        if old != new:
            lines.append(f"{name}: {old} -> {new}")
    lines += [
        f"{name}: {before[name]} -> {after[name]}" for name in before if name != "files" and before[name] != after[name]
    ]
    return lines


def carry_out(drill: Drill, place: Path) -> dict[str, float]:
    """Run the whole drill; return the seconds by stage. Raise Refusal if something differs."""
    seconds: dict[str, float] = {}

    @contextmanager
    def timed(stage: str) -> Iterator[None]:
        start = time.monotonic()
        with step(f"{drill.name}: {stage}"):
            yield
        seconds[stage] = time.monotonic() - start

    # Shared parts are made by one drill at a time; drills run in parallel.
    with timed("make machine and live system"), engine.making("bare_metal"):
        originals = systems.prepare(drill)
    old = [systems.copy(path, place / f"old{number}") for number, path in enumerate(originals)]
    new = [systems.blank(place / f"new{number}", after) for number, (_before, after) in enumerate(drill.disks)]
    backup = Disk(systems.blank(place / "backup", 4096), "BACKUP")
    if drill.boot == "uefi":
        shutil.copy(systems.firmware_of(originals), place / "firmware")
    disks = [Disk(path, f"OLD{number}") for number, path in enumerate(old)]
    machine = Machine("old", drill.boot, place, systems.KEY, [*disks, backup])
    with timed("boot it, and back it up"), running(machine):
        before = back_up(drill, machine)
    for path in old:
        path.unlink()
    if drill.boot == "uefi":
        # Another machine knows nothing of the old one's entries.
        shutil.copy(qemu.FIRMWARE[1], place / "firmware")
    disks = [Disk(path, f"NEW{number}") for number, path in enumerate(new)]
    spare = systems.formatted(place / "spare", 200)
    live = systems.live_machine("live", drill.boot, place, [*disks, backup, Disk(spare, SPARE)])
    with timed("from empty disks to a machine"), running(live):
        rebuild(drill, live, [*new, spare])
    machine = Machine("new", drill.boot, place, systems.KEY, disks)
    with timed("boot that, and compare"), running(machine):
        with step("see what it is made of, and what the check of the first boot says"):
            found = [*differences(before, fingerprint(machine)), *problems_of_first_boot(machine)]
        say("\n".join(["the machine has", machine.ssh("lsblk -o NAME,SIZE,FSTYPE,UUID,MOUNTPOINTS")]))
    if found:
        raise Refusal(f"{drill.name} is not what it was:\n" + "\n".join(found[:40]))
    return seconds


def problems_of_first_boot(machine: Machine) -> list[str]:
    """Return the problems that the check of the first boot has found."""
    path = "/var/lib/rigwright/first_boot.json"
    verdict = json.loads(machine.ssh(f"until [ -e {path} ]; do sleep 1; done; cat {path}", seconds=300))
    problems: list[str] = verdict["faults"]
    return problems if verdict["passed"] or problems else ["the check of the first boot failed without a word"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "drills", nargs="*", choices=[*DRILLS, []], metavar="DRILL", help=f"one of {', '.join(DRILLS)}; all by default"
    )
    parser.add_argument("--keep", action="store_true", help="leave disks and logs behind, in .cache/bare_metal")


def main(args: argparse.Namespace) -> int:
    systems.check_tools()
    systems.PLACE.mkdir(parents=True, exist_ok=True)
    for name in args.drills or DRILLS:
        place = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=systems.PLACE))
        try:
            seconds = carry_out(DRILLS[name], place)
        finally:
            if not args.keep:
                shutil.rmtree(place, ignore_errors=True)
        say(f"{name}: " + ", ".join(f"{stage} {spent:.0f} s" for stage, spent in seconds.items()))
    return 0
