"""Use sandbox hosts as clients: run a program there, log in from there. Independent of Ansible.

laptop = Machine(client, lab.host("laptop"))
assert laptop.ssh("owner@gateway", "true", password="wrong").rc != 0
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import select
import shlex
import tarfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker
import docker.errors
from docker.models.containers import Container
from docker.utils.socket import frames_iter

from harness.sandbox.lab import Host, Refusal

# The program of the agent comes as the first line, so that no list of processes has its text.
LOADER = "import sys; exec(eval(sys.stdin.readline()))"
PROGRAM = Path(__file__).with_name("host_agent.py").read_text()


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


class Agent:
    """A process on a host that runs one command at a time (host_agent.py). It prints nothing before the first request.

    docker-py reads docker's answer through a buffer and gives the socket below it: it would lose what has come with the answer.
    """

    def __init__(self, container: Container) -> None:
        api: Any = container.client.api  # type: ignore[union-attr]
        process = api.exec_create(container.id, ["python3", "-c", LOADER], stdin=True)["Id"]
        self.connection = api.exec_start(process, socket=True)
        self.frames = frames_iter(self.connection, tty=False)  # type: ignore[no-untyped-call]
        self.send(f"{PROGRAM!r}\n")

    def send(self, text: str) -> None:
        self.connection._sock.sendall(text.encode())

    def is_alive(self) -> bool:
        """Return False after its host has stopped: there is nothing to read between two requests but the end."""
        readable, _writable, _failed = select.select([self.connection], [], [], 0)
        return not readable

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request and return the answer.

        :raises ConnectionError: the host stopped before it answered, or docker could not start the agent on a host that stops.
        """
        self.send(f"{json.dumps(request)}\n")
        printed: dict[int, bytearray] = {1: bytearray(), 2: bytearray()}
        for stream, chunk in self.frames:
            printed[stream] += chunk
            if printed[1].endswith(b"\n"):
                with contextlib.suppress(ValueError):  # a message of docker
                    answer: dict[str, Any] = json.loads(printed[1])
                    return answer
        text = b"".join(printed.values()).decode(errors="replace")
        raise ConnectionError(f"the host stopped during `{request['command']}` {text}")

    def close(self) -> None:
        self.connection._response.close()


# Agents that wait for a request, by container. A thread takes one out for the time of a command.
AGENTS: dict[str, list[Agent]] = {}


@atexit.register
def close_agents() -> None:
    for waiting in AGENTS.values():
        while waiting:
            waiting.pop().close()


def free_agent(container: Container) -> Agent:
    """Take an agent of a host out of AGENTS, or start one."""
    waiting = AGENTS.setdefault(str(container.id), [])
    with contextlib.suppress(IndexError):  # another thread may take the last one
        while True:
            agent = waiting.pop()
            if agent.is_alive():
                return agent
            agent.close()
    return Agent(container)


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
        agent = free_agent(self.container)
        try:
            answer = agent.ask({"command": command, "user": user, "seconds": seconds})
        except BaseException:
            agent.close()
            raise
        AGENTS[str(self.container.id)].append(agent)
        if "error" in answer:
            raise AssertionError(f"{self.host.name}: `{command}` as {user}: {answer['error']}")
        return Done(answer["rc"], answer["stdout"], answer["stderr"])

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
