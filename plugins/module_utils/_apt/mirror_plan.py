# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the files that send a host's package managers to mirrors."""

from __future__ import annotations

import dataclasses
import datetime
import glob
import os
import re
import tempfile
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt import archive, mirror_request, pip_conf
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import mirrors as apt_mirrors
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import sources as apt_sources
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import (
    Finding,
    Problem,
    finding,
    problem,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import DirectoryRow, FileRow, JsonObject

if t.TYPE_CHECKING:
    from ansible_collections.rigwright.workstation.plugins.module_utils._core.runner import Runner

ROOT = "/"
# Not below /var/lib/rigwright, which belongs to config_files.
MEMORY = "/var/lib/rigwright_mirrors/choice.json"
LISTS = "/var/lib/apt/lists"
MIRROR_LISTS = "/etc/apt/mirrors"
APT_OPTIONS = "/etc/apt/apt.conf.d/80rigwright-mirrors"
CLOUD_INIT = "/etc/cloud/cloud.cfg.d"
# timeout(1): the command was ended.
TIMED_OUT = 124
APT_HELPER = "/usr/lib/apt/apt-helper"


class Refused(Exception):
    """A file of the host cannot be read."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason


@dataclasses.dataclass
class Plan:
    """The files for the caller to write, the state of the mirrors, and why there is none."""

    files: list[FileRow] = dataclasses.field(default_factory=list)
    directories: list[DirectoryRow] = dataclasses.field(default_factory=list)
    asked: bool = False  # kept: a returned key
    mirrors: list[apt_mirrors.Mirror] = dataclasses.field(default_factory=list)
    requirements: list[Problem] = dataclasses.field(default_factory=list)

    @property
    def states(self) -> list[str]:
        """Return a line for each mirror, or the reason why there is none."""
        lines = [": ".join(filter(None, (mirror.url, mirror.status, mirror.reason))) for mirror in self.mirrors]
        return lines or [f"{row['variable']}: {row['problem']}; {row['remedy']}" for row in self.requirements]

    @property
    def fit(self) -> bool:
        """Return whether there are mirrors, and no reason not to use them."""
        return bool(self.mirrors) and all(
            mirror.status in (apt_mirrors.FIT, apt_mirrors.UNCHECKED) for mirror in self.mirrors
        )

    def add(self, path: str, content: str | None) -> None:
        self.files.append({"path": path, "state": "absent"} if content is None else {"path": path, "content": content})


class Planner:
    """One request and the package sources of the host."""

    def __init__(self, params: mirror_request.Params, fetch: apt_mirrors.Fetch) -> None:
        self.params = params
        self.services = mirror_request.Services.of(params)
        self.fetch = fetch
        self.plan = Plan()
        data: JsonObject = {
            key: tuple(value) if isinstance(value, list) else value for key, value in params["distribution"].items()
        }
        self.security_suffix: str = data.pop("security_suffix")
        self.distribution = archive.Distribution(**data)

    def run(self) -> Plan:
        """Plan the files. What is wrong by itself is refused, and no mirror is asked."""
        self.plan.requirements += mirror_request.problems(self.params, self.services)
        if self.plan.requirements:
            return self.plan
        try:
            self._plan_files()
        except apt_mirrors.NoMirror as error:
            remedy = "set other mirrors, or `mirrors_check: false` to use them unseen"
            self.plan.requirements.append(problem("mirrors_apt_urls", f"no mirror can be used. {error}", remedy))
        except archive.NoArchive as error:
            text = f"{error}, so its suites and keys are unknown"
            remedy = "run `apt-get update` once, which shows whose the sources are, or give the host its own sources back first"
            self.plan.requirements.append(problem("mirrors_apt_urls", text, remedy))
        except Refused as error:
            self.plan.requirements.append(problem(error.path, error.reason, "correct it, or move it away"))
        return self.plan

    def _plan_files(self) -> None:
        if self.services.apt_urls:
            self._plan_apt()
        if self.services.pip_url:
            try:
                text = pip_conf.set_index(read(pip_conf.PATH) or "", self.services.pip_url)
            except pip_conf.Unreadable as error:
                raise Refused(pip_conf.PATH, str(error)) from error
            self.plan.add(pip_conf.PATH, text)
            self.plan.files[-1]["merged"] = True
        files, directories = mirror_request.files(self.services)
        self.plan.files += files
        self.plan.directories += directories

    def update(self) -> list[str]:
        """Return the command by which apt reads the mirrors.

        It tests only the file that this role writes: a broken source of a third party is no reason to refuse a mirror. Without
        Error-Mode=any, `apt-get update` succeeds with a warning if a mirror is dead.
        """
        options = (
            f"Dir::Etc::sourcelist={self.distribution.file}",
            "Dir::Etc::sourceparts=/dev/null",
            "APT::Get::List-Cleanup=0",
            "APT::Update::Error-Mode=any",
        )
        return ["apt-get", "update", *(word for option in options for word in ("-o", option))]

    def choice(self) -> list[Finding]:
        """Return the finding on the mirrors in use."""
        if not self.services.apt_urls:
            return []
        remedy = "correct mirrors_apt_urls, or set mirrors_recheck to true once they are back"
        status = "pass" if self.plan.fit else "warn"
        return [finding("mirrors.choice", status, "; ".join(self.plan.states), remedy)]

    def _plan_apt(self) -> None:
        texts = read_sources()
        remembered = apt_mirrors.from_json(read(MEMORY) or "")
        same = remembered is not None and remembered.request.codename == self.distribution.codename
        suites = remembered.request.suites if remembered and same else ()
        found = archive.survey(texts, self.distribution, read_releases(texts), suites)
        # The host's files no longer have the addresses that security updates had before the mirrors.
        taken = remembered.security_uris if remembered and remembered.request.security else ()
        choice = self._choose(found, remembered, taken or tuple(found.security_uris))
        self.plan.mirrors = [*choice.order, *choice.left_out]
        # The order matters if the run is interrupted: the record, and the lists that the sources point to, come first.
        self.plan.directories.append({"path": os.path.dirname(MEMORY)})
        self.plan.add(MEMORY, apt_mirrors.to_json(choice))
        uri = self._address(self.distribution.id, [mirror.url for mirror in choice.order])
        if not self.params["security"]:
            security_uris = taken
        elif self.security_suffix:
            urls = [mirror.url + self.security_suffix for mirror in choice.order]
            security_uris = (self._address(f"{self.distribution.id}{self.security_suffix}", urls),)
        else:
            security_uris = (uri,)
        # A file that config_files has removed has to stay in the list, or config_files restores it.
        managed = [path for path in Store("mirrors", ROOT.rstrip("/") + STORE).load() if is_source(path)]
        for path, text in archive.plan(found, uri, security_uris, managed).items():
            self.plan.add(path, text)
        if len(choice.order) > 1:
            self.plan.add(APT_OPTIONS, apt_options(self.params["timeout"]))
        if os.path.isdir(at(CLOUD_INIT)):
            # cloud-init would overwrite the sources on its first run.
            self.plan.add(f"{CLOUD_INIT}/99-rigwright-mirrors.cfg", "apt:\n  preserve_sources_list: true\n")

    def _choose(
        self, found: archive.Survey, remembered: apt_mirrors.Choice | None, security_uris: tuple[str, ...]
    ) -> apt_mirrors.Choice:
        request = apt_mirrors.Request(
            urls=tuple(url.rstrip("/") for url in self.services.apt_urls),
            codename=self.distribution.codename,
            suites={
                suite: self.security_suffix if self.distribution.is_security(suite) else ""
                for suite in found.suites(self.params["security"])
            },
            security=self.params["security"],
            ask=self.params["check"],
            max_age_days=self.params["max_age_days"],
        )
        if remembered and remembered.request == request and not self.params["recheck"]:
            return remembered
        if not request.ask:
            return apt_mirrors.choose(request, [apt_mirrors.Mirror(url) for url in request.urls], security_uris)
        self.plan.asked = True
        self.plan.mirrors = apt_mirrors.examine_all(request, self.fetch, datetime.datetime.now(datetime.timezone.utc))
        return apt_mirrors.choose(request, self.plan.mirrors, security_uris)

    def _address(self, name: str, urls: t.Sequence[str]) -> str:
        """Return the address for the sources: the mirror itself, or a list of mirrors that apt tries in order."""
        if len(urls) == 1:
            return urls[0]
        path = f"{MIRROR_LISTS}/{name}.list"
        if {"path": MIRROR_LISTS} not in self.plan.directories:
            self.plan.directories.append({"path": MIRROR_LISTS})
        self.plan.add(path, apt_mirrors.mirror_list(urls))
        return f"mirror+file:{path}"


def apt_options(timeout: int) -> str:
    """Return the options that let apt change to the next mirror soon.

    By default apt tries a mirror that hangs four times, up to a minute each, for every suite, before it tries the next one.
    Measured with apt 2.6 and two suites: 160 s at a timeout of 10 s, 80 s with these options.
    """
    return (
        "// Several mirrors are listed: the next one is tried soon, instead of the same one again.\n"
        'Acquire::Retries "1";\n'
        f'Acquire::http::Timeout "{timeout}";\n'
        f'Acquire::https::Timeout "{timeout}";\n'
    )


def at(path: str) -> str:
    return os.path.join(ROOT, path.lstrip("/"))


def read(path: str) -> str | None:
    """Return the text of a file; None if there is none."""
    try:
        with open(at(path), encoding="utf-8") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except UnicodeDecodeError as error:
        raise Refused(path, f"is not UTF-8 text: {error.reason}") from error


def is_source(path: str) -> bool:
    # apt reads no other names (sources.list(5)).
    return path == apt_sources.SOURCES_LIST or bool(
        re.fullmatch(rf"{apt_sources.SOURCES_PARTS}/[\w.-]+\.(list|sources)", path)
    )


def read_sources() -> dict[str, str]:
    names = sorted(os.path.basename(path) for path in glob.glob(at(f"{apt_sources.SOURCES_PARTS}/*")))
    paths = [apt_sources.SOURCES_LIST, *(f"{apt_sources.SOURCES_PARTS}/{name}" for name in names)]
    texts = {path: read(path) for path in paths if is_source(path)}
    return {path: text for path, text in texts.items() if text is not None}


def read_releases(texts: dict[str, str]) -> dict[tuple[str, str], archive.Release]:
    """Return what the Release files that apt has say, by address and suite."""
    entries = [block.entry for path, text in texts.items() for block in apt_sources.parse(path, text) if block.entry]
    releases = {}
    for uri, suite in {(uri, suite) for entry in entries for uri in entry.uris for suite in entry.suites}:
        text = read(f"{LISTS}/{list_name(uri, suite)}") or ""
        fields = dict(re.findall(r"^(Origin|Codename): *(.+?)\s*$", text, re.MULTILINE))
        if "Origin" in fields:
            releases[uri, suite] = archive.Release(fields["Origin"], fields.get("Codename", ""))
    return releases


def list_name(uri: str, suite: str) -> str:
    """Return the name under which apt keeps a Release file (URItoFileName in apt-pkg/contrib/strutl.cc)."""
    address = re.sub(r"^[a-z0-9+.-]+:(?://)?(?:[^/@]*@)?", "", apt_mirrors.release_url(uri, suite))
    return re.sub(r'[\\|{}\[\]<>"^~_=!@#$%&*]', lambda match: f"%{ord(match[0]):02x}", address).replace("/", "_")


def fetcher(module: Runner, timeout: int) -> apt_mirrors.Fetch:
    """Return a function that fetches with apt's own transport: a mirror that apt cannot reach is of no use."""

    def fetch(url: str) -> str:
        with tempfile.TemporaryDirectory() as directory:
            target = os.path.join(directory, "InRelease")
            options = {
                "Acquire::Retries": 0,
                "Acquire::http::Timeout": timeout,
                "Acquire::https::Timeout": timeout,
                # apt's unprivileged user cannot write to root's private directory; apt would print a warning and continue.
                "APT::Sandbox::User": "root",
            }
            command = [
                # apt's timeout is for one step (name, connection, answer); this one is for all of them.
                *("timeout", str(3 * timeout)),
                APT_HELPER,
                "download-file",
                url,
                target,
                *(f"-o{name}={value}" for name, value in options.items()),
            ]
            status, _out, message = module.run_command(command)
            if status == TIMED_OUT:
                raise apt_mirrors.Unreachable(f"no answer within {3 * timeout} s")
            if status != 0:
                raise failure(message, url)
            with open(target, encoding="utf-8", errors="replace") as file:
                return file.read()

    return fetch


def failure(message: str, url: str) -> apt_mirrors.Unreachable:
    """Return apt's error without the parts that the caller knows already."""
    match = re.search(rf"^E: Failed to fetch {re.escape(url)} +(.*)$", message, re.MULTILINE)
    # "[IP: ...]" differs from run to run where a name has several addresses.
    reason = re.sub(r" *\[IP: [^]]*\]$", "", (match[1] if match else message).strip())
    return apt_mirrors.Missing(reason) if re.match(r"(404|410|403)\b", reason) else apt_mirrors.Unreachable(reason)


class MirrorPlan(t.TypedDict):
    """The plan, as the tasks of the role take it. *asked* says whether a mirror was asked."""

    files: list[FileRow]
    directories: list[DirectoryRow]
    asked: bool  # kept: a returned key
    mirrors: list[JsonObject]
    requirements: list[Problem]
    wanted: bool
    remove: bool
    states: list[str]
    fit: bool
    update: list[str]
    checks: list[str]
    findings: list[Finding]


def plan_for(module: Runner, params: mirror_request.Params) -> MirrorPlan:
    """Return the plan for the variables of the role."""
    planner = Planner(params, fetcher(module, params["timeout"]))
    plan = planner.run()
    update = planner.update()
    wanted = any(planner.services)
    return {
        "files": plan.files,
        "directories": plan.directories,
        "asked": plan.asked,
        "mirrors": [dataclasses.asdict(mirror) for mirror in plan.mirrors],
        "requirements": plan.requirements,
        "wanted": wanted,
        "remove": not wanted and is_due(Tree(ROOT), "mirrors"),
        "states": plan.states,
        "fit": plan.fit,
        "update": update,
        "checks": [" ".join(update)] if planner.services.apt_urls else [],
        "findings": planner.choice(),
    }
