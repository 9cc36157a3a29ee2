# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Find what other files of a host set instead of the drop-ins of a role: a later file wins, or one takes the place of another."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_record import read_manifest
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_state import STORE
from ansible_collections.rigwright.workstation.plugins.module_utils._core.problems import Finding, finding
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown
from ansible_collections.rigwright.workstation.plugins.module_utils._system import shell_variables, unit_files
from ansible_collections.rigwright.workstation.plugins.module_utils._system.parts import (
    MODPROBE,
    by_name,
    module_options,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._system.unit_files import joined

# Settings of units that add to those of other files, until an empty one takes all back (systemd.directives(7)).
_ADDED = re.compile(
    r"Exec\w+|Environment(File)?|(Unset|Pass)Environment|\w+Paths|\w+MountsFor|Path\w+|DirectoryNotEmpty|DeviceAllow|IPAddress\w+|Listen\w+"
    r"|On(Failure|Success|Calendar|\w+Sec)|After|Before|Wants|Requires|Requisite|PartOf|BindsTo|Upholds|Conflicts|(Wanted|Required|Upheld)By"
    r"|Also|Alias|Condition\w+|Assert\w+|(Reload)?Propagat\w+|StopPropagatedFrom|JoinsNamespaceOf|Documentation|Sockets|Symlinks"
    r"|SystemCall\w+|Restrict(AddressFamilies|Namespaces|FileSystems|NetworkInterfaces)|AmbientCapabilities|CapabilityBoundingSet"
    r"|\w*Credential\w*|SupplementaryGroups|TemporaryFileSystem|(Runtime|State|Cache|Logs|Configuration)Directory|SocketBind\w+"
    r"|(Success|RestartPrevent|RestartForce)\w*ExitStatus|IO\w+(Max|DeviceWeight)|IODevice\w+|LogExtraFields|StandardInput(Text|Data)"
)
Settings = t.Iterator[tuple[str, str]]


class Form(t.NamedTuple):
    """Files of one program. ``others``: all that it reads, the strongest last. ``settings``: what one has, by name; a star is for all names
    that begin so."""

    path: str
    others: t.Callable[[Tree, str], list[str]]
    settings: t.Callable[[str], Settings]


def _units(tree: Tree, path: str) -> list[str]:
    manager, name = _unit(path)
    return unit_files.files(tree, name, manager)


def _unit(path: str) -> tuple[str, str]:
    manager, _slash, rest = path.partition("/systemd/")[2].partition("/")
    return manager, re.sub(r"\.d/.*", "", rest)


def _of_unit(text: str) -> Settings:
    section = ""
    for line in joined(text, "#;"):
        if line.startswith("["):
            section = line.strip("[]")
            continue
        name, _equals, value = (part.strip() for part in line.partition("="))
        if name != "Environment" or not value:
            yield f"{section}.{name}", value
        else:
            for word in _quoted(value):
                yield f"{section}.Environment {word.partition('=')[0]}", word.partition("=")[2]


def _quoted(value: str) -> list[str]:
    try:
        return shlex.split(value)
    except ValueError:
        return [value]


def _modules(tree: Tree, _path: str) -> list[str]:
    return by_name(tree, MODPROBE, ".conf")


def _of_module(text: str) -> Settings:
    for line in joined(text, "#"):
        for module, name, value in module_options(line):
            yield f"{module} {name}", value


def _environments(tree: Tree, _path: str) -> list[str]:
    return by_name(
        tree, [f"{folder}/environment.d" for folder in ("/etc", "/run", "/usr/local/lib", "/usr/lib")], ".conf"
    )


def _profiles(tree: Tree, _path: str) -> list[str]:
    return by_name(tree, ["/etc/profile.d"], ".sh")


def _of_environment(text: str) -> Settings:
    for line in joined(text, "#;"):
        name, equals, value = (part.strip() for part in line.partition("="))
        # One that has the value of before adds to it.
        if equals and name.isidentifier() and not re.search(rf"\$\{{?{re.escape(name)}\b", value):
            yield name, value.strip("\"'")


def _of_profile(text: str) -> Settings:
    return shell_variables.assignments("\n".join(joined(text, "#")))


def _apt_options(tree: Tree, _path: str) -> list[str]:
    return _apt_parts(tree, "apt.conf", ".conf")


def _apt_parts(tree: Tree, name: str, ending: str) -> list[str]:
    """Return the files that apt reads, in its order: it leaves out those with another ending (apt.conf(5), apt_preferences(5))."""
    main, parts = f"/etc/apt/{name}", by_name(tree, [f"/etc/apt/{name}.d"], "")
    whole = [path for path in parts if path.endswith(ending) or "." not in os.path.basename(path)]
    return [*whole, *([main] if tree.exists(main) else [])]


# The words of an option of apt. What matches and is no group is a comment: in quotes, there is none.
_APT = r'/\*(?s:.*?)(?:\*/|\Z)|(?://|#(?!clear\b|include\b))[^\n]*|("[^"\n]*"?|[{};]|#\w+|(?:(?!//|/\*)[^\s{};"#])+)'


def _of_apt(text: str) -> Settings:
    scopes: list[str] = []
    pieces: list[str] = []
    for piece in re.findall(_APT, text):
        if not piece:
            continue
        if piece == "{":
            scopes.append(" ".join(pieces))
        elif piece == "}" and scopes:
            scopes.pop()
        elif piece == ";" and pieces[:1] == ["#clear"]:
            for name in pieces[1:]:
                yield name.lower(), ""
                yield f"{name.lower()}::*", ""
        elif piece == ";" and (len(pieces) == 2 or "".join(pieces[:1]).startswith('"')):
            # A value without a name, or below one that ends with colons, adds to a list.
            yield "::".join([*scopes, "" if pieces[0].startswith('"') else pieces[0]]).lower(), pieces[-1].strip('"')
        elif piece not in "{};":
            pieces.append(piece)
            continue
        pieces = []


def _pins(tree: Tree, _path: str) -> list[str]:
    """Return files with pins: of the records that name a package, the first one counts, from the main file on (apt_preferences(5))."""
    main = "/etc/apt/preferences"
    parts = [path for path in _apt_parts(tree, "preferences", ".pref") if path != main]
    return [*parts[::-1], *([main] if tree.exists(main) else [])]


def _of_pins(text: str) -> Settings:
    for block in re.split(r"\n\s*\n", text):
        fields = dict(line.partition(":")[::2] for line in joined(block, "#"))
        for name in fields.get("Package", "").split():
            # A record for all packages gives way to one with names.
            if name != "*":
                yield name, f"{fields.get('Pin', '').strip()} {fields.get('Pin-Priority', '').strip()}"


def _needrestarts(tree: Tree, _path: str) -> list[str]:
    return by_name(tree, ["/etc/needrestart/conf.d"], ".conf")


def _of_needrestart(text: str) -> Settings:
    for line in joined(text, "#"):
        match = re.match(
            r"(?:delete|undef)?[ (]*(\$nrconf(?:->)?\{[^=;]*\})[ )]*(?:=(?!=)(.*?))?[ ;]*(?:;\s*#.*)?$", line
        )
        if match:
            name = re.sub(r"->|\s+", "", match[1])
            yield name, (match[2] or "").strip()
            # What is set as a whole has nothing else.
            yield f"{name}{{*", ""


def _condarcs(tree: Tree, _path: str) -> list[str]:
    return [path for path in by_name(tree, ["/etc/conda/condarc.d"], "") if path.endswith((".yml", ".yaml"))]


def _clouds(tree: Tree, _path: str) -> list[str]:
    return by_name(tree, ["/etc/cloud/cloud.cfg.d"], ".cfg")


def _of_yaml(text: str) -> Settings:
    """Yield the values that are one word or line. Lists and what is in them add up."""
    above: list[tuple[int, str]] = []
    for line in text.split("\n"):
        row = re.fullmatch(r"( *)([\w.-]+):(?: +(\"[^\"]*\"|'[^']*'|[^#\s].*?))? *(?:(?<= )#.*)?", line)
        if row:
            above = [*((depth, name) for depth, name in above if depth < len(row[1])), (len(row[1]), row[2])]
            if row[3]:
                yield ".".join(name for _depth, name in above), row[3].strip("\"' ")


FORMS = (
    Form(
        r"/etc/systemd/(system|user)/.+\.(service|socket|target|timer|path|slice|mount|device)(\.d/.+\.conf)?",
        _units,
        _of_unit,
    ),
    Form(r"/etc/modprobe\.d/.+\.conf", _modules, _of_module),
    Form(r"/etc/environment\.d/.+\.conf", _environments, _of_environment),
    Form(r"/etc/profile\.d/.+\.sh", _profiles, _of_profile),
    Form(r"/etc/apt/apt\.conf\.d/.+", _apt_options, _of_apt),
    Form(r"/etc/apt/preferences\.d/.+", _pins, _of_pins),
    Form(r"/etc/cloud/cloud\.cfg\.d/.+\.cfg", _clouds, _of_yaml),
    Form(r"/etc/conda/condarc\.d/.+\.ya?ml", _condarcs, _of_yaml),
    Form(r"/etc/needrestart/conf\.d/.+\.conf", _needrestarts, _of_needrestart),
)


def form_of(path: str) -> Form | None:
    return next((form for form in FORMS if re.fullmatch(form.path, path)), None)


def overridden(tree: Tree, path: str) -> list[str]:
    """Return the settings of a file that another one has put out of force, with that file; no values, which may be secret."""
    form = form_of(path)
    if form is None or not tree.exists(path):
        return []
    found = _lost(form, tree, path, form.others(tree, path))
    if form.settings is _of_unit:
        manager, name = _unit(path)
        for instance in unit_files.instances(tree, name, manager) if "@." in name else []:
            files = unit_files.files(tree, instance, manager)
            # Who masks an instance has the others as they are.
            found += _lost(form, tree, path, files) if files else []
    return list(dict.fromkeys(found))


def _lost(form: Form, tree: Tree, path: str, files: list[str]) -> list[str]:
    if path not in files:
        others = [file for file in files if os.path.basename(file) == os.path.basename(path)] or files
        return [f"all of it ({shown(others[0]) if others else 'masked'})"]
    own: dict[str, list[str]] = {}
    for name, value in form.settings(tree.text(path)):
        _put(own, name, value)
    found: dict[str, str] = {}
    now = {name: list(values) for name, values in own.items()}
    for file in files[files.index(path) + 1 :]:
        for pattern, value in form.settings(tree.text(file)):
            for name in [each for each in own if _is_same(form, each, pattern)]:
                _put(now, name, value)
                found[name] = file
    return [f"{name} ({shown(file)})" for name, file in found.items() if not {*own[name]} <= {*now[name]}]


def _is_same(form: Form, name: str, pattern: str) -> bool:
    if form.settings is _of_pins:
        return fnmatch.fnmatchcase(name, pattern)
    if pattern.endswith("*"):
        return name.startswith(pattern[:-1])
    # `Environment=` alone takes back all variables.
    return name == pattern or name.startswith(f"{pattern} ")


def _put(found: dict[str, list[str]], name: str, value: str) -> None:
    added = name.endswith("::") or bool(_ADDED.fullmatch(name.partition(".")[2]))
    found[name] = [*(found.get(name, []) if added and value else []), *([value] if value or not added else [])]


def findings(tree: Tree, role: str) -> list[Finding]:
    """Return the finding on the drop-ins of a role; none where it has none on this host."""
    names = [name for name in tree.names(STORE) if name == role or name.startswith(f"{role}_")]
    manifests = [
        read_manifest(tree.at(f"{STORE}/{name}"))["paths"]
        for name in names
        if tree.exists(f"{STORE}/{name}/manifest.json")
    ]
    paths = sorted(path for paths in manifests for path, entry in paths.items() if entry["written"] and form_of(path))
    lost = [f"{path}: {', '.join(rows)}" for path in paths for rows in [overridden(tree, path)] if rows]
    remedy = (
        "take it out of the other file, or set it by a variable of the role; if it is meant to be so, nothing is to do"
    )
    evidence = (
        f"other files put out of force: {'; '.join(lost)}"
        if lost
        else "no other file changes what the role's drop-ins say"
    )
    return [finding(f"{role}.drop_ins", "warn" if lost else "pass", evidence, remedy)] if paths else []
