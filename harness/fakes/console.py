"""A fake virtual console for hosts that are containers: /dev/tty1 is a pseudo-terminal, and a file has what was written to it.

The terminal is a real one of the kernel: systemd opens it, hangs it up and resets it; agetty and the display run on it. It has no screen
and no keyboard. getty@tty1 asks for /dev/tty0, which only machines with consoles have: a drop-in takes that condition away.
"""

from __future__ import annotations

import re

from harness.sandbox.clients import Machine
from harness.sandbox.engine import wait_for

UNIT = "fake-console.service"
OUTPUT = "/run/fake-console/output"
_HOLDER = f"""\
import errno, os, pty, time
controller, terminal = pty.openpty()
os.symlink(os.ttyname(terminal), "/dev/tty1")
output = os.open("{OUTPUT}", os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_APPEND, 0o600)
while True:
    try:
        os.write(output, os.read(controller, 65536))
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        # systemd has hung the terminal up, and opens it again.
        time.sleep(0.05)
"""
_DROP_IN = "[Unit]\nConditionPathExists=\n"


def install(machine: Machine) -> None:
    """Make /dev/tty1, and start the login on it as a machine with a console does."""
    machine.must(
        # The image of the hosts masks what has no console in a container.
        "systemctl unmask getty@tty1.service && mkdir -p /run/fake-console /run/systemd/system/getty@tty1.service.d && rm -f /dev/tty1"
        f" && printf '{_DROP_IN}' > /run/systemd/system/getty@tty1.service.d/fake-console.conf && systemctl daemon-reload"
    )
    machine.must(
        f"systemd-run --unit {UNIT} --description 'fake console' --property ExecStopPost='rm -f /dev/tty1' python3 -I -c '{_HOLDER}'"
        " && until test -e /dev/tty1; do sleep 0.1; done && systemctl start getty@tty1.service"
    )


def resize(machine: Machine, columns: int, rows: int) -> None:
    """Change the size of the terminal, as setfont(8) does to a console."""
    machine.must(f"stty -F /dev/tty1 columns {columns} rows {rows}; : > {OUTPUT}")


def frame(machine: Machine) -> list[str]:
    """Return the lines of the last frame that the display has drawn whole; nothing before the first one."""
    drawn = machine.must(f"tail -c 60000 {OUTPUT}").split("\x1b[H")
    # The last one may not be whole yet.
    text = drawn[-2] if len(drawn) > 2 else ""
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line) for line in text.split("\r\n")]
    return [line.rstrip() for line in lines if line.strip()]


def wait_for_frame(machine: Machine, *texts: str, columns: int = 999, absent: str = "\x00") -> list[str]:
    """Wait until a frame has all texts and is not wider, and return it."""

    def probe() -> list[str] | None:
        lines = frame(machine)
        shown = "\n".join(lines)
        fits = all(len(line) <= columns for line in lines)
        return lines if lines and fits and all(text in shown for text in texts) and absent not in shown else None

    return wait_for(probe, f"a frame with {texts} on {machine.host.name}", 60)
