#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_repository
short_description: Give apt NVIDIA's CUDA repository, or take it back
description:
  - Installs the package C(cuda-keyring), which brings the repository's key, its source and a pin of priority 600, after its
    SHA-256 has been checked.
  - The repository has to answer with an index that apt trusts. Otherwise everything goes back, so that apt goes on working for
    the rest of the host, and the failure names the repository and what apt said.
  - Several roles may use it on one host. It is taken back with the last of them, and only where this module has set it up.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
    details:
      - The repository is not asked, so a broken index shows only when it is set up.
  diff_mode:
    support: full
options:
  user:
    description:
      - Who relies on the repository, usually the name of the role. It is no account of the system.
    type: str
    required: true
  state:
    description:
      - V(absent) ends the use by this O(user).
    type: str
    choices: [present, absent]
    default: present
  url:
    description:
      - Address of the repository for this system and machine, the folder that holds C(Packages.gz) and the keyring package.
      - Required if O(state=present), as are O(directory), O(architecture), O(keyring) and O(keyring_sha256).
    type: str
  directory:
    description:
      - NVIDIA's name of the system, such as V(debian13).
    type: str
  architecture:
    description:
      - NVIDIA's name of the machine, V(x86_64) or V(sbsa).
    type: str
  keyring:
    description:
      - File name of the keyring package.
    type: str
  keyring_sha256:
    description:
      - SHA-256 of the keyring package, all 64 digits. May be empty where the package is installed already.
    type: str
  timeout:
    description:
      - Give a silent server up after so many seconds.
    type: int
    default: 30
seealso:
  - module: rigwright.workstation.cuda_plan
"""

EXAMPLES = r"""
- name: Set up the CUDA repository
  rigwright.workstation.cuda_repository:
    user: cuda
    url: https://mirror.example.org/compute/cuda/repos/debian13/x86_64
    directory: debian13
    architecture: x86_64
    keyring: cuda-keyring_1.1-1_all.deb
    keyring_sha256: dd28f1f6ba0038180d6b23f846cefca1e3de4c9327751665241370bacea452a1
"""

RETURN = r"""
source:
  description: The source file of the repository. With O(state=absent), the one that stays for another O(user).
  returned: success
  type: str
  sample: /etc/apt/sources.list.d/cuda-debian13-x86_64.list
"""

import glob
import hashlib
import os
import re
import tempfile
import typing as t
import urllib.error

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import open_url
from ansible_collections.rigwright.workstation.plugins.module_utils._apt_packages import STATUS, parse_status

ROOT = "/"
PACKAGE = "cuda-keyring"
KEYRING = "/usr/share/keyrings/cuda-archive-keyring.gpg"
SOURCES = "/etc/apt/sources.list.d"
LISTS = "/var/lib/apt/lists"
# A directory of its own: config_files keeps /var/lib/rigwright for itself.
MEMORY = "/var/lib/rigwright_cuda_repository"
# The users' files lie beside this one, which says that the module has installed the package, and where its source is.
INSTALLED = ".installed"


class Failed(Exception):
    """The repository cannot be set up; nothing is left of the attempt."""


class State(t.NamedTuple):
    """The repository as one user of it sees it."""

    package: str | None
    source: str | None
    used: bool


class Repository:
    """NVIDIA's repository on this host."""

    def __init__(self, module: AnsibleModule) -> None:
        self.module = module
        self.params = module.params
        self.user = os.path.join(at(MEMORY), self.params["user"])
        self.installed = os.path.join(at(MEMORY), INSTALLED)

    @property
    def path(self) -> str:
        """The source file, under the name that NVIDIA's package gives it; to take it back, the one that was set up."""
        if self.params["directory"] is None:
            return read(f"{MEMORY}/{INSTALLED}") or ""
        return f"{SOURCES}/cuda-{self.params['directory']}-{self.params['architecture']}.list"

    def read(self) -> State:
        packages = parse_status(read(STATUS) or "")
        package = packages[PACKAGE].version if PACKAGE in packages else None
        return State(package, read(self.path) if self.path else None, os.path.exists(self.user))

    def plan(self, current: State) -> State:
        if self.params["state"] == "present":
            source = f"deb [signed-by={KEYRING}] {self.params['url'].rstrip('/')}/ /\n"
            version = self.params["keyring"].split("_")[1]
            return State(current.package or version, source, True)
        if os.path.exists(self.installed) and not self._others():
            return State(None, None, False)
        return current._replace(used=False)

    def _others(self) -> list[str]:
        names = os.listdir(at(MEMORY)) if os.path.isdir(at(MEMORY)) else []
        return [name for name in names if name not in (INSTALLED, self.params["user"])]

    def set_up(self, current: State, wanted: State) -> None:
        os.makedirs(at(MEMORY), mode=0o755, exist_ok=True)
        try:
            if current.package is None or os.path.exists(self.installed):
                # Before the deed: a run that is cut short leaves a package that is known to be ours.
                write(f"{MEMORY}/{INSTALLED}", self.path)
            if current.package is None:
                self._install()
            write(self.path, wanted.source or "")
            self._ask()
        except Failed:
            self._take_back(current)
            self._tidy()
            raise
        write(f"{MEMORY}/{self.params['user']}", "")

    def end_use(self, current: State, wanted: State) -> None:
        if wanted.package != current.package:
            self._take_back(wanted)
        if os.path.exists(self.user):
            os.unlink(self.user)
        self._tidy()

    def _tidy(self) -> None:
        if not os.listdir(at(MEMORY)):
            os.rmdir(at(MEMORY))

    def _install(self) -> None:
        url = f"{self.params['url'].rstrip('/')}/{self.params['keyring']}"
        try:
            with open_url(url, timeout=self.params["timeout"], http_agent="rigwright") as answer:
                content = answer.read()
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
            self._run(["dpkg", "--force-confdef", "--force-confold", "--install", archive])

    def _ask(self) -> None:
        """Have apt fetch the index of this repository alone. By itself `apt-get update` calls a refused key a warning."""
        rc, out, err = self.module.run_command(
            [
                *("apt-get", "update"),
                *("-o", f"Dir::Etc::sourcelist={at(self.path)}", "-o", "Dir::Etc::sourceparts=/dev/null"),
                *("-o", "APT::Get::List-Cleanup=0", "-o", "APT::Update::Error-Mode=any"),
            ],
            environ_update={"LC_ALL": "C.UTF-8"},
        )
        if rc != 0:
            raise Failed(reason(out + err))

    def _take_back(self, to: State) -> None:
        """Have the package and its source as they were, so that apt works for the rest of the host."""
        path = self.path
        forget_index(read(path) or "" if path else "")
        if to.package is None:
            self.module.run_command(["dpkg", "--purge", PACKAGE])
            if os.path.exists(self.installed):
                os.unlink(self.installed)
        if to.source is not None:
            write(path, to.source)
        elif path and os.path.exists(at(path)):
            os.unlink(at(path))

    def _run(self, command: list[str]) -> None:
        rc, out, err = self.module.run_command(command, environ_update={"DEBIAN_FRONTEND": "noninteractive"})
        if rc != 0:
            raise Failed(f"`{' '.join(command[:1])}` says: {(err or out).strip()}")


