# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake `systemctl` for the tests of gpu_mps: it does what the unit of a daemon says.

Folder: units/ are the unit files, enabled/ the names of those that are enabled, pids/ main processes, run/ runtime directories.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(sys.argv[1])


def read(name: str) -> tuple[dict[str, str], dict[str, str]]:
    keys: dict[str, str] = {}
    environment = dict(os.environ)
    for line in (ROOT / "units" / name).read_text().splitlines():
        key, equals, value = line.partition("=")
        if key == "Environment":
            variable, _equals, text = shlex.split(value)[0].partition("=")
            environment[variable] = text
        elif key == "UnsetEnvironment":
            for variable in value.split():
                environment.pop(variable, None)
        elif equals:
            keys[key] = value
    return keys, environment


def start(name: str) -> int:
    keys, environment = read(name)
    (ROOT / "run" / keys["RuntimeDirectory"]).mkdir(parents=True, exist_ok=True)
    (ROOT / "var/log" / keys["LogsDirectory"]).mkdir(parents=True, exist_ok=True)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    main = subprocess.Popen(shlex.split(keys["ExecStart"]), env=environment, start_new_session=True, **quiet)  # type: ignore[call-overload]
    (ROOT / "pids" / name).write_text(str(main.pid))
    done = subprocess.run(
        shlex.split(keys["ExecStartPost"]), env=environment, capture_output=True, text=True, check=False
    )
    (ROOT / "journal").write_text(done.stderr)
    if done.returncode:
        main.kill()
        main.wait()
    return done.returncode


def stop(name: str) -> int:
    keys, environment = read(name)
    pid = int((ROOT / "pids" / name).read_text())
    subprocess.run(shlex.split(keys["ExecStop"]), env=environment, check=False)
    for _turn in range(100):
        if not runs(pid):
            break
        time.sleep(0.05)
    else:
        os.kill(pid, signal.SIGKILL)
        return 1
    shutil.rmtree(ROOT / "run" / keys["RuntimeDirectory"], ignore_errors=True)
    return 0


def runs(pid: int) -> bool:
    """Return whether a process runs. A zombie has no command line."""
    try:
        return bool(Path(f"/proc/{pid}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def main() -> int:
    verb, *rest = sys.argv[2:]
    with (ROOT / "calls").open("a") as file:
        file.write(f"{' '.join([verb, *rest])}\n")
    if verb in ("daemon-reload", "reset-failed"):
        return 0
    enabled = ROOT / "enabled" / rest[0]
    if verb == "is-enabled":
        print("enabled" if enabled.exists() else "disabled")
        return not enabled.exists()
    if verb == "enable":
        enabled.touch()
    elif verb == "disable":
        enabled.unlink()
    else:
        return {"start": start, "stop": stop}[verb](rest[0])
    return 0


sys.exit(main())
