# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The program of the unit rigwright-gpu-usage: the sampler, its child that asks NVML, and root's link for node_exporter."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import signal
import socket
import sys
import time
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import clear_unfinished
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import directory, open_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage import days, request, terminals
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.child import Child
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.metrics import TEXTFILE
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sample import Sample
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.sampler import (
    METRICS,
    Sampler,
    Settings,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.gpu_snapshot import HOME
from ansible_collections.rigwright.workstation.plugins.module_utils._system.notify import send

SETTINGS = "/etc/rigwright/gpu_usage.json"
LOCK = f"{HOME}/lock"
PROBE, LINK = "probe", "link"
# The first call of NVML after a boot may start the GPU. The unit stops within its own limit.
TIMEOUT_S = 10.0


def settings_of(text: str) -> Settings:
    """Read the settings that the role has written.

    :raises ValueError: a setting is missing or is not valid; the text names it.
    """
    try:
        found: t.Any = {"host": socket.gethostname()}
        for name, value in json_text.parse(text).items():
            field, convert = CONVERTED.get(name, (name, _as_it_is))
            found[field] = convert(value)
        fields = dataclasses.fields(Settings)
        for each in fields:
            if each.default is not dataclasses.MISSING and type(found[each.name]) is not type(each.default):
                raise TypeError(f"{each.name} is {found[each.name]!r}")
        return Settings(**{each.name: found[each.name] for each in fields})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{SETTINGS} is damaged ({error!r}): apply the role gpu_usage again") from None


def ignored(names: t.Any) -> tuple[str, ...]:
    """Return a list of names, which an inventory in INI has as one text with commas."""
    return tuple(str(name).strip() for name in (names.split(",") if isinstance(names, str) else names))


def _as_it_is(value: t.Any) -> t.Any:
    return value


# Settings that the role writes as its user did: the field, and what makes its value.
CONVERTED: dict[str, tuple[str, t.Callable[[t.Any], t.Any]]] = {
    "idle_memory": ("idle_memory_mib", request.memory_mib),
    "idle_after": ("idle_after_s", request.seconds),
    "idle_ignore": ("idle_ignore", ignored),
}


def wait(seconds: float) -> bool:
    """Wait; True when systemd ends the sampler meanwhile."""
    return signal.sigtimedwait([signal.SIGTERM, signal.SIGINT], max(0.0, seconds)) is not None


def run(sampler: Sampler, clock: t.Callable[[], float], stopped: t.Callable[[float], bool]) -> None:
    """Take samples until systemd ends the sampler. What cannot be written is reported, and tried again with the next sample."""
    sampler.resume(time.time())
    following = clock()
    while True:
        try:
            sampler.sample(time.time(), clock())
        except OSError as error:
            sampler.report(f"a file cannot be written: {error}")
        following = max(following + sampler.settings.interval_s, clock())
        if stopped(following - clock()):
            break
    with contextlib.suppress(OSError):
        sampler.save(clock())


def boot_clock() -> float:
    """Return the seconds since the boot, those of a sleep included. Nobody sets this clock."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def report(line: str) -> None:
    """Write a line for the journal."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def is_alone(tree: Tree) -> bool:
    """Take the place of the only sampler, until this process ends: two would send each message twice, and replace each other's sums."""
    try:
        # For its owner alone: who can open it can hold its lock. The kernel keeps it as long as the descriptor.
        fcntl.flock(open_file(tree.at(LOCK), os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        report(f"whether another sampler runs is unknown: {error}")
    return True


def sample() -> int:
    """Run the sampler."""
    tree = Tree()
    try:
        settings = settings_of(tree.text(SETTINGS))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if not is_alone(tree):
        sys.stderr.write("another sampler runs: `systemctl status rigwright-gpu-usage` shows it\n")
        return 1
    for folder in (HOME, days.HOME):
        with contextlib.suppress(OSError):
            clear_unfinished(tree.at(folder))
    # Blocked in the child, too, which ends when its input does.
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM, signal.SIGINT])
    child = Child([sys.executable, "-I", "-B", sys.argv[0], PROBE], TIMEOUT_S)
    group = terminals.terminal_group()
    timeout = min(TIMEOUT_S, settings.interval_s * 2 / 3)
    sampler = Sampler(
        settings,
        tree,
        lambda: t.cast("Sample", child.ask(timeout)),
        lambda uid, text: terminals.send(text, uid, group),
        report,
        lambda title, text: send(title, text, settings.notify_socket) if settings.notify_socket else "",
    )
    run(sampler, boot_clock, wait)
    child.close()
    return 0


def probe() -> int:
    """Answer the sampler. Here alone NVML is loaded."""
    from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.usage.probe import serve

    def answer(line: str) -> None:
        sys.stdout.write(line)
        sys.stdout.flush()

    serve(iter(sys.stdin.readline, ""), answer)
    return 0


def link(folder: str, target: str = METRICS) -> int:
    """Link the metrics into the directory of node_exporter, which may be another user's. Runs as root before the sampler."""
    try:
        with directory(folder) as handle:
            unfinished = f".{TEXTFILE}.link"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(unfinished, dir_fd=handle)
            os.symlink(target, unfinished, dir_fd=handle)
            os.replace(unfinished, TEXTFILE, src_dir_fd=handle, dst_dir_fd=handle)
    except OSError as error:
        sys.stderr.write(f"gpu_usage_textfile_directory: {folder} has no link to the metrics: {error}\n")
        return 1
    return 0


def main() -> int:
    """Run the sampler, its child, or the link."""
    arguments = sys.argv[1:]
    if arguments == [PROBE]:
        return probe()
    if arguments[:1] == [LINK]:
        return link(*arguments[1:2])
    return sample()