def problem_of_checksum(params: t.Mapping[str, t.Any], installed: bool) -> str:
    """Why the keyring package could not be told from a forged one, whose scripts would run as root."""
    given = params["keyring_sha256"]
    if re.fullmatch(r"[0-9a-fA-F]{64}", given) or (not given and installed):
        return ""
    wanted = f"set `workstation_cuda_repository.keyring_sha256` to {{{params['directory']}: <64 hexadecimal digits>}}"
    if given:
        return f"{given} is no SHA-256 of {params['keyring']}: {wanted}"
    return f"no SHA-256 of {params['keyring']} is known for {params['directory']} on {params['architecture']}: {wanted}"


def reason(words: str) -> str:
    """apt's complaint in one line, and what it means where that is known."""
    complaint = " ".join(line[2:].strip() for line in words.splitlines() if line[:2] in ("E:", "W:")) or words.strip()
    if re.search(r"SHA1|sqv|Sub-process .*gpgv?|not signed|NO_PUBKEY|EXPKEYSIG|public key", complaint):
        return f"its key is refused: {complaint}"
    return f"its index is broken or cannot be had: {complaint}"


def forget_index(source: str) -> None:
    """Remove what apt has fetched from the address in a source file; as long as it lies there, apt asks for no other.

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
    except (FileNotFoundError, NotADirectoryError):
        return None


def write(path: str, text: str) -> None:
    """Replace a file in one step."""
    staged = at(f"{path}.rigwright-new")
    with open(staged, "w", encoding="utf-8") as file:
        file.write(text)
    os.replace(staged, at(path))


def describe(state: State) -> dict[str, t.Any]:
    return {"keyring package": state.package, "source": state.source, "in use by the role": state.used}


def main() -> None:
    needed = ("url", "directory", "architecture", "keyring", "keyring_sha256")
    module = AnsibleModule(
        argument_spec={
            "user": {"type": "str", "required": True},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "url": {"type": "str"},
            "directory": {"type": "str"},
            "architecture": {"type": "str"},
            "keyring": {"type": "str", "no_log": False},
            "keyring_sha256": {"type": "str", "no_log": False},
            "timeout": {"type": "int", "default": 30},
        },
        required_if=[("state", "present", needed)],
        supports_check_mode=True,
    )
    os.umask(0o022)
    repository = Repository(module)
    current = repository.read()
    if module.params["state"] == "present":
        problem = problem_of_checksum(module.params, current.package is not None)
        if problem:
            module.fail_json(
                msg=f"The CUDA repository {module.params['url']} cannot be used: {problem}. Nothing was changed."
            )
    wanted = repository.plan(current)
    changed = wanted != current
    if changed and not module.check_mode:
        try:
            if module.params["state"] == "present":
                repository.set_up(current, wanted)
            else:
                repository.end_use(current, wanted)
        except Failed as error:
            module.fail_json(
                msg=f"The CUDA repository {module.params['url']} cannot be used: {error}. Nothing was changed, and apt works as"
                " before. Try again later, or set `workstation_cuda_repository` to a mirror."
            )
    module.exit_json(
        changed=changed,
        source=repository.path if wanted.source is not None else None,
        diff={"before": describe(current), "after": describe(wanted)},
    )


if __name__ == "__main__":
    main()
