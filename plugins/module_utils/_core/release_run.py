# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install a release on a host for one of its users, or remove what this user installed."""

from __future__ import annotations

import errno
import http.client
import json
import os
import shutil
import time
import typing as t
import urllib.error

from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_file,
    replace_link,
    sync_directory,
    sync_tree,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.download import copy, opened_url
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.record import Damaged
from ansible_collections.rigwright.workstation.plugins.module_utils._core.release import (
    DAMAGED,
    NOTHING,
    RECEIPT,
    Record,
    ReleaseError,
    ReleaseRequest,
    State,
    changed_links,
    check_request,
    find_damage,
    is_program,
    plan_absent,
    plan_present,
    sha256_of,
    unpack,
    unpack_program,
    wanted_links,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

# Status codes for which another attempt may succeed, among those of client errors (RFC 9110, section 15.5).
_RETRIED_ANSWERS = (408, 429)


SPEC: Spec = {
    "name": {"type": "str", "required": True},
    "user": {"type": "str"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "version": {"type": "str"},
    "url": {"type": "str"},
    "checksum": {"type": "str"},
    "programs": {"type": "dict"},
    "strip_components": {"type": "int", "default": 1},
    "keep": {"type": "int", "default": 1},
    "install_root": {"type": "path", "default": "/opt"},
    "timeout": {"type": "int", "default": 30},
    "retries": {"type": "int", "default": 3},
    "deadline": {"type": "int", "default": 1800},
    "max_mib": {"type": "int", "default": 1024},
}


class Receipt(t.TypedDict):
    """The archive that a version came from, and the digest of each file."""

    archive: str
    files: dict[str, str]


Description = t.TypedDict(
    "Description",
    {
        "version": t.Optional[str],
        "kept": list[str],
        "programs": dict[str, str],
        "archives": dict[str, str],
        "leftovers of an interrupted run": bool,
    },
)


class Release:
    """A release on this host, as one user of it sees it."""

    def __init__(self, params: ReleaseRequest) -> None:
        check_request(params)
        self.params = params
        self.version = params["version"]
        self.programs = params["programs"] or {}
        self.base = os.path.join(params["install_root"], params["name"])
        self.records = os.path.join(self.base, ".rigwright")
        self.work = os.path.join(self.records, "work")
        self.record = os.path.join(self.records, f"{params['user'] or params['name']}.json")

    # Reading

    def read(self) -> tuple[State, list[Record]]:
        """Read the state of this user, and the records of the other users.

        :raises ReleaseError: another user may write in a directory that the release needs.
        :raises Damaged: a record is damaged.
        """
        _refuse_open([self.records], "install_root")
        own = read_record(self.record)
        _refuse_open(map(os.path.dirname, [*own.links, *self.programs]), "programs")
        others = [read_record(path) for path in self._other_records()]
        paths = set(own.links).difference(*(other.links for other in others))
        if self.params["state"] == "present":
            paths.update(self.programs)
        links = {path: os.readlink(path) for path in sorted(paths) if os.path.islink(path)}
        state = State(
            archives=self._read_archives(),
            record=own,
            links={path: target for path, target in links.items() if target.startswith(f"{self.base}/")},
            leftovers=os.path.lexists(self.work) or any(map(_is_empty, (self.records, self.base))),
        )
        return state, others

    def _other_records(self) -> list[str]:
        if not os.path.isdir(self.records):
            return []
        paths = (
            os.path.join(self.records, name) for name in sorted(os.listdir(self.records)) if name.endswith(".json")
        )
        return [path for path in paths if path != self.record]

    def _read_archives(self) -> dict[str, str]:
        archives = {}
        for version in sorted(os.listdir(self.base)) if os.path.isdir(self.base) else []:
            directory = os.path.join(self.base, version)
            receipt = read_receipt(directory)
            if receipt is not None:
                damaged = version == self.version and find_damage(directory, receipt["files"], self.programs.values())
                archives[version] = DAMAGED if damaged else receipt["archive"]
        return archives

    def check_ways(self, current: State) -> None:
        """Refuse to replace files that this module did not create."""
        directory = os.path.join(self.base, self.version)
        if os.path.lexists(directory) and self.version not in current.archives:
            raise ReleaseError(
                f"{directory} is in the way: this module did not create it. Move it away, or set `install_root`."
            )
        for path in self.programs:
            if not os.path.isdir(os.path.dirname(path)):
                raise ReleaseError(
                    f"{os.path.dirname(path)} is no directory. Create it, or set `programs` to another link than {path}."
                )
            if os.path.lexists(path) and path not in current.links:
                raise ReleaseError(
                    f"{path} is in the way: it is no link into {self.base}. Move it away, or set `programs` to another link."
                )

    # Planning

    def plan(self, current: State, others: list[Record]) -> State:
        if self.params["state"] == "absent":
            return plan_absent(current, others)
        return plan_present(
            current,
            others,
            version=self.version,
            checksum=self.params["checksum"].lower(),
            links=wanted_links(self.base, self.version, self.programs),
            keep=self.params["keep"],
        )

    # Writing

    def apply(self, current: State, wanted: State) -> None:
        """Change the host to the wanted state.

        After an interruption at any step, no link leads to a version that could be removed: links are removed before their
        versions, and a version is recorded before a link leads to it.
        """
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.records, exist_ok=True)
        os.mkdir(self.work, 0o700)
        try:
            if self.version in wanted.archives and current.archives.get(self.version) != wanted.archives[self.version]:
                self._install()
            for path in current.links.keys() - wanted.links.keys():
                os.unlink(path)
            if wanted.record != NOTHING:
                self._write_json(self.record, wanted.record._asdict())
            elif os.path.exists(self.record):
                os.unlink(self.record)
            for path, target in wanted.links.items():
                if current.links.get(path) != target:
                    replace_link(path, target)
            for version in current.archives.keys() - wanted.archives.keys():
                self._discard(version)
        finally:
            shutil.rmtree(self.work)
            self._remove_empty_directories()

    def _install(self) -> None:
        tree = os.path.join(self.work, "tree")
        # One open file from the download to the unpacking: another file at its path cannot replace the checked content.
        with open(os.path.join(self.work, "archive"), "x+b") as archive:
            self._download(archive)
            self._check_and_unpack(archive, tree)
        # A power cut may not leave a record of files that never reached the disk.
        sync_tree(tree)
        self._discard(self.version)
        os.rename(tree, os.path.join(self.base, self.version))
        sync_directory(self.base)

    def _check_and_unpack(self, archive: t.IO[bytes], tree: str) -> None:
        url, checksum = self.params["url"], self.params["checksum"].lower()
        found = f"sha256:{sha256_of(archive)}"
        if found != checksum:
            raise ReleaseError(
                f"{url} is not the requested archive: its checksum is {found}, and `checksum` is {checksum}. Nothing was unpacked."
                " Compare both with what the publisher states, then set `checksum` or `url`."
            )
        try:
            program = is_program(url)
            strip = self.params["strip_components"]
            files = unpack_program(archive, tree, program) if program else unpack(archive, tree, strip)
        except ReleaseError as error:
            raise ReleaseError(
                f"{url} cannot be unpacked: {error}. Set `url` and `checksum` to another archive."
            ) from error
        missing = find_damage(tree, files, self.programs.values())
        if missing:
            raise ReleaseError(
                f"{url} has no program {', '.join(missing)}. Set `programs` to programs among what it has: {', '.join(sorted(files)[:20])}."
            )
        self._write_json(os.path.join(tree, RECEIPT), {"archive": checksum, "url": url, "files": files})

    def _download(self, file: t.IO[bytes]) -> None:
        url = self.params["url"]
        reason: Exception | None = None
        end = time.monotonic() + self.params["deadline"]
        for attempt in range(self.params["retries"] + 1):
            if attempt:
                time.sleep(2 ** (attempt - 1))
            try:
                file.seek(0)
                file.truncate()
                # Not decompressed: some servers declare an archive's own gzip as the encoding of the transfer.
                with opened_url(url, end - time.monotonic(), self.params["timeout"], decompress=False) as response:
                    copy(response, file, self.params["max_mib"] << 20)
                    length = response.headers.get("Content-Length")
                    if length is not None and file.tell() != int(length):
                        raise http.client.IncompleteRead(b"", int(length) - file.tell())
                return
            except urllib.error.HTTPError as error:
                reason = error
                if error.code < 500 and error.code not in _RETRIED_ANSWERS:
                    break
            except (OSError, http.client.HTTPException) as error:
                if isinstance(error, OSError) and error.errno == errno.ENOSPC:
                    raise
                reason = error
            except ValueError as error:
                reason = error
                break
        raise ReleaseError(
            f"{url} could not be downloaded: {reason}. Set `url` to an address that this host reaches."
        ) from reason

    def _discard(self, version: str) -> None:
        """Remove a version in one step, so that its directory is never incomplete."""
        directory = os.path.join(self.base, version)
        if os.path.lexists(directory):
            os.rename(directory, os.path.join(self.work, f"discarded-{version}"))

    def _write_json(self, path: str, data: t.Any) -> None:
        replace_file(path, json.dumps(data, indent=1, sort_keys=True), work=self.work)

    def _remove_empty_directories(self) -> None:
        for directory in (self.records, self.base):
            if _is_empty(directory):
                os.rmdir(directory)


def _refuse_open(directories: t.Iterable[str], option: str) -> None:
    problem = open_problem(directories, option)
    if problem:
        raise ReleaseError(f"{problem}.")


def _is_empty(directory: str) -> bool:
    return os.path.isdir(directory) and not os.listdir(directory)


def read_receipt(directory: str) -> Receipt | None:
    """Return what a version consists of; None where the directory is not of this module.

    :raises Damaged: the receipt is damaged.
    """
    remedy = f"remove {directory} and run again"
    shape = {"archive": str, "files": {str: str}}
    return t.cast("Receipt | None", record.read(os.path.join(directory, RECEIPT), remedy, shape))


def read_record(path: str) -> Record:
    """Return what a user of a release relies on.

    :raises Damaged: the record is damaged.
    """
    found = record.read(path, "remove it and run again", {"versions": [str], "links": [str]})
    return Record(found["versions"], found["links"]) if found else NOTHING


def describe(state: State) -> Description:
    """Return the state as a diff shows it."""
    return {
        "version": next(iter(state.record.versions), None),
        "kept": state.record.versions[1:],
        "programs": state.links,
        "archives": state.archives,
        "leftovers of an interrupted run": state.leftovers,
    }


def is_due(**request: t.Any) -> bool:
    """Return whether ``release_archive`` would change something for this request, or say why it cannot. Changes nothing."""
    try:
        defaults = {name: option.get("default") for name, option in SPEC.items()}
        release = Release(t.cast("ReleaseRequest", {**defaults, **request}))
        current, others = release.read()
        return release.plan(current, others) != current
    except (ReleaseError, Damaged, OSError):
        return True


def run(module: AnsibleModule) -> None:
    """Install or remove the release and end the module."""
    try:
        release = Release(module.params)
        # Releases with other names can be downloaded at the same time.
        with module_lock(module, f"release_archive.{module.params['name']}"):
            current, others = release.read()
            if module.params["state"] == "present":
                release.check_ways(current)
            wanted = release.plan(current, others)
            changed = wanted != current
            if changed and not module.check_mode:
                release.apply(current, wanted)
    except (ReleaseError, Damaged) as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        remedy = f" Free space on the disk of {module.params['install_root']}." if error.errno == errno.ENOSPC else ""
        module.fail_json(msg=f"{module.params['name']} could not be installed: {error}.{remedy}")
    in_use = describe(wanted)
    module.exit_json(
        changed=changed,
        version=in_use["version"],
        previous=next(iter(in_use["kept"]), None),
        directory=os.path.join(release.base, in_use["version"]) if in_use["version"] else None,
        changed_paths=changed_links(current, wanted),
        diff={"before": describe(current), "after": in_use},
    )
