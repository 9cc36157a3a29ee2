"""What a role can have changed on a host, in a form that two moments can be compared by."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from harness.sandbox.clients import Machine
from harness.sandbox.lab import STATE

# By name: of a file its mode, owner, the SHA-256 of its content and its packages; of a package its version; of a unit that it runs, and
# its packages. Links below /etc show which units are enabled. A configuration file that is as its package ships it is `as shipped`: an
# upgrade replaces it without a difference.
State = dict[str, str]

# Runs on the host: nothing of the harness is there, and nothing of Ansible is asked.
PROBE = r"""
import collections, hashlib, json, os, re, stat, subprocess

ROOTS = ["/etc", "/home", "/opt", "/root", "/usr/local", "/var/lib/rigwright", "/var/spool/cron"]
UNITS = ["/etc/systemd/system/", "/usr/lib/systemd/system/"]
# What the system writes by itself.
VOLATILE = {"/etc/ld.so.cache", "/etc/mtab", "/etc/resolv.conf"}
VOLATILE |= {"/etc/group-", "/etc/gshadow-", "/etc/passwd-", "/etc/shadow-", "/etc/subgid-", "/etc/subuid-"}
# Libraries of hundreds of megabytes are known by their size and by parts of them.
LARGE, PART = 1 << 24, 1 << 20
# What Ansible's connection and the tests' clients leave in a user's home.
PASSING = {".ansible", ".cache", ".ssh", "__pycache__"}

owners = collections.defaultdict(set)
for name in os.listdir("/var/lib/dpkg/info"):
    if name.endswith(".list"):
        with open("/var/lib/dpkg/info/" + name) as paths:
            for path in paths.read().splitlines():
                owners["/usr" + path if path.startswith("/lib/") else path].add(name[: -len(".list")].split(":")[0])

# Files that a package has made from a template of its own, and not unpacked (ucf(1)).
if os.path.exists("/var/lib/ucf/registry"):
    with open("/var/lib/ucf/registry") as registry:
        for line in registry:
            package, path = line.split(None, 1)
            owners[path.strip()].add(package)

# As dpkg and ucf know it: path -> MD5 of the content that the installed version brings.
shipped = {}
for line in subprocess.check_output(["dpkg-query", "--show", "--showformat", "${Conffiles}\n"], text=True).splitlines():
    if line.startswith(" "):
        path, digest = line.split()[:2]
        shipped[path] = digest
if os.path.exists("/var/lib/ucf/hashfile"):
    with open("/var/lib/ucf/hashfile") as hashes:
        for line in hashes:
            digest, path = line.split(None, 1)
            shipped[path.strip()] = digest

def packages(*paths):
    for path in paths:
        # What enables a unit is a link to a file of the package.
        if found := owners.get(path) or owners.get(os.path.realpath(path)):
            return "".join(f" +{package}" for package in sorted(found))
    return ""

def packages_of_unit(unit):
    template = re.sub(r"@.+\.", "@.", unit)
    # systemd makes units of scripts in /etc/init.d.
    script = "/etc/init.d/" + unit.rpartition(".")[0]
    return packages(*(folder + name for folder in UNITS for name in (unit, template)), script)

def sample(file, size):
    parts = [str(size).encode()]
    for place in (0, size // 2, size - PART):
        file.seek(place)
        parts.append(file.read(PART))
    return b"".join(parts)

state = {}
for root in ROOTS:
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in PASSING or folder.startswith("/etc")]
        for name in [*folders, *files]:
            path = os.path.join(folder, name)
            if path in VOLATILE:
                continue
            info = os.lstat(path)
            if stat.S_ISLNK(info.st_mode):
                what = "-> " + os.readlink(path)
            elif stat.S_ISREG(info.st_mode):
                with open(path, "rb") as file:
                    content = file.read() if info.st_size <= LARGE else sample(file, info.st_size)
                # The id of config_files' last transaction: another one may have led to the same.
                if path.startswith("/var/lib/rigwright/config_files/") and name == "manifest.json":
                    content = json.dumps(json.loads(content)["paths"]).encode()
                if path in shipped and hashlib.md5(content).hexdigest() == shipped[path]:
                    what = "as shipped"
                else:
                    what = hashlib.sha256(content).hexdigest()
            else:
                what = "directory" if stat.S_ISDIR(info.st_mode) else "special"
            state["file " + path] = f"{stat.S_IMODE(info.st_mode):04o} {info.st_uid}:{info.st_gid} {what}" + packages(path)

