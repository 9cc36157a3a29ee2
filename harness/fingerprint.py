"""What a role can have changed on a host, in a form that two moments can be compared by.

python -m harness.fingerprint save molecule      remember the targets of the lab as they are
python -m harness.fingerprint compare molecule   fail when they are not as they were remembered
"""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor

from harness import engine, lab
from harness.clients import Machine
from harness.lab import CACHE, Refusal

# By name: of a file its mode, owner and the SHA-256 of its content; of a package its version; of a unit whether it is enabled and runs.
State = dict[str, str]

# Runs on the host: nothing of the harness is there, and nothing of Ansible is asked.
PROBE = r"""
import grp, hashlib, json, os, pwd, stat, subprocess

ROOTS = ["/etc", "/home", "/opt", "/root", "/usr/local", "/var/lib/rigwright", "/var/spool/cron"]
# What the system writes by itself, and the folder of Ansible's connection.
VOLATILE = {"/etc/ld.so.cache", "/etc/mtab", "/etc/resolv.conf"}
PASSING = {".ansible", ".cache", ".ssh", "__pycache__"}

owners = {}
for name in os.listdir("/var/lib/dpkg/info"):
    if name.endswith(".list"):
        with open("/var/lib/dpkg/info/" + name) as paths:
            owners.update((path.rstrip("\n"), name[: -len(".list")].split(":")[0]) for path in paths)

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
                    what = hashlib.sha256(file.read()).hexdigest()
            else:
                what = "directory" if stat.S_ISDIR(info.st_mode) else "special"
            state["file " + path] = f"{stat.S_IMODE(info.st_mode):04o} {info.st_uid}:{info.st_gid} {what}"
            if path in owners:
                state["file " + path] += " of package " + owners[path]

def lines(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()

for line in lines("dpkg-query", "--show", "--showformat", "${db:Status-Abbrev}${Package} ${Version}\n"):
    status, package, version = line.split()
    if status == "ii":
        state["package " + package] = version
for line in lines("systemctl", "list-unit-files", "--type=service,socket,timer,mount", "--plain", "--no-legend"):
    unit, enabled = line.split()[:2]
    state["unit " + unit] = enabled
for line in lines("systemctl", "list-units", "--type=service", "--state=running", "--plain", "--no-legend"):
    unit = line.split()[0]
    if not unit.startswith("user"):
        state["unit " + unit] = state.get("unit " + unit, "") + " running"
print(json.dumps(state))
"""


def of(machine: Machine) -> State:
    """Files (mode, owner, content), packages, and units of a host as they are now."""
    found: State = json.loads(machine.must(f"python3 - <<'PROBE'\n{PROBE}\nPROBE"))
    return found


def difference(before: State, after: State) -> list[str]:
    """One line for each thing that is new, gone or changed, in the order of their names; empty when nothing is."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        if name not in before:
            lines.append(f"new: {name}")
        elif name not in after:
            lines.append(f"gone: {name}")
        elif before[name] != after[name]:
            lines.append(f"changed: {name}: {before[name]} -> {after[name]}")
    return lines


def without_new_packages(before: State, after: State) -> State:
    """Return `after` without the packages that `before` has not, their files and their units."""
    added = {name for name in after.keys() - before.keys() if name.startswith("package ")}
    return {
        name: what
        for name, what in after.items()
        if name in before or not (name in added or name.startswith("unit ") or what.partition(" of ")[2] in added)
    }


def service_starts(machine: Machine) -> dict[str, str]:
    """When each running service was started: `{unit: seconds since the boot of the kernel}`. A restart changes it."""
    text = machine.must(
        "systemctl show --type=service --state=running --property=Id,ExecMainStartTimestampMonotonic '*.service'"
    )
    units = [dict(line.split("=", 1) for line in block.splitlines()) for block in text.split("\n\n")]
    return {unit["Id"]: unit["ExecMainStartTimestampMonotonic"] for unit in units if not unit["Id"].startswith("user")}


def of_targets(name: str) -> dict[str, State]:
    """The state of every target of a lab."""
    client = engine.connect()
    machines = [Machine(client, host) for host in lab.read(name).group("targets")]
    with ThreadPoolExecutor() as pool:
        return dict(zip((machine.host.name for machine in machines), pool.map(of, machines), strict=True))


def remembered(name: str) -> dict[str, State]:
    """What `save` remembered of the targets of a lab."""
    states: dict[str, State] = json.loads((CACHE / "sandbox" / f"{name}.fingerprint.json").read_text())
    return states


def main(action: str, name: str) -> None:
    now = of_targets(name)
    if action == "save":
        (CACHE / "sandbox" / f"{name}.fingerprint.json").write_text(json.dumps(now))
        return
    changes = {host: difference(before, now[host]) for host, before in remembered(name).items()}
    if any(changes.values()):
        raise Refusal("\n".join(f"{host}: {line}" for host, lines in changes.items() for line in lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
