"""Use sandbox hosts as clients: run a program there, log in from there. Independent of Ansible.

laptop = Machine(client, lab.host("laptop"))
assert laptop.ssh("owner@gateway", "true", password="wrong").rc != 0
"""

from __future__ import annotations

import contextlib
import io
import secrets
import shlex
import tarfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import docker
import docker.errors
from docker.models.containers import Container
from docker.utils.socket import frames_iter

from harness.sandbox.lab import Host, Refusal

# Docker gives what a program has said two seconds to arrive once the program has ended, and drops the rest: on a busy machine all of it.
# So the shell says where it ends, and stays until the client sends a line. It also begins with a line: docker-py reads docker's
# answer through a buffer, gives the socket below it, and loses what has come with the answer.
UNTIL_HEARD = (
    "read -r -t 60 || exit 125; "
    'timeout "$1" bash -c "$2" < /dev/null; rc=$?; printf %s "$3"; printf %s "$3" >&2; read -r -t 60; exit $rc'
)
LAST = 4096  # bytes in which the mark of the end is looked for


@dataclass(frozen=True)
class Done:
    """The result of a program: its exit status (124: it ran longer than its limit) and its output."""

    rc: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Entry:
    """A file or directory (content None) that `Machine.put` makes."""

    content: bytes | None
    mode: int = 0o644
    owner: int = 0


def pack(entries: dict[str, Entry]) -> bytes:
    """Return a tar archive of `{absolute path: entry}`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path, entry in entries.items():
            header = tarfile.TarInfo(path.lstrip("/"))
            header.type = tarfile.DIRTYPE if entry.content is None else tarfile.REGTYPE
            header.size, header.mode, header.mtime = len(entry.content or b""), entry.mode, int(time.time())
            header.uid = header.gid = entry.owner
            tar.addfile(header, io.BytesIO(entry.content or b""))
    return buffer.getvalue()


class Machine:
    """A sandbox host whose container exists."""

    def __init__(self, client: docker.DockerClient, host: Host) -> None:
        self.host = host
        try:
            self.container: Container = client.containers.get(host.container)
        except docker.errors.NotFound:
            raise Refusal(f"{host.name} of the lab {host.lab} does not run: `python -m harness up`") from None

    def run(self, command: str, *, user: str = "root", seconds: float = 60) -> Done:
        """Run a shell command and wait for its end."""
        api: Any = self.container.client.api  # type: ignore[union-attr]
        mark = secrets.token_bytes(8).hex().encode()
        arguments = ["bash", "-c", UNTIL_HEARD, "run", f"{seconds}", command, mark.decode()]
        started = api.exec_create(self.container.id, arguments, stdin=True, user=user)["Id"]
        connection = api.exec_start(started, socket=True)
        connection._sock.sendall(b"\n")
        output, heard = {1: bytearray(), 2: bytearray()}, False
        for stream, words_of_stream in frames_iter(connection, tty=False):  # type: ignore[no-untyped-call]
            output[stream] += words_of_stream
            heard = all(mark in text[-LAST:] for text in output.values())
            if heard:
                connection._sock.sendall(b"\n")
                break
        while (ended := api.exec_inspect(started))["Running"]:
            time.sleep(0.01)
        connection._response.close()
        if not heard and ended["ExitCode"] == 0:
            raise AssertionError(f"{self.host.name}: docker has lost the output of `{command}`")
        stdout, stderr = (bytes(text).replace(mark, b"").decode(errors="replace") for text in output.values())
        return Done(ended["ExitCode"], stdout, stderr)

    def must(self, command: str, *, user: str = "root", seconds: float = 60) -> str:
        """Run a command that has to succeed, and return its output."""
        done = self.run(command, user=user, seconds=seconds)
        if done.rc != 0:
            raise AssertionError(f"{self.host.name}: `{command}` ended with {done.rc}\n{done.stdout}{done.stderr}")
        return done.stdout

    def start(self, command: str, *, user: str = "root") -> None:
        """Run a shell command in the background; it lives as long as the host."""
        self.container.exec_run(["bash", "-c", command], user=user, detach=True)

    def put(self, entries: dict[str, Entry]) -> None:
        """Make files and directories, also on a host that does not run yet. Not below /run and /tmp: those are in memory."""
        self.container.put_archive("/", pack(entries))

    def public_key(self) -> str:
        """Return the ssh key of this host's root as a client, created at the first call."""
        return self.must(
            "test -e ~/.ssh/id_ed25519 || ssh-keygen -q -t ed25519 -N '' -f ~/.ssh/id_ed25519; cat ~/.ssh/id_ed25519.pub"
        )

    def ssh(
        self,
        target: str,
        command: str,
        *,
        port: int = 22,
        password: str | None = None,
        options: str = "",
        seconds: float = 30,
    ) -> Done:
        """Log in to `target` (`user@host`) with the real ssh client of this host: by its key, or by this password alone."""
        how = "-o BatchMode=yes -o PreferredAuthentications=publickey"
        login = "ssh"
        if password is not None:
            how = "-o PubkeyAuthentication=no -o NumberOfPasswordPrompts=1"
            login = f"sshpass -p {shlex.quote(password)} ssh"
        trust = "-o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=10"
        return self.run(f"{login} {how} {trust} {options} -p {port} {target} {shlex.quote(command)}", seconds=seconds)


@contextlib.contextmanager
def kept(machines: Sequence[Machine], *paths: str) -> Iterator[None]:
    """Restore files and directories as they were before the `with` block, however it ends, and remove new ones."""
    files, archive = " ".join(paths), "--absolute-names --file /root/kept.tar"
    for machine in machines:
        machine.must(f"ls -d {files} 2>/dev/null | tar --create {archive} --files-from -")
    try:
        yield
    finally:
        for machine in machines:
            machine.must(f"rm -rf {files} && tar --extract {archive} && rm /root/kept.tar")