def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

for line in lines("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package} ${Version}\n"):
    status, package, version = line.split()
    if status == "ii":
        state["package " + package] = version
for line in lines("systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend"):
    unit = line.split()[0]
    if not unit.startswith("user"):
        state["unit " + unit] = "running" + packages_of_unit(unit)
print(json.dumps(state))
"""


def of(machine: Machine) -> State:
    """Return the files (mode, owner, content), packages, and units of a host as they are now."""
    found: State = json.loads(machine.must(f"python3 - <<'PROBE'\n{PROBE}\nPROBE"))
    return found


def difference(before: State, after: State) -> list[str]:
    """Return a line for each entry that is new, gone or changed, in the order of their names."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"new: {name}")
        elif name not in after:
            lines.append(f"gone: {name}")
        elif before[name] != after[name]:
            lines.append(f"changed: {name}: {before[name]} -> {after[name]}")
    return lines


def without_packages(before: State, after: State) -> State:
    """Return `after` without what only packages have done that are new since `before`, or of a higher version.

    A security update in the archive reaches a host with whatever is installed from the same source next: no role has a part in it.
    """
    names = [name for name in after if name.startswith("package ") and after[name] != before.get(name)]
    moved = {name for name in names if name not in before or _is_newer(after[name], before[name])}
    packages = {name.removeprefix("package ") for name in moved}
    added = {name.removeprefix("package ") for name in moved - before.keys()}
    kept = {}
    for name, state in after.items():
        content, *owners = state.split(" +")
        if name in moved or (name not in before and owners and packages.issuperset(owners)):
            if name in before:
                kept[name] = before[name]
            continue
        kept[name] = " +".join([content, *(owner for owner in owners if owner not in added)])
    return kept


def _is_newer(version: str, than: str) -> bool:
    return subprocess.run(["dpkg", "--compare-versions", version, "gt", than], check=False).returncode == 0


def units(state: State) -> set[str]:
    """Return the units that run, or start at boot, of any package."""
    matches = (
        re.fullmatch(r"unit (.+)|file /etc/systemd/system/[^/]+\.(?:wants|requires)/(.+)", name) for name in state
    )
    return {match[1] or match[2] for match in matches if match}


def service_starts(machine: Machine) -> dict[str, str]:
    """Return the start of each running service: `{unit: seconds since the boot of the kernel}`. A restart changes it."""
    text = machine.must(
        "systemctl show --type=service --state=running --property=Id,ExecMainStartTimestampMonotonic '*.service'"
    )
    units = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.split("\n\n")]
    return {unit["Id"]: unit["ExecMainStartTimestampMonotonic"] for unit in units if not unit["Id"].startswith("user")}


def remember(name: str, machines: Sequence[Machine]) -> dict[str, State]:
    """Return the fresh state of these machines of a lab, taken at the first call after the lab was made."""
    file = STATE / f"{name}.fingerprint.json"
    if not file.exists():
        with ThreadPoolExecutor() as pool:
            states = dict(zip((machine.host.name for machine in machines), pool.map(of, machines), strict=True))
        file.write_text(json.dumps(states))
    return remembered(name)


def remembered(name: str) -> dict[str, State]:
    """Return the states that `remember` has kept."""
    states: dict[str, State] = json.loads((STATE / f"{name}.fingerprint.json").read_text())
    return states
