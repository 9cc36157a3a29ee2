# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""NVIDIA's CUDA repository as a source of apt: it is set up as a whole, or nothing is left of the attempt."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import re
import tempfile
import time
import typing as t
import urllib.error

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import STATUS, parse_status
from ansible_collections.rigwright.workstation.plugins.module_utils._apt.sources import (
    SOURCES_LIST,
    SOURCES_PARTS,
    parse,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import clear_unfinished, replace_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import read_url
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ROOT = "/"
PACKAGE = "cuda-keyring"
# It has 4 KiB.
LIMIT, DEADLINE = 16 << 20, 300
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
LISTS = "/var/lib/apt/lists"
# A directory of its own: config_files keeps /var/lib/rigwright for itself.
MEMORY = "/var/lib/rigwright_cuda_repository"
# The users' files are next to this one, which records what the module has installed on the host.
RECORD = ".record"

# Attempts of a command that needs a lock, and the seconds in between. `DPkg::Lock::Timeout` is for dpkg's locks only.
TRIES = 60
PAUSE = 5
LOCKED = re.compile(r"Could not get lock|Unable to (lock|acquire)|lock (is|was) locked by|locked by another process")


class Failed(Exception):
    """The repository cannot be set up. Nothing is left of the attempt."""

    def __init__(
        self, problem: str, remedy: str = "Try again later, or set `workstation_cuda_repository` to a mirror"
    ) -> None:
        super().__init__(problem)
        self.remedy = remedy


class State(t.NamedTuple):
    """The repository as one of its users sees it."""

    package: str | None
    source: str | None
    used: bool


class Record(t.NamedTuple):
    """What goes with the last user: the package if this module installed it, and the sources of this module.

    For each source it has the earlier content of its file, None if there was no such file.
    """

    package: bool
    sources: dict[str, str | None]


def read_record(path: str) -> Record | None:
    """Return what the module has installed; None without any.

    :raises Damaged: the record is damaged.
    """
    remedy = "restore it, or remove it, and the repository that is set up counts as your own"
    found = record.read(path, remedy, {"package": bool, "sources": {str: (str, type(None))}})
    return Record(found["package"], found["sources"]) if found else None


class RepositoryRequest(t.TypedDict):
    """The parameters of the module. What is there for `present` alone is None or missing otherwise."""

    user: str
    state: str
    directory: str | None
    url: str
    architecture: str
    keyring: str
    keyring_sha256: str
    timeout: int


class Repository:
    """NVIDIA's repository on this host."""

    def __init__(self, params: RepositoryRequest, run: t.Callable[..., tuple[int, str, str]]) -> None:
        self.params = params
        self.run_command = run
        self.user = os.path.join(at(MEMORY), self.params["user"])
        self.record = read_record(at(f"{MEMORY}/{RECORD}"))

    @property
    def path(self) -> str:
        """Return the source file, under the name that NVIDIA's package gives it. To remove it, return the one that was set up."""
        if self.params["directory"] is None:
            return next(reversed(self.record.sources), "") if self.record else ""
        return f"{SOURCES_PARTS}/cuda-{self.params['directory']}-{self.params['architecture']}.list"

    def read(self) -> State:
        packages = parse_status(read(STATUS) or "")
        package = packages[PACKAGE].version if PACKAGE in packages else None
        return State(package, read(self.path) if self.path else None, os.path.exists(self.user))

    def plan(self, current: State) -> State:
        if self.params["state"] == "present":
            source = f"deb [signed-by={KEYRING}] {self.params['url'].rstrip('/')}/ /\n"
            version = self.params["keyring"].split("_")[1]
            return State(current.package or version, source, True)
        if self.record and not self._others():
            return State(None if self.record.package else current.package, self.record.sources[self.path], False)
        return current._replace(used=False)

    def _remember(self, record: Record | None) -> None:
        self.record = record
        if record is not None:
            replace_file(at(f"{MEMORY}/{RECORD}"), json.dumps(record._asdict()) + "\n")
        elif os.path.exists(at(f"{MEMORY}/{RECORD}")):
            os.unlink(at(f"{MEMORY}/{RECORD}"))

    def _others(self) -> list[str]:
        names = os.listdir(at(MEMORY)) if os.path.isdir(at(MEMORY)) else []
        # A killed run leaves hidden, unfinished files.
        return [name for name in names if name not in (RECORD, self.params["user"]) and not name.startswith(".")]

    def set_up(self, current: State, wanted: State) -> None:
        make_directories(at(MEMORY))
        before = self.record
        try:
            # First the record: it then names what is ours if the run is interrupted.
            if current[:2] != wanted[:2]:
                package, sources = before or Record(False, {})
                earlier = {path: text for path, text in sources.items() if path != self.path}
                this = {self.path: sources.get(self.path, current.source)}
                self._remember(Record(package or current.package is None, {**earlier, **this}))
            if current.package is None:
                self._install()
            replace_file(at(self.path), wanted.source or "")
            self._check_sources(ROOT.rstrip("/"))
            self._ask()
        except Failed:
            with contextlib.suppress(Failed):
                self._take_back(current.package is None, {self.path: current.source})
            self._remember(before)
            self._tidy()
            raise
        replace_file(at(f"{MEMORY}/{self.params['user']}"), "")

    def end_use(self) -> None:
        if self.record and not self._others():
            self._take_back(self.record.package, self.record.sources)
            self._remember(None)
        if os.path.exists(self.user):
            os.unlink(self.user)
        self._tidy()

    def _tidy(self) -> None:
        clear_unfinished(at(MEMORY))
        if os.path.isdir(at(MEMORY)) and not os.listdir(at(MEMORY)):
            os.rmdir(at(MEMORY))

    def _install(self) -> None:
        url = f"{self.params['url'].rstrip('/')}/{self.params['keyring']}"
        try:
            content = read_url(url, LIMIT, DEADLINE, self.params["timeout"])
        except (urllib.error.URLError, OSError, ValueError) as error:
            raise Failed(f"{url} could not be downloaded: {error}") from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.params["keyring_sha256"].lower():
            raise Failed(
                f"{url} is not the package that was expected: its SHA-256 is {found}, and not {self.params['keyring_sha256']}"
            )
        with tempfile.TemporaryDirectory() as directory:
            archive = os.path.join(directory, self.params["keyring"])
            with open(archive, "wb") as file:
                file.write(content)
            rc, out, err = self._run(["dpkg", "--force-confdef", "--force-confold", "--install", archive])
        if rc != 0:
            raise failure(f"`dpkg` says: {(err or out).strip()}", err + out)

    def check_sources_with(self, source: str) -> None:
        """Check that apt accepts its sources together with this one."""
        with tempfile.TemporaryDirectory() as directory:
            os.makedirs(directory + SOURCES_PARTS)
            for path, text in {**read_sources(), self.path: source}.items():
                with open(directory + path, "w", encoding="utf-8") as file:
                    file.write(text)
            self._check_sources(directory)

    def _check_sources(self, root: str) -> None:
        """Check that apt accepts its sources. If it does not, every call of apt fails, and its message names no file."""
        place = [f"Dir::Etc::sourcelist={root}{SOURCES_LIST}", f"Dir::Etc::sourceparts={root}{SOURCES_PARTS}"]
        rc, out, err = self._run(["apt-get", "indextargets", "-o", place[0], "-o", place[1]])
        if rc != 0:
            others = [path for path in naming(self.params["url"], read_sources()) if path != self.path]
            remedy = f"Take this repository out of {' and '.join(others)}" if others else "Fix apt's sources"
            raise Failed(f"apt does not accept it together with its other sources: {complaint(out + err)}", remedy)

    def _ask(self) -> None:
        """Have apt fetch the index of this repository alone. By itself `apt-get update` calls a refused key a warning."""
        rc, out, err = self._run(
            [
                *("apt-get", "update"),
                *("-o", f"Dir::Etc::sourcelist={at(self.path)}", "-o", "Dir::Etc::sourceparts=/dev/null"),
                *("-o", "APT::Get::List-Cleanup=0", "-o", "APT::Update::Error-Mode=any"),
            ]
        )
        if rc != 0:
            raise failure(reason(out + err), out + err)

    def _take_back(self, package: bool, sources: t.Mapping[str, str | None]) -> None:
        """Purge the package, if asked, and restore the earlier sources, so that apt works for the rest of the host."""
        for path, text in sources.items():
            if read(path) != text:
                forget_index(read(path) or "")
        rc, out, err = 0, "", ""
        if package and PACKAGE in parse_status(read(STATUS) or ""):
            rc, out, err = self._run(["dpkg", "--purge", PACKAGE])
        for path, text in sources.items():
            if text is not None:
                replace_file(at(path), text)
            elif os.path.exists(at(path)):
                os.unlink(at(path))
        if rc != 0:
            raise failure(f"`dpkg` says: {complaint(out + err)}", out + err, "Fix that and run again")

    def _run(self, command: list[str]) -> tuple[int, str, str]:
        """Run a command, again as long as another process holds a lock that it needs."""
        for tries_left in reversed(range(TRIES)):
            rc, out, err = self.run_command(command, environ_update={"DEBIAN_FRONTEND": "noninteractive"})
            if rc == 0 or not LOCKED.search(out + err):
                break
            if tries_left:
                time.sleep(PAUSE)
        return rc, out, err


def problem_of_checksum(params: RepositoryRequest, installed: bool) -> str:
    """Return why the keyring package cannot be verified. A forged one would run its scripts as root."""
    given = params["keyring_sha256"]
    if re.fullmatch(r"[0-9a-fA-F]{64}", given) or (not given and installed):
        return ""
    wanted = f"set `workstation_cuda_repository.keyring_sha256` to {{{params['directory']}: <64 hexadecimal digits>}}"
    if given:
        return f"{given} is no SHA-256 of {params['keyring']}: {wanted}"
    return f"no SHA-256 of {params['keyring']} is known for {params['directory']} on {params['architecture']}: {wanted}"


def failure(problem: str, output: str, *remedy: str) -> Failed:
    """Return the failure of a command: a lock, if its output names one, otherwise *problem*."""
    if LOCKED.search(output):
        return Failed(
            f"another process has held a lock of apt or dpkg for {TRIES * PAUSE} s: {complaint(output)}",
            "Run again once that process has ended",
        )
    return Failed(problem, *remedy)


def complaint(output: str) -> str:
    """Return apt's errors in one line, each once."""
    lines = [line[2:].strip() for line in output.splitlines() if line[:2] in ("E:", "W:")]
    return " ".join(dict.fromkeys(lines)) or " ".join(output.split())


def reason(output: str) -> str:
    """Return apt's errors, and what they mean if that is known."""
    if re.search(r"SHA1|sqv|Sub-process .*gpgv?|not signed|NO_PUBKEY|EXPKEYSIG|public key", complaint(output)):
        return f"its key is refused: {complaint(output)}"
    return f"its index is broken or cannot be fetched: {complaint(output)}"


def read_sources() -> dict[str, str]:
    """Return apt's source files."""
    parts = [glob.glob(at(f"{SOURCES_PARTS}/*.{kind}")) for kind in ("list", "sources")]
    paths = [SOURCES_LIST, *sorted(f"{SOURCES_PARTS}/{os.path.basename(path)}" for paths in parts for path in paths)]
    return {path: text for path in paths if (text := read(path)) is not None}


def naming(address: str, texts: t.Mapping[str, str]) -> list[str]:
    """Return the source files that have an address."""
    return [
        path
        for path, text in texts.items()
        if any(
            address.rstrip("/") == uri.rstrip("/")
            for block in parse(path, text)
            for uri in (block.entry.uris if block.entry else ())
        )
    ]


def forget_index(source: str) -> None:
    """Remove the index that apt has fetched from the address in a source file: while it is there, apt asks for no other.

    The names are apt's own (URItoFileName in apt-pkg/contrib/strutl.cc).
    """
    for address in re.findall(r"\S+://(\S+)", source):
        quoted = re.sub(r'[\\|{}\[\]<>"^~_=!@#$%&*]', lambda match: f"%{ord(match[0]):02x}", address)
        for path in glob.glob(at(f"{LISTS}/{glob.escape(quoted.replace('/', '_'))}*")):
            os.unlink(path)


def at(path: str) -> str:
    return os.path.join(ROOT, path.lstrip("/"))


def read(path: str) -> str | None:
    try:
        with open(at(path), encoding="utf-8", errors="replace") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None


def describe(state: State) -> JsonObject:
    return {"keyring package": state.package, "source": state.source, "in use by the role": state.used}


def is_due(run: t.Callable[..., tuple[int, str, str]], user: str, options: t.Mapping[str, str]) -> bool:
    """Return whether the module would change something, or refuse these options. Without options: whether a role uses the repository."""
    state = "present" if options else "absent"
    request = {"user": user, "state": state, "directory": None, **options}
    repository = Repository(t.cast("RepositoryRequest", request), run)
    current = repository.read()
    if options and problem_of_checksum(repository.params, current.package is not None):
        return True
    return repository.plan(current) != current


def run(module: AnsibleModule) -> None:
    """Set the repository up, or end its use."""
    try:
        repository = Repository(module.params, module.run_command)
    except record.Damaged as error:
        module.fail_json(msg=f"{error}. Nothing was changed.")
    current = repository.read()
    if module.params["state"] == "present":
        problem = problem_of_checksum(module.params, current.package is not None)
        if problem:
            module.fail_json(
                msg=f"The CUDA repository {module.params['url']} cannot be used: {problem}. Nothing was changed."
            )
    wanted = repository.plan(current)
    changed = wanted != current
    try:
        if changed and module.params["state"] == "present":
            repository.check_sources_with(wanted.source or "")
            if not module.check_mode:
                repository.set_up(current, wanted)
        elif changed and not module.check_mode:
            repository.end_use()
    except Failed as error:
        if module.params["state"] == "absent":
            module.fail_json(msg=f"The package {PACKAGE} cannot be removed: {error}. {error.remedy}.")
        module.fail_json(
            msg=f"The CUDA repository {module.params['url']} cannot be used: {str(error).rstrip('.')}. Nothing was changed, and apt"
            f" works as before. {error.remedy}."
        )
    module.exit_json(
        changed=changed,
        source=repository.path if wanted.source is not None else None,
        diff={"before": describe(current), "after": describe(wanted)},
    )
