# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Create, renew and remove a private CA and a certificate that it signs."""

from __future__ import annotations

import datetime
import errno
import grp
import os
import pwd
import shutil
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import accounts
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import sync_directory, sync_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate import (
    PRINTED,
    Certificate,
    CertificateError,
    CertificateRequest,
    alternative_name,
    check_request,
    days_left,
    find_ca_problems,
    find_reasons,
    parse_certificate,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.directories import open_file
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import Diff, Spec
from ansible_collections.rigwright.workstation.plugins.module_utils._core.writable import open_problem

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule


SPEC: Spec = {
    "directory": {"type": "path", "required": True},
    "name": {"type": "str", "default": "server"},
    "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
    "names": {"type": "list", "elements": "str"},
    "ca_common_name": {"type": "str", "default": "Private CA"},
    "ca_days": {"type": "int", "default": 3650},
    "days": {"type": "int", "default": 825},
    "renew_days": {"type": "int", "default": 30},
    "renew_ca": {"type": "bool", "default": False},
    "owner": {"type": "str", "default": "root"},
    "group": {"type": "str", "default": "root"},
    "mode": {"type": "str", "default": "0640"},
}


class Pair(t.NamedTuple):
    """The paths of a certificate and its key."""

    certificate: str
    key: str

    def inside(self, directory: str) -> Pair:
        """Return the paths of the same files in another directory."""
        return Pair(*(os.path.join(directory, os.path.basename(path)) for path in self))


class State(t.NamedTuple):
    """The files of a host, and why they have to be replaced."""

    ca: Certificate | None
    make_ca: bool
    certificate: Certificate | None
    reasons: list[str]
    attributes: dict[str, str]
    """Mode, owner and group of each file that is there."""
    leftovers: bool


class Validity(t.TypedDict, total=False):
    """A certificate as a diff shows it; the names of a CA are not shown."""

    names: list[str]
    not_after: str


Description = t.TypedDict(
    "Description",
    {
        "ca": t.Optional[Validity],
        "certificate": t.Optional[Validity],
        "files": dict[str, str],
        "leftovers of an interrupted run": bool,
    },
)


class Result(t.TypedDict):
    """The result of the module."""

    changed: bool
    ca_certificate: str | None
    not_after: str | None
    fingerprint: str | None
    reasons: list[str]
    changed_paths: list[str]
    diff: Diff


class Authority:
    """The private CA in a directory, and the certificate that it signs."""

    def __init__(self, module: AnsibleModule, params: CertificateRequest) -> None:
        self.module = module
        self.params = params
        self.now = datetime.datetime.now(datetime.timezone.utc)
        self.directory: str = self.params["directory"]
        # Unfinished files are written here, so that files in the directory itself are always complete.
        self.work = os.path.join(self.directory, ".new")
        self.ca = Pair("ca.crt", "ca.key").inside(self.directory)
        self.server = Pair(f"{self.params['name']}.crt", f"{self.params['name']}.key").inside(self.directory)

    def wanted_attributes(self) -> dict[str, str]:
        key = f"{int(self.params['mode'], 8):04o} {self.params['owner']}:{self.params['group']}"
        return {
            self.ca.certificate: "0644 root:root",
            self.ca.key: "0600 root:root",
            self.server.certificate: "0644 root:root",
            self.server.key: key,
        }

    def changed_paths(self, current: State) -> list[str]:
        """Return the files that `apply` changes."""
        created = (self.ca if current.make_ca else ()) + (self.server if current.reasons else ())
        wanted = self.wanted_attributes()
        return sorted(path for path in wanted if path in created or current.attributes.get(path) != wanted[path])

    # Reading

    def check_place(self) -> None:
        """Refuse a directory in which another user may write."""
        problem = open_problem([self.directory], "directory")
        if problem:
            raise CertificateError(f"{problem}.")

    def read(self) -> State:
        ca = self._read_certificate(self.ca)
        make_ca = not os.path.exists(self.ca.certificate)
        if not make_ca:
            make_ca = self._must_renew_ca(ca)
        certificate = self._read_certificate(self.server)
        reasons = find_reasons(
            certificate,
            public_key=self._read_public_key(self.server),
            signed=not make_ca and self._is_signed(),
            names=self.params["names"],
            days=self.lifetime(None if make_ca else ca),
            renew_days=self.params["renew_days"],
            now=self.now,
        )
        return State(ca, make_ca, certificate, reasons, self.read_attributes(), os.path.lexists(self.work))

    def _must_renew_ca(self, ca: Certificate | None) -> bool:
        problems = find_ca_problems(ca, self._read_public_key(self.ca), self.now)
        ends_soon = ca is not None and days_left(ca, self.now) < self.params["renew_days"]
        if problems and not self.params["renew_ca"]:
            raise CertificateError(
                f"The CA {self.ca.certificate} can sign nothing: {'; '.join(problems)}. Restore its files, or set"
                " `renew_ca` to create a new one; every client then needs its certificate."
            )
        if ca is not None and ends_soon and not self.params["renew_ca"]:
            self.module.warn(
                f"The CA {self.ca.certificate} ends on {ca.not_after:%Y-%m-%d}. Set `renew_ca` to create a new one;"
                " every client then needs its certificate."
            )
        return self.params["renew_ca"] and (bool(problems) or ends_soon)

    def lifetime(self, ca: Certificate | None) -> int:
        """Return the days that a certificate can last: never longer than its CA. A CA that is missing is created and lasts longer."""
        return self.params["days"] if ca is None else min(self.params["days"], days_left(ca, self.now))

    def _read_certificate(self, pair: Pair) -> Certificate | None:
        rc, out, _err = self._openssl("x509", "-in", pair.certificate, *PRINTED)
        return parse_certificate(out) if rc == 0 else None

    def _read_public_key(self, pair: Pair) -> str | None:
        rc, out, _err = self._openssl("pkey", "-in", pair.key, "-pubout")
        return out.strip() if rc == 0 else None

    def _is_signed(self) -> bool:
        # The check ignores the time, which find_reasons checks, and the CAs of the system.
        only = ["-no_check_time", "-no-CApath", "-no-CAstore", "-CAfile", self.ca.certificate]
        return self._openssl("verify", *only, self.server.certificate)[0] == 0

    def read_attributes(self) -> dict[str, str]:
        return {path: _attributes(path) for path in (*self.ca, *self.server) if os.path.lexists(path)}

    def read_ca(self) -> str | None:
        """Return the certificate of the CA, for clients."""
        if not os.path.exists(self.ca.certificate):
            return None
        with open(self.ca.certificate, encoding="ascii") as file:
            return file.read()

    # Writing

    def apply(self, current: State) -> None:
        created = not os.path.isdir(self.directory)
        if created:
            os.mkdir(self.directory)
            os.chmod(self.directory, 0o755)  # noqa: S103 - the files in it have their own modes
        shutil.rmtree(self.work, ignore_errors=True)
        os.mkdir(self.work, 0o700)
        umask = os.umask(0o077)
        try:
            new: list[str] = []
            ca = self.ca
            if current.make_ca:
                ca = self._make_ca()
                new += [ca.key, ca.certificate]
            if current.reasons:
                server = self._make_certificate(ca, self.lifetime(None if current.make_ca else current.ca))
                new += [server.key, server.certificate]
            for path in new:
                place = os.path.join(self.directory, os.path.basename(path))
                _set_attributes(path, self.wanted_attributes()[place])
                sync_file(path)
            # A key goes before its certificate: a key alone is no CA that anybody could trust yet.
            for path in new:
                os.replace(path, os.path.join(self.directory, os.path.basename(path)))
            sync_directory(self.directory)
            for path, attributes in self.wanted_attributes().items():
                if _attributes(path) != attributes:
                    _set_attributes(path, attributes)
        finally:
            os.umask(umask)
            shutil.rmtree(self.work)
            if created and not os.listdir(self.directory):
                os.rmdir(self.directory)

    def _make_ca(self) -> Pair:
        new = self.ca.inside(self.work)
        if not os.path.exists(self.ca.certificate) and self._read_public_key(self.ca) is not None:
            # Only the certificate is lost: the same key keeps the copies that clients have valid.
            shutil.copyfile(self.ca.key, new.key)
        else:
            self._make_key(new.key)
        extensions = [
            "basicConstraints=critical,CA:TRUE,pathlen:0",
            "keyUsage=critical,keyCertSign,cRLSign",
            "subjectKeyIdentifier=hash",
        ]
        self._sign(new, self.params["ca_common_name"], self.params["ca_days"], extensions)
        return new

    def _make_certificate(self, ca: Pair, days: int) -> Pair:
        new = self.server.inside(self.work)
        self._make_key(new.key)
        extensions = [
            "basicConstraints=critical,CA:FALSE",
            "keyUsage=critical,digitalSignature",
            "extendedKeyUsage=serverAuth",
            "subjectKeyIdentifier=hash",
            "authorityKeyIdentifier=keyid",
            "subjectAltName=" + ",".join(alternative_name(name) for name in self.params["names"]),
        ]
        # Clients look at the alternative names; a common name is for people, and holds 64 characters (RFC 5280).
        common_name = self.params["names"][0][:64]
        self._sign(new, common_name, days, extensions, "-CA", ca.certificate, "-CAkey", ca.key)
        return new

    def _make_key(self, path: str) -> None:
        _write(path, self._must("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"))

    def _sign(self, new: Pair, common_name: str, days: int, extensions: list[str], *signer: str) -> None:
        # Without the system's openssl.cnf, so that the certificate is the same everywhere.
        base = ["-x509", "-new", "-config", os.devnull, "-subj", f"/CN={common_name}", "-days", str(days), *signer]
        added = [word for extension in extensions for word in ("-addext", extension)]
        _write(new.certificate, self._must("req", *base, *added, "-key", new.key))

    def _openssl(self, *arguments: str) -> tuple[int, str, str]:
        return self.module.run_command([self.module.get_bin_path("openssl", required=True), *arguments])

    def _must(self, *arguments: str) -> str:
        rc, out, err = self._openssl(*arguments)
        if rc != 0:
            raise CertificateError(f"openssl {arguments[0]} failed: {err.strip()}")
        return out

    def remove(self) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        for path in self.read_attributes():
            os.unlink(path)
        if not os.listdir(self.directory):
            os.rmdir(self.directory)


def _write(path: str, text: str) -> None:
    # Not by openssl's own -out: OpenSSL 3 reports success when the disk is full.
    with open(path, "x", encoding="ascii") as file:
        file.write(text)


def _attributes(path: str) -> str:
    status = os.lstat(path)
    return f"{status.st_mode & 0o7777:04o} {_name(pwd.getpwuid, status.st_uid)}:{_name(grp.getgrgid, status.st_gid)}"


def _name(lookup: t.Callable[[int], t.Any], number: int) -> str:
    try:
        return lookup(number)[0]
    except KeyError:
        return str(number)


def _set_attributes(path: str, attributes: str) -> None:
    mode, names = attributes.split(" ")
    owner, group = names.split(":")
    # By descriptor: nothing behind a link gets another owner or mode.
    with open(open_file(path), "rb") as file:
        # The owner first: chown takes bits of the mode away.
        shutil.chown(file.fileno(), owner, group)
        os.fchmod(file.fileno(), int(mode, 8))


def _date(moment: datetime.datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def describe(state: State) -> Description:
    """Return the state as a diff shows it."""
    return {
        "ca": {"not_after": _date(state.ca.not_after)} if state.ca else None,
        "certificate": {"names": sorted(state.certificate.names), "not_after": _date(state.certificate.not_after)}
        if state.certificate
        else None,
        "files": state.attributes,
        "leftovers of an interrupted run": state.leftovers,
    }


def predict(authority: Authority, current: State) -> Description:
    """Return what `describe` returns after `apply`."""
    params, after = authority.params, describe(current)
    after["leftovers of an interrupted run"] = False
    after["files"] = authority.wanted_attributes()
    if current.make_ca:
        after["ca"] = {"not_after": _date(authority.now + datetime.timedelta(days=params["ca_days"]))}
    if current.reasons:
        days = authority.lifetime(None if current.make_ca else current.ca)
        after["certificate"] = {
            "names": sorted({alternative_name(name) for name in params["names"]}),
            "not_after": _date(authority.now + datetime.timedelta(days=days)),
        }
    return after


def check_host(params: CertificateRequest) -> None:
    """Refuse a missing directory, user or group. Not called in check mode, where an earlier task may create it."""
    parent = os.path.dirname(params["directory"])
    if not os.path.isdir(parent):
        raise CertificateError(f"{parent} is no directory. Create it, or set `directory` to another place.")
    owner, group = params["owner"], params["group"]
    for key, name, entry in (("owner", owner, accounts.user(owner)), ("group", group, accounts.group(group))):
        if entry is None:
            raise CertificateError(f"There is no {key} {name}. Create it, or set `{key}` to one of this host.")


def keep(authority: Authority, check_mode: bool) -> Result:
    """Create and renew the CA and the certificate where due, and return the result of the module."""
    authority.check_place()
    current = authority.read()
    before, after = describe(current), predict(authority, current)
    changed, reasons, changed_paths = before != after, current.reasons, authority.changed_paths(current)
    if changed and not check_mode:
        authority.apply(current)
        current = authority.read()
        after = describe(current)
    return {
        "changed": changed,
        "ca_certificate": authority.read_ca(),
        "not_after": after["certificate"]["not_after"] if after["certificate"] else None,
        "fingerprint": current.certificate.fingerprint if current.certificate else None,
        "reasons": reasons,
        "changed_paths": changed_paths,
        "diff": {"before": before, "after": after},
    }


def drop(authority: Authority, check_mode: bool) -> Result:
    """Remove the CA and the certificate, and return the result of the module."""
    authority.check_place()
    files = authority.read_attributes()
    changed = bool(files) or os.path.lexists(authority.work)
    if changed and not check_mode:
        authority.remove()
    return {
        "changed": changed,
        "ca_certificate": None,
        "not_after": None,
        "fingerprint": None,
        "reasons": [],
        "changed_paths": sorted(files),
        "diff": {"before": {"files": files}, "after": {"files": {}}},
    }


def is_due(module: AnsibleModule, **request: t.Any) -> bool:
    """Return whether ``tls_certificate`` would change something for this request, or say why it cannot. Changes nothing."""
    defaults = {name: option.get("default") for name, option in SPEC.items()}
    authority = Authority(module, t.cast("CertificateRequest", {**defaults, **request}))
    if authority.params["state"] == "present" and not module.get_bin_path("openssl"):
        # A package that the role is about to install may bring it.
        return True
    try:
        if authority.params["state"] == "absent":
            return bool(drop(authority, check_mode=True)["changed"])
        check_request(authority.params)
        return bool(keep(authority, check_mode=True)["changed"])
    except (CertificateError, OSError):
        return True


def run(module: AnsibleModule) -> None:
    """Keep or remove the certificate and end the module."""
    with module_lock(module, "tls_certificate"):
        _run(module)


def _run(module: AnsibleModule) -> None:
    authority = Authority(module, module.params)
    try:
        if module.params["state"] == "absent":
            result = drop(authority, module.check_mode)
        else:
            check_request(module.params)
            if not module.check_mode:
                check_host(module.params)
            result = keep(authority, module.check_mode)
    except CertificateError as error:
        module.fail_json(msg=str(error))
    except OSError as error:
        remedy = " Free space on its disk." if error.errno == errno.ENOSPC else ""
        module.fail_json(msg=f"The certificate in {authority.directory} could not be kept: {error}.{remedy}")
    module.exit_json(**result)
