# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The use of py-rattler: solve, read and write locks, install into a prefix.

Traps of py-rattler 0.28 that are avoided here:
it does not compare archives of `file://` channels with their SHA-256;
it does not compare unpacked packages in the cache by default, whose files are hard links to those of environments: an edit of one is
an edit of the other;
`conda_repodata_records_for_platform` panics for a platform that is not the lock's own object.
"""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
import sys
import tempfile
import typing as t
import urllib.parse

from ansible_collections.rigwright.workstation.plugins.module_utils._conda.plan import CondaError, Package, Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._conda.uv import RunCommand

try:
    import rattler
    from rattler import exceptions
except ImportError:
    rattler = None  # type: ignore[assignment]
else:
    # Takes a tenth of a second, and is of no use without rattler.
    import asyncio

ENVIRONMENT = "default"
# rattler's message for `python 3.8`, which is 3.8 alone for some tools and any 3.8.x for others.
AMBIGUOUS = "missing range specifier"
# The builds of channels, and patterns of them.
BUILD = re.compile(r"[\w.+*]+")

Records = list[t.Any]


def is_available() -> bool:
    return rattler is not None


def packages_of(records: Records) -> dict[str, Package]:
    """Return the packages of records.

    :raises CondaError: a package has no SHA-256, so its archive could not be checked.
    """
    for record in records:
        if record.sha256 is None:
            raise CondaError(f"the channel states no SHA-256 for {record.file_name}: use another channel")
    return {
        record.name.normalized: Package(str(record.version), str(record.build), record.sha256.hex())
        for record in records
    }


# Specs


def channels(spec: Spec) -> Records:
    """Return the channels of a spec. A channel is an address, or a name below the alias."""
    # Without the slash the last part would be replaced, as in a relative link.
    alias = {"channel_alias": spec["channel_alias"].rstrip("/") + "/"} if spec["channel_alias"] else {}
    configuration = rattler.ChannelConfig(**alias)
    return [rattler.Channel(name, configuration) for name in spec["channels"]]


def match_spec(text: str) -> t.Any:
    """Return a match spec as conda reads it, and refuse one that tools read in two ways.

    Strict parsing also refuses what all of them read alike: `numpy ==2.3.1.*`, `python <3.11.*`, a build with dots.
    """
    try:
        return rattler.MatchSpec(text, strict=True)
    except exceptions.InvalidMatchSpecError as error:
        if AMBIGUOUS in str(error):
            raise
        lenient = rattler.MatchSpec(text, strict=False)
        if not BUILD.fullmatch(str(lenient.build or "*")):
            raise
        return lenient


def match_specs(name: str, texts: t.Iterable[str]) -> Records:
    specs = []
    for text in texts:
        try:
            specs.append(match_spec(text))
        except exceptions.InvalidMatchSpecError as error:
            raise CondaError(f"the environment {name} asks for the package {text!r}: {error}") from error
    return specs


def virtual_packages(cuda: str) -> Records:
    """Return the virtual packages of the system, with CUDA only as the spec says, so that solving gives the same result every time."""
    detected = [row.into_generic() for row in rattler.VirtualPackage.detect()]
    found = [row for row in detected if row.name.normalized != "__cuda"]
    if cuda:
        found.append(
            rattler.GenericVirtualPackage(
                rattler.PackageName("__cuda"), rattler.Version(cuda), rattler.BuildString("0")
            )
        )
    return found


def solve(name: str, spec: Spec, cuda: str, locked: Records, cache: str, timeout: int) -> Records:
    """Solve a spec and return the records of its packages. Those *locked* stay as they are as far as the spec allows.

    *cuda* is the version that the driver supports, *cache* keeps the channels' indexes, *timeout* is in seconds.
    """
    specs = match_specs(name, spec["packages"])
    gateway = rattler.Gateway(cache_dir=pathlib.Path(cache))
    task = rattler.solve(
        channels(spec), specs, gateway=gateway, locked_packages=locked, virtual_packages=virtual_packages(cuda)
    )
    try:
        return asyncio.run(_within(timeout, task))
    except exceptions.SolverError as error:
        wanted = ", ".join(spec["packages"])
        raise CondaError(
            f"the environment {name} ({wanted}) cannot be solved: {_message(error)}"
            f" Loosen one of these constraints, or take another channel than {', '.join(spec['channels'])}"
        ) from error
    except (exceptions.GatewayError, exceptions.InvalidChannelError) as error:
        raise CondaError(
            f"the channels of the environment {name} ({', '.join(spec['channels'])}) cannot be read: {_message(error)}"
            " Name channels that this host reaches"
        ) from error
    except asyncio.TimeoutError as error:
        raise CondaError(
            f"the environment {name} was not solved within {timeout} s: name channels that answer faster, or set a longer `timeout`"
        ) from error


def check_satisfied(name: str, spec: Spec, records: Records) -> None:
    """Refuse a lock without a package that the spec requests as well."""
    missing = [
        text
        for text, spec_ in zip(spec["packages"], match_specs(name, spec["packages"]))
        if not any(spec_.matches(record) for record in records)
    ]
    if missing:
        raise CondaError(
            f"the lock of the environment {name} has no {', '.join(missing)}, which `packages` asks for:"
            " renew the lock, or change `packages`"
        )


async def _within(timeout: int, task: t.Awaitable[Records]) -> Records:
    return await asyncio.wait_for(task, timeout)


def _message(error: Exception) -> str:
    """Return the message of an error of rattler, without its constant beginning."""
    return str(error).strip().replace("Cannot solve the request because of: ", "").rstrip(".") + "."


# Locks: rattler's own format, which pixi reads as well


def write_lock(path: str, spec: Spec, records: Records) -> None:
    platform = rattler.LockPlatform(str(rattler.Subdir.current()))
    lock = rattler.LockFile([platform])
    lock.set_channels(ENVIRONMENT, [rattler.LockChannel(channel.base_url) for channel in channels(spec)])
    for record in records:
        lock.add_conda_package(ENVIRONMENT, platform, record)
    lock.to_path(pathlib.Path(path))


def read_lock(path: str, subject: str) -> Records:
    """Return the records of a lock.

    :param subject: names the lock in messages.
    :raises CondaError: the lock is not valid, or has nothing for this kind of machine.
    """
    platform = str(rattler.Subdir.current())
    try:
        environment = rattler.LockFile.from_path(pathlib.Path(path)).environment(ENVIRONMENT)
    except exceptions.ParseCondaLockError as error:
        raise CondaError(f"{subject} cannot be read: {_message(error)} Make a new one") from error
    records = environment.conda_repodata_records().get(platform) if environment else None
    if not records:
        raise CondaError(f"{subject} has no packages for {platform}: make one that has")
    return t.cast(Records, records)


def read_lock_text(text: str, subject: str) -> Records:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "lock")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return read_lock(path, subject)


# Installing


# After an error rattler's threads go on linking until their process ends. So a process of its own installs, and ends with the module.
LINK = """\
import ctypes, os, signal, sys
parent, lock, environment, prefix, cache = sys.argv[1:]
PR_SET_PDEATHSIG = 1
ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
if os.getppid() != int(parent):
    os._exit(1)
