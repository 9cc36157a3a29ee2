# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Addresses of repositories: where they lead, what they need, and their secrets as files.

All kinds have one shape: a name, an address, the repository's password, and what the place asks for (a user of a REST server, an ssh key,
the environment of S3). Secrets leave this file only as the content of files that root alone reads.
"""

from __future__ import annotations

import functools
import hashlib
import json
import posixpath
import re
import typing as t
import urllib.parse

from ansible_collections.rigwright.workstation.plugins.module_utils._backup.backup_options import BackupRepositories
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.restic import parse_sftp
from ansible_collections.rigwright.workstation.plugins.module_utils._backup.value_types import BackupRequest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Problem
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow, Spec

LOCAL, SFTP, REST, S3, OTHER = "local", "sftp", "rest", "s3", "other"
SHORTEST = 12
VARIABLE = "backup_repositories"
NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_OTHERS = ("azure:", "b2:", "gs:", "rclone:", "swift:")

# The options of a repository in modules.
OPTIONS: Spec = {
    "name": {"type": "str", "required": True},
    "url": {"type": "str", "required": True, "no_log": False},
    "password": {"type": "str", "no_log": True},
    "password_file": {"type": "str", "no_log": False},
    "user": {"type": "str"},
    "user_password": {"type": "str", "no_log": True},
    "env": {"type": "dict", "no_log": True},
    "ca_certificate": {"type": "str"},
    "ssh_key": {"type": "str", "no_log": True},
    "known_hosts": {"type": "str"},
    "options": {"type": "list", "elements": "str"},
    "append_only": {"type": "bool"},
    "init": {"type": "bool", "default": True},
}


def public_rows(request: BackupRequest) -> list[RepositoryRow]:
    """Return the repositories of a request without secrets (_backup/request.py)."""
    return t.cast("list[RepositoryRow]", request["repositories"])


class RepositoryRow(t.TypedDict):
    """A repository without its secrets."""

    name: str
    kind: str
    local_path: str
    clear: bool
    append_only: bool
    init: bool
    password_file: str
    options: list[str]
    ca: bool
    ssh: bool
    secrets: list[str]
    fingerprint: str
    access: str
    place: str


class Address(t.NamedTuple):
    """The place of a repository."""

    kind: str
    path: str  # of one on this machine
    host: str
    encrypted: bool


def parse(url: str) -> Address | None:
    """Parse an address; return None for one that restic rejects or reads in another way."""
    if url.startswith("local:"):
        url = url[len("local:") :]
    if url.startswith("/"):
        # A backslash would be read in another way by the patterns that keep a repository out of its own backup.
        path = url.rstrip("/")
        fit = bool(path) and posixpath.normpath(path) == path and "\\" not in path
        return Address(LOCAL, path, "", encrypted=True) if fit else None
    if url.startswith("sftp:"):
        target, _port = parse_sftp(url)
        return Address(SFTP, "", target.rpartition("@")[2], encrypted=True) if target else None
    if url.startswith(("rest:", "s3:")):
        kind, _colon, rest = url.partition(":")
        try:
            parts = urllib.parse.urlsplit(rest if "://" in rest else f"https://{rest}")
            parts.port  # noqa: B018 - reading the attribute parses it
        except ValueError:
            return None
        if parts.scheme not in ("http", "https") or not parts.hostname or (kind == REST and "://" not in rest):
            return None
        return Address(kind, "", parts.hostname, parts.scheme == "https")
    return Address(OTHER, "", "", encrypted=True) if url.startswith(_OTHERS) and len(url) > url.index(":") + 1 else None


def full(entry: BackupRepositories) -> str:
    """Return the address as restic takes it, with the user and the password of a REST server."""
    url = str(entry["url"])
    user = entry.get("user")
    if not user or not url.startswith("rest:"):
        return url
    parts = urllib.parse.urlsplit(url[len("rest:") :])
    place = parts.netloc.rpartition("@")[2]
    credentials = ":".join(urllib.parse.quote(str(word), safe="") for word in (user, entry.get("user_password") or ""))
    return "rest:" + urllib.parse.urlunsplit(parts._replace(netloc=f"{credentials}@{place}"))


def texts(entry: BackupRepositories) -> dict[str, str]:
    """Return the content of each file of a repository, by kind. All but `ca` and `known_hosts` are secret."""
    found = {"address": full(entry) + "\n"}
    if entry.get("password"):
        found["password"] = f"{entry['password']}\n"
    environment = entry.get("env")
    if environment:
        found["environment"] = (
            json.dumps({str(key): str(value) for key, value in environment.items()}, sort_keys=True) + "\n"
        )
    public_texts = ("ca", entry.get("ca_certificate")), ("known_hosts", entry.get("known_hosts"))
    for kind, text in (("ssh_key", entry.get("ssh_key")), *public_texts):
        if text:
            found[kind] = str(text).rstrip("\n") + "\n"
    return found


def has_secret(url: str) -> bool:
    """Return whether the address of a server has a user or a password; addresses are shown."""
    kind, _colon, rest = url.partition(":")
    place = (rest.partition("://")[2] or rest).lstrip("/")
    user, at, _host = place.partition("/")[0].rpartition("@")
    return bool(at) and (kind in (REST, S3) or (kind == SFTP and ":" in user))


@functools.cache
def fingerprint(name: str, secret: str) -> str:
    """Return a fingerprint of a secret. It is expensive to compute, so that nobody can guess the secret from it."""
    if not secret:
        return ""
    return hashlib.scrypt(
        secret.encode("utf-8", "surrogateescape"),
        salt=f"rigwright backup {name}".encode(),
        n=1 << 14,
        r=8,
        p=1,
        dklen=16,
    ).hex()


def public(entry: BackupRepositories) -> RepositoryRow:
    """Return a repository without its secrets."""
    address = parse(str(entry["url"]))
    name, options = str(entry["name"]), [str(option) for option in entry.get("options") or []]
    found = texts(entry)
    access = [*options, *(text for kind, text in sorted(found.items()) if kind != "password")]
    return {
        "name": name,
        "kind": address.kind if address else "",
        "local_path": address.path if address else "",
        "clear": bool(address and not address.encrypted and address.host not in ("127.0.0.1", "::1", "localhost")),
        "append_only": entry.get("append_only") is True,
        "init": entry.get("init") is not False,
        "password_file": str(entry.get("password_file") or ""),
        "options": options,
        "ca": bool(entry.get("ca_certificate")),
        "ssh": bool(address and address.kind == SFTP),
        "secrets": sorted(found),
        "fingerprint": fingerprint(name, str(entry.get("password") or "")),
        "access": fingerprint(name, json.dumps(access)),
        "place": hashlib.sha256(str(entry["url"]).encode()).hexdigest()[:16],
    }


def requirements(entries: t.Sequence[BackupRepositories]) -> list[Problem]:
    """Validate the repositories; no message contains a secret."""
    found: list[Problem] = []

    def demand(ok: bool, problem: str, remedy: str) -> None:
        found.append({"ok": ok, "variable": VARIABLE, "problem": problem, "remedy": remedy})

    names = [str(entry["name"]) for entry in entries]
    for name in sorted({name for name in names if names.count(name) > 1}):
        demand(False, f"has two repositories of the name {name}", "give each a name of its own")
    for entry in entries:
        name, url = str(entry["name"]), str(entry["url"])
        address = None if has_secret(url) else parse(url)
        for key, value in (("append_only", entry.get("append_only")), ("init", entry.get("init"))):
            demand(
                isinstance(value, (bool, type(None))),
                f"has for {name} {key}: {value!r}, which is neither true nor false",
                "write true or false, without quotes",
            )
        for key, text in (("url", url), ("password_file", str(entry.get("password_file") or ""))):
            demand(
                text.isprintable() and text == text.strip() and not text.endswith("\\"),
                f"has for {name} a {key} with a line break, or a blank or backslash at an end",
                "remove it",
            )
        demand(
            bool(NAME.fullmatch(name)),
            f"has the name {name!r}",
            "use small letters, digits, - and _, beginning with a letter or digit",
        )
        demand(
            address is not None or has_secret(url),
            f"has for {name} an address that restic does not take",
            "write /absolute/path, sftp:user@host:/path, rest:https://host:8000/path/ or s3:https://host/bucket; "
            "with an address of IPv6 sftp://user@[fd00::1]:22//path",
        )
        demand(
            not has_secret(url),
            f"has for {name} a user or a password in the address, which is shown",
            "give them as user and user_password (REST) or in env (S3); sftp logs in by ssh_key",
        )
        password, file = str(entry.get("password") or ""), str(entry.get("password_file") or "")
        demand(
            bool(password or file),
            f"has no password for {name}",
            "make one with `openssl rand -base64 32`, keep it in a vault and on paper",
        )
        demand(not (password and file), f"has both a password and a password_file for {name}", "give one of them")
        demand(
            not password or len(password) >= SHORTEST,
            f"has for {name} a password of less than {SHORTEST} characters",
            "make one with `openssl rand -base64 32`",
        )
        demand(
            password == password.strip() and "\n" not in password,
            f"has for {name} a password with a line break, or a blank at an end",
            "remove it",
        )
        demand(
            not file or file.startswith("/"),
            f"has for {name} a password_file that is no absolute path",
            "name a file on the host, readable by root alone",
        )
        user = entry.get("user")
        demand(
            not user or bool(address and address.kind == REST),
            f"has for {name} a user, which only a REST server asks for",
            "put it into the address, or into env",
        )
        demand(
            not user or bool(entry.get("user_password")),
            f"has for {name} the user {user} without user_password",
            "set it to what the REST server asks that user for",
        )
        if address and address.kind == SFTP:
            demand(
                bool(entry.get("ssh_key")),
                f"has for {name} no ssh_key",
                "make one with `ssh-keygen -t ed25519`, and allow it on the server for sftp only",
            )
            demand(
                bool(entry.get("known_hosts")),
                f"has for {name} no known_hosts",
                "take it from `ssh-keyscan HOST`, and compare it with the server's own keys",
            )
    return found


def files(entries: t.Sequence[BackupRepositories], folder: str) -> list[FileRow]:
    """Return the files as config_files takes them."""
    return [
        {
            "path": f"{folder}/{entry['name']}.{kind}",
            "content": text,
            "mode": "0644" if kind in ("ca", "known_hosts") else "0600",
            "secret": kind not in ("ca", "known_hosts"),
        }
        for entry in entries
        for kind, text in sorted(texts(entry).items())
    ]
