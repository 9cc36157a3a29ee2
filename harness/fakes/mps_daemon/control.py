# SPDX-License-Identifier: GPL-3.0-or-later
"""A fake of `nvidia-cuda-mps-control`: daemon and command line in one program, as the original; no CUDA, no GPU.

It needs nothing but Python, so that it runs on a sandbox host under the original's name (harness/fakes/mps.py). The GPUs are in the
table that mps_cuda.c also reads. Verbs, replies and options are those of NVIDIA's pages "Legacy MPS v2 Interface" and "MPS v3 Interface"
(docs.nvidia.com/deploy/mps, release 615). Everything else follows a recording of an H100 with driver 580
(tests/unit/fixtures/mps): percentages come back as `50.0`, a memory limit of a GiB or more in whole GiB (rounded down: driver 595.91.07).

Tests have verbs of their own, on protocol 2: `fake_client UID PID COMMAND`, `fake_exit PID`, `fake_fault SERVER PID`.
"""

from __future__ import annotations

import os
import sys

from harness.fakes.mps_daemon.paths import pipe_directory

NO_DAEMON = "Cannot find MPS control daemon process"
SECOND = "An instance of this daemon is already running"
STARTS = {"-d", "--daemon", "-f", "--foreground"}


def ask(kind: str, arguments: list[str]) -> tuple[int, str]:
    """Send lines to the shell of protocol 2, or a command of protocol 3, and return status and output.

    :raises OSError: no daemon.
    """
    import _socket  # what `socket` is made of, and loads in a tenth of the time

    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    connection.connect(f"{pipe_directory()}/control")
    connection.sendall("\t".join([kind, *arguments]).encode() + b"\n")
    got = b""
    while part := connection.recv(65536):
        got += part
    connection.close()
    status, _line, text = got.decode().partition("\n")
    return int(status), text


def start(arguments: list[str]) -> int:
    try:
        ask("words", ["server", "list"])
    except OSError:
        pass
    else:
        print(SECOND)
        return 1
    from harness.fakes.mps_daemon import daemon as mps_daemon
    from harness.fakes.mps_daemon import protocol3 as mps_protocol3
    from harness.fakes.mps_daemon.state import parse

    options = parse(arguments)
    if options.daemon:
        if os.fork():
            return 0
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in range(3):
            os.dup2(null, descriptor)
    return (mps_protocol3.Daemon3 if options.protocol == 3 else mps_daemon.Daemon)(options).run()


def main() -> int:
    arguments = sys.argv[1:]
    if STARTS & set(arguments):
        return start(arguments)
    try:
        if arguments in (["-q"], ["--quit"]):
            return ask("quit", [])[0]
        kind, request = ("words", arguments) if arguments else ("lines", sys.stdin.read().splitlines())
        status, text = ask(kind, request)
    except OSError:
        print(NO_DAEMON, file=sys.stderr)
        return 1
    sys.stdout.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
