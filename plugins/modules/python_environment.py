#!/usr/bin/python

# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
short_description: Keep a small Python environment from a list with hashes
description:
  - Makes a virtual environment for modules that need a library, such as M(rigwright.workstation.conda_environment).
  - It is made anew beside the old one, and a link is switched when it is complete, whenever the list or the system's Python is another.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
requirements:
  - Python's C(venv), which Debian and Ubuntu have in the package python3-venv.
options:
  path:
    description:
      - The link that leads to the environment. Environments lie beside it.
    type: path
    default: /opt/rigwright/python
  state:
    description:
      - V(absent) removes the link and every environment beside it, and their directory when it is empty then. While somebody else
        needs the environment, it stays.
    type: str
    choices: [present, absent]
    default: present
  user:
    description:
      - Who needs the environment, usually the name of the role. It is no account of the system.
    type: str
    required: true
  requirements:
    description:
      - What to install, as pip's requirements with versions and hashes. Wheels only.
    type: str
  index_url:
    description:
      - The Python package index. Empty means what pip's own configuration on the host says.
    type: str
    default: ""
seealso:
  - module: rigwright.workstation.conda_environment
"""

EXAMPLES = r"""
- name: Have what modules need
  rigwright.workstation.python_environment:
    user: conda
    requirements: "{{ lookup('ansible.builtin.file', 'python.txt') }}"
"""

RETURN = r"""
directory:
  description: Where the link leads, in check mode where it would lead. Empty when it is absent.
  returned: success
  type: str
  sample: /opt/rigwright/python-3f2ab4c1d0e5
"""

import glob
import hashlib
import os
import shutil
import sys
import urllib.parse

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import replace_file, replace_link
from ansible_collections.rigwright.workstation.plugins.module_utils._core.lock import module_lock

# Written into an environment when it is complete.
RECEIPT = ".rigwright"
# Beside the link: the names of who needs it, a line each.
USERS = ".users"


def name_of(path: str, requirements: str) -> str:
    """The directory of an environment. Another Python needs another one: wheels and links are bound to its version."""
    told = f"{sys.version_info[:2]}\n{requirements}"
    return f"{path}-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def ours(path: str) -> list[str]:
    """Every environment beside the link, also what a killed run has left."""
    return sorted(glob.glob(f"{glob.escape(path)}-{'[0-9a-f]' * 12}"))


def read_names(path: str) -> set[str]:
    if not os.path.isfile(path):
        return set()
    with open(path, encoding="utf-8") as file:
        return set(file.read().split())


def write_names(path: str, names: set[str]) -> None:
    if not names:
        os.unlink(path)
        return
    replace_file(path, "".join(f"{name}\n" for name in sorted(names)))


def make(module: AnsibleModule, directory: str, requirements: str) -> None:
    """Fill a new environment. It counts once its receipt is there."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    # Not through a link of an environment that the module itself may run in.
    rc, out, err = module.run_command([sys.executable, "-I", "-m", "venv", directory])
    if rc != 0:
        module.fail_json(
            msg=f"No virtual environment can be made: {_words(out + err)}. Install the package python3-venv. Nothing was changed."
        )
    command = [
        os.path.join(directory, "bin", "python3"),
        "-I",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    command += ["--no-cache-dir", "--no-deps", "--only-binary=:all:", "--require-hashes", "--requirement", "/dev/stdin"]
    index = module.params["index_url"]
    if index:
        command += ["--index-url", index]
    if index.startswith("http://"):
        # pip leaves such an index out; what comes from it is checked by its SHA-256.
        command += ["--trusted-host", urllib.parse.urlsplit(index).netloc]
    rc, out, err = module.run_command(command, data=requirements)
    if rc != 0:
        module.fail_json(
            msg=f"pip did not deliver what modules need: {_words(err or out)}. Name an index that this host reaches."
            " What was there is in use."
        )
    # A power cut may not leave a receipt of files that never reached the disk.
    os.sync()
    replace_file(os.path.join(directory, RECEIPT), requirements)


def _words(text: str) -> str:
    return " ".join(text.split()).rstrip(".")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            "path": {"type": "path", "default": "/opt/rigwright/python"},
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "user": {"type": "str", "required": True},
            "requirements": {"type": "str"},
            "index_url": {"type": "str", "default": ""},
        },
        required_if=[("state", "present", ("requirements",))],
        supports_check_mode=True,
    )
    os.umask(0o022)
    with module_lock(module, "python_environment"):
        run(module)


def run(module: AnsibleModule) -> None:
    path, requirements = module.params["path"], module.params["requirements"]
    target = os.readlink(path) if os.path.islink(path) else ""
    current = os.path.join(os.path.dirname(path), target) if target else ""
    if os.path.lexists(path) and current not in (*ours(path), name_of(path, requirements or "")):
        module.fail_json(msg=f"{path} is in the way: it was not made by this module. Move it away, or set `path`.")
    names_path, name = f"{path}{USERS}", {module.params["user"]}
    is_present = module.params["state"] == "present"
    known = read_names(names_path)
    names = known | name if is_present else known - name
    wanted = name_of(path, requirements) if is_present else current if names else ""
    is_whole = os.path.isfile(os.path.join(wanted, RECEIPT)) and os.path.exists(os.path.join(wanted, "bin", "python3"))
    must_make = is_present and not is_whole
    surplus = [directory for directory in ours(path) if directory != wanted]
    changed = bool(current != wanted or surplus or must_make or names != known)
    try:
        if changed and not module.check_mode:
            if must_make:
                make(module, wanted, requirements)
            if names != known:
                write_names(names_path, names)
            if wanted and current != wanted:
                replace_link(path, os.path.basename(wanted))
            elif not wanted and current:
                os.unlink(path)
            for directory in surplus:
                shutil.rmtree(directory)
            folder = os.path.dirname(path)
            if not wanted and os.path.dirname(folder) != "/" and os.path.isdir(folder) and not os.listdir(folder):
                os.rmdir(folder)
    except OSError as error:
        module.fail_json(msg=f"{path} cannot be made: {error}. Free space on its disk, or look at that path.")
    diff = {
        "before": {path: current, "users": sorted(known)},
        "after": {path: wanted, "users": sorted(names)},
    }
    module.exit_json(changed=changed, directory=wanted, diff=diff)


if __name__ == "__main__":
    main()