import asyncio, pathlib, rattler
from rattler import exceptions as e
locked = rattler.LockFile.from_path(pathlib.Path(lock)).environment(environment)
records = locked.conda_repodata_records()[str(rattler.Subdir.current())]
trusting_nothing = rattler.PackageCache.new_layered([pathlib.Path(cache)], validation_mode=rattler.ValidationMode.full())
status = 0
try:
    asyncio.run(rattler.install(records, prefix, package_cache=trusting_nothing, show_progress=False))
except (e.InstallerError, e.LinkError, e.TransactionError, e.IoError) as error:
    status = 1
    print(error, file=sys.stderr, flush=True)
# Python's own end can crash on the threads that rattler still has.
os._exit(status)
"""


def install(name: str, lock: str, records: Records, prefix: str, cache: str, run_command: RunCommand) -> None:
    """Link the packages of a lock, which are `records`, into a new prefix.

    After an error only the prefix and the cache have changed, and nothing changes any more.
    """
    check_local_archives(name, records)
    command = [sys.executable, "-I", "-c", LINK, str(os.getpid()), lock, ENVIRONMENT, prefix, cache]
    status, _output, errors = run_command(command)
    if status != 0:
        message = errors.strip() or f"the linking ended with status {status}"
        raise CondaError(f"the environment {name} cannot be installed: {message.rstrip('.')}. {_remedy(message)}")


def _remedy(message: str) -> str:
    if "hash mismatch" in message:
        return (
            "The channel delivers another archive than its index states: use another channel, or report it to the owner"
        )
    if "os error 28" in message:
        return "Free space on the disk of `root`"
    return "Correct that and run again"


def check_local_archives(name: str, records: Records) -> None:
    for record in records:
        address = urllib.parse.urlsplit(record.url)
        if address.scheme == "file":
            path = urllib.parse.unquote(address.path)
            try:
                found = file_digest(path)
            except OSError as error:
                raise CondaError(
                    f"the environment {name} cannot be installed: {error}. Complete the channel {record.channel}"
                ) from error
            if found != record.sha256.hex():
                raise CondaError(
                    f"the environment {name} cannot be installed: hash mismatch of {path},"
                    f" which has the SHA-256 {found} and not {record.sha256.hex()}."
                    " The channel delivers another archive than its index states: use another channel, or report it to the owner"
                )


def file_digest(path: str) -> str:
    """Return the SHA-256 of a file, read in pieces: archives may have gigabytes."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()
