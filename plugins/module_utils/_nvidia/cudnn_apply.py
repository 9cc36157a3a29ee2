# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Install cuDNN's wheels below ``/opt/cudnn``, and link them to where compilers look."""

from __future__ import annotations

import glob
import os
import shutil
import typing as t
import urllib.parse

from ansible_collections.rigwright.workstation.plugins.module_utils._core.atomic import (
    replace_link,
    sync_directory,
    sync_tree,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core.root_directories import make_directories
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cudnn_wheels import (
    BASE,
    LINKS,
    PLACES,
    RECEIPT,
    VERSION,
    Wheel,
    WheelError,
    is_whole,
    unpack,
    wanted_links,
)

if t.TYPE_CHECKING:
    from ansible.module_utils.basic import AnsibleModule

ROOT = "/"
WORK = f"{BASE}/.work"


class WheelRow(t.TypedDict):
    """A wheel, as the module ``cudnn_wheels`` takes it."""

    cuda: int
    version: str
    sha256: list[str]


class State(t.NamedTuple):
    """The module's own files below BASE, and the links to them. *damaged* are trees, *leftovers* are of an interrupted run."""

    trees: tuple[str, ...]
    links: dict[str, str]
    damaged: tuple[str, ...] = ()
    leftovers: bool = False


def at(path: str) -> str:
    return os.path.join(ROOT, path.lstrip("/"))


def read_state() -> State:
    """Read the trees with a receipt of this module, and its links. All else below BASE belongs to others."""
    names = sorted(os.listdir(at(BASE))) if os.path.isdir(at(BASE)) else []
    received = [name for name in names if os.path.isfile(at(f"{BASE}/{name}/{RECEIPT}"))]
    ours = [name for name in received if not link(f"{BASE}/{name}")]
    whole = [name for name in ours if is_whole(at(f"{BASE}/{name}"))]
    links = {
        f"{BASE}/{name}": link(f"{BASE}/{name}")
        for name in names
        if LINKS.fullmatch(f"{name} -> {link(f'{BASE}/{name}')}")
        and (name in received or not os.path.exists(at(f"{BASE}/{name}")))
    }
    # The links to a `default` of others are theirs, too.
    if f"{BASE}/default" in links or "default" not in names:
        links.update({path: link(path) for path in in_places() if link(path).startswith(f"{BASE}/default/")})
    emptied = not names and os.path.isdir(at(BASE)) and not os.path.islink(at(BASE))
    damaged = tuple(name for name in ours if name not in whole)
    return State(tuple(whole), links, damaged, emptied or os.path.isdir(at(WORK)))


def link(path: str) -> str:
    """Return the target of a link, empty for what is no link."""
    return os.readlink(at(path)) if os.path.islink(at(path)) else ""


def in_places() -> list[str]:
    """Return the paths in PLACES that a cuDNN has or would have, and the links that an interrupted run was about to switch."""
    patterns = [f"{place}/{name}" for place in PLACES.values() for name in ("*cudnn*", ".*cudnn*.rigwright")]
    found = [path for pattern in patterns for path in glob.glob(at(pattern))]
    return sorted(os.path.join("/", os.path.relpath(path, ROOT)) for path in found)


def names_of(directory: str) -> dict[str, list[str]]:
    """Return the files of a tree that are linked, by folder."""
    return {
        folder: sorted(os.listdir(at(f"{BASE}/{directory}/{folder}")))
        for folder in PLACES
        if os.path.isdir(at(f"{BASE}/{directory}/{folder}"))
    }


def plan(wheels: t.Sequence[Wheel], current: State) -> State:
    trees = tuple(sorted(wheel.directory for wheel in wheels))
    # The names in a wheel are known once it is installed.
    names = names_of(wheels[0].directory) if wheels and wheels[0].directory in current.trees else {}
    return State(trees, wanted_links(wheels, names))


def check_ways(wanted: State, current: State) -> None:
    """Refuse a name that is needed and belongs to others, and any other cuDNN that compilers would find."""
    ours = {*current.links, *(f"{BASE}/{name}" for name in (*current.trees, *current.damaged))}
    needed = [*(f"{BASE}/{name}" for name in wanted.trees), *wanted.links]
    in_the_way = [path for path in in_places() if path not in ours]
    in_the_way += [path for path in needed if os.path.lexists(at(path)) and path not in (*ours, *in_the_way)]
    if in_the_way:
        raise WheelError(
            f"{', '.join(in_the_way[:5])} is in the way: it belongs to another cuDNN. Move it away, or set cudnn_state to absent"
        )


def install(module: AnsibleModule, wheel: Wheel) -> None:
    """Download, check and unpack one wheel. It appears under its name once it is complete."""
    work = at(f"{WORK}/{wheel.directory}")
    os.makedirs(work)
    requirements = os.path.join(work, "requirements.txt")
    with open(requirements, "w", encoding="ascii") as file:
        file.write(wheel.requirement)
    command = [
        *(
            "python3",
            "-I",
            "-m",
            "pip",
            "download",
            "--quiet",
            "--disable-pip-version-check",
            "--no-cache-dir",
            "--no-deps",
        ),
        *("--only-binary=:all:", "--require-hashes", "--requirement", requirements, "--dest", work),
    ]
    index = module.params["index_url"]
    if index:
        command += ["--index-url", index]
    if index.startswith("http://"):
        # pip ignores such an index otherwise. The SHA-256 protects what comes from it.
        command += ["--trusted-host", urllib.parse.urlsplit(index).netloc]
    rc, out, err = module.run_command(command)
    if rc != 0:
        output = " ".join(line.strip() for line in (err or out).splitlines() if line.strip())
        raise WheelError(
            f"pip did not deliver {wheel.requirement.split()[0]}: {output}. Set `cudnn_index_url` to an index that this host reaches,"
            " or correct the SHA-256 in `cudnn_wheels`"
        )
    (archive,) = glob.glob(os.path.join(work, "*.whl"))
    try:
        unpack(archive, os.path.join(work, "tree"), wheel.cuda, wheel.version)
    except WheelError as error:
        raise WheelError(
            f"{os.path.basename(archive)} cannot be unpacked: {error}. Choose another cudnn_version"
        ) from error
    # After a power cut there must be no receipt of files that never reached the disk.
    sync_tree(os.path.join(work, "tree"))
    place = at(f"{BASE}/{wheel.directory}")
    if os.path.lexists(place):
        os.rename(place, os.path.join(work, "damaged"))
    os.rename(os.path.join(work, "tree"), place)
    sync_directory(at(BASE))


def apply(module: AnsibleModule, wheels: t.Sequence[Wheel], current: State) -> State:
    """Create the new trees, then the links, then remove what is no longer wanted: no link ever points to nothing."""
    shutil.rmtree(at(WORK), ignore_errors=True)
    try:
        for wheel in wheels:
            if wheel.directory not in current.trees:
                install(module, wheel)
    finally:
        shutil.rmtree(at(WORK), ignore_errors=True)
        remove_when_empty(at(BASE))
    installed = read_state()
    wanted = plan(wheels, installed)
    # Create the targets of other links first. Remove them last.
    for path, target in sorted(wanted.links.items(), key=by_depth):
        if current.links.get(path) != target:
            make_directories(os.path.dirname(at(path)))
            replace_link(at(path), target)
    for path, _target in sorted(current.links.items(), key=by_depth, reverse=True):
        if path not in wanted.links:
            os.unlink(at(path))
    remove_when_empty(at(PLACES["pkgconfig"]))
    for name in {*installed.trees, *installed.damaged} - {*wanted.trees}:
        # In one step: half of a tree without its receipt would count as one of others.
        os.makedirs(at(WORK), exist_ok=True)
        os.rename(at(f"{BASE}/{name}"), at(f"{WORK}/{name}"))
    shutil.rmtree(at(WORK), ignore_errors=True)
    remove_when_empty(at(BASE))
    module.run_command(["ldconfig"], check_rc=True)
    return wanted


def by_depth(row: tuple[str, str]) -> tuple[bool, str]:
    """Sort `cudaNN` first, then `default`, then the links that lead through it."""
    path = row[0]
    return (not path.startswith(BASE), path)


def remove_when_empty(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path):
        os.rmdir(path)


def describe(state: State) -> JsonObject:
    return {
        "wheels": list(state.trees),
        "links": state.links,
        "damaged": list(state.damaged),
        "leftovers of an interrupted run": state.leftovers,
    }


def parse_wheels(rows: t.Sequence[WheelRow]) -> list[Wheel]:
    """Return the wheels that the option ``wheels`` of the module describes."""
    return [Wheel(row["cuda"], row["version"], tuple(row["sha256"])) for row in rows]


def is_due(rows: t.Sequence[WheelRow]) -> bool:
    """Return whether the module would change something for these wheels, or refuse them."""
    wheels, current = parse_wheels(rows), read_state()
    wanted = plan(wheels, current)
    try:
        if wheels:
            check_ways(wanted, current)
    except WheelError:
        return True
    return wanted != current


def run(module: AnsibleModule) -> None:
    """Install the wheels of the request, and remove all others."""
    wheels = parse_wheels(module.params["wheels"])
    current = read_state()
    strange = [wheel.version for wheel in wheels if not VERSION.fullmatch(wheel.version)]
    if strange:
        module.fail_json(msg=f"{strange[0]} is no version of cuDNN, such as 9.12.0.46. Nothing was changed.")
    wanted = plan(wheels, current)
    changed = wanted != current
    try:
        if wheels:
            check_ways(wanted, current)
        if changed and not module.check_mode:
            wanted = apply(module, wheels, current)
    except WheelError as error:
        module.fail_json(msg=f"cuDNN could not be installed: {error}. What was installed before is still in use.")
    except OSError as error:
        module.fail_json(msg=f"cuDNN could not be installed: {error}. Free space below {BASE}, or look at that path.")
    module.exit_json(
        changed=changed,
        directories=[row.directory for row in wheels],
        diff={"before": describe(current), "after": describe(wanted)},
    )
