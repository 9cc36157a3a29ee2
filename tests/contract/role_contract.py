# SPDX-License-Identifier: GPL-3.0-or-later
"""What every role obeys (CONTRIBUTING.md, "The shape of a role"), as checks that say in words what is wrong.

A check takes a Role and yields a line for each violation; CHECKS lists them.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_action import defines

COLLECTION = "rigwright.workstation"

REQUIRED = (
    "README.md",
    "defaults/main.yml",
    "meta/argument_specs.yml",
    "meta/main.yml",
    "meta/rigwright.yml",
    "tasks/main.yml",
    "tasks/verify.yml",
)
ALSO_ALLOWED = re.compile(
    r"tasks/[a-z_]+\.yml|handlers/main\.yml|vars/\w+\.yml|vars/\w+_[\d.]+\.yml|templates/.+|files/.+"
)

# What a role does not have that proves and does nothing else: nothing on a host is its own.
OF_STATES = ("tasks/install.yml", "tasks/configure.yml", "tasks/remove.yml")

PREPARE: dict[str, Any] = {f"{COLLECTION}.prepare": None, "register": "__common_prepared"}
VERIFY: dict[str, Any] = {f"{COLLECTION}.verify": None}
PLATFORM_VARIABLES = {
    "ansible.builtin.include_vars": "{{ item }}",
    "loop": "{{ __common_prepared.platform_files }}",
}

# Public variables that do not begin with the role's name: another program than xrdp may serve the desktop, by choice of this one.
NAMED_OTHERWISE = {"xrdp": {"remote_desktop_backend"}}

MAIN_LINES = 60

_SECRET_NAME = re.compile(r"token|password|secret|key")
_DURATION = re.compile(r"\b(seconds?|minutes?|hours?)\b|\b\d+ ?(s|min|h)\b", re.IGNORECASE)
_PUBLIC_NAME = re.compile(r"public|_file$")


@dataclass
class Role:
    """A role in a checkout that also has its page and its scenario."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def only_proves(self) -> bool:
        """Return True for a role that site.yml applies by no task (harness/rows.py)."""
        return "task" not in (self.load("meta/rigwright.yml") or {"task": ""})

    @property
    def checkout(self) -> Path:
        return self.path.parents[1]

    def load(self, name: str) -> Any:
        file = self.path / name
        return yaml.safe_load(file.read_text()) if file.exists() else None

    @cached_property
    def options(self) -> dict[str, dict[str, Any]]:
        specs = self.load("meta/argument_specs.yml") or {}
        return specs.get("argument_specs", {}).get("main", {}).get("options", {})

    @cached_property
    def internals(self) -> dict[str, Any]:
        """Return variables of vars/main.yml and of the platforms (Debian.yml, ...); those with several values as a list."""
        merged: dict[str, list[Any]] = {}
        for file in sorted([*self.path.glob("vars/main.yml"), *self.path.glob("vars/[A-Z]*.yml")]):
            for name, value in (yaml.safe_load(file.read_text()) or {}).items():
                merged.setdefault(name, []).append(value)
        return {name: values[0] if len(values) == 1 else values for name, values in merged.items()}

    @cached_property
    def tasks(self) -> dict[str, list[dict[str, Any]]]:
        """Return all tasks by file, those in blocks as well."""

        def flat(tasks: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
            for task in tasks:
                yield task
                for section in ("block", "rescue", "always"):
                    yield from flat(task.get(section, []))

        files = sorted(self.path.glob("tasks/*.yml"))
        return {file.name: list(flat(yaml.safe_load(file.read_text()) or [])) for file in files}

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Return public secrets (no_log) and every variable that is made of one; a length reveals nothing."""
        tainted = {name for name, option in self.options.items() if option.get("no_log") is True}
        definitions = dict(self.internals)
        for tasks in self.tasks.values():
            for task in tasks:
                definitions.update(task.get("vars", {}))
        while True:
            more = {name for name, value in definitions.items() if name not in tainted and mentions(value, tainted)}
            if not more:
                return frozenset(tainted)
            tainted |= more

    def files(self) -> Iterator[dict[str, Any]]:
        """Yield items of the `files` of config_files, in the task or in a variable that it names."""

        def expand(value: Any, names: frozenset[str]) -> Iterator[dict[str, Any]]:
            if isinstance(value, dict) and "path" in value:
                yield value
            elif isinstance(value, dict):
                yield from expand([item for key, item in value.items() if key != "directories"], names)
            elif isinstance(value, list):
                for item in value:
                    yield from expand(item, names)
            elif isinstance(value, str):
                for name in self.internals.keys() - names:
                    if mentions(value, {name}):
                        yield from expand(self.internals[name], names | {name})

        for tasks in self.tasks.values():
            for task in tasks:
                yield from expand((task.get(f"{COLLECTION}.config_files") or {}).get("files"), frozenset())

    def template_of(self, item: dict[str, Any]) -> Path | None:
        """Return where the template of a file of config_files should be; None when it needs none or is computed."""
        if item.keys() & {"content", "data", "program"} or item.get("state") == "absent":
            return None
        name = item.get("template") or f"{self.resolve(item['path']).lstrip('/')}.j2"
        return None if "{{" in name else self.path / "templates" / name

    def resolve(self, text: str) -> str:
        """Put the role's plain variables into *text*."""

        def value(match: re.Match[str]) -> str:
            defaults = {name: option.get("default") for name, option in self.options.items()}
            definition = {**defaults, **self.internals}.get(match[1])
            return definition if isinstance(definition, str) else match[0]

        resolved = re.sub(r"\{\{ (\w+) \}\}", value, text)
        return resolved if resolved == text else self.resolve(resolved)


def mentions(value: Any, names: set[str] | frozenset[str]) -> bool:
    """Return True if a Jinja expression in *value* uses one of *names* for more than its length."""
    text = value if isinstance(value, str) else yaml.safe_dump(value, width=10**6)
    expressions = " ".join(re.findall(r"\{[{%].*?[}%]\}", text, re.DOTALL))
    used = re.sub(r"\b\w+ \| length\b", "", expressions)
    return any(re.search(rf"\b{re.escape(name)}\b", used) for name in names)


def files(role: Role) -> Iterator[str]:
    """Report missing files, and files that have no place in a role."""
    found = {str(file.relative_to(role.path)) for file in role.path.rglob("*") if file.is_file()}
    for name in REQUIRED:
        if name not in found:
            yield f"{name} is missing"
    for name in sorted(found.intersection(OF_STATES) if role.only_proves else ()):
        yield f"{name} has no place in a role that only proves"
    for name in sorted(found - set(REQUIRED)):
        if not ALSO_ALLOWED.fullmatch(name):
            yield f"{name} has no place in a role"


def handlers(role: Role) -> Iterator[str]:
    """Report handlers for units: they would restart a unit too late, and never after a killed run."""
    for task in role.load("handlers/main.yml") or []:
        for module in task:
            if re.search(r"systemd|service", module):
                yield f"handlers/main.yml uses {module}: {COLLECTION}.systemd_units knows what has to restart"


def variables(role: Role) -> Iterator[str]:
    """Report options without what a reader needs, and names that do not begin with the role's."""
    if (f"{role.name}_state" in role.options) is role.only_proves:
        yield f"{role.name}_state is {'there, and the role only proves' if role.only_proves else 'missing'}"
    if not role.only_proves and (role.options.get(f"{role.name}_state") or {}).get("choices") != ["present", "absent"]:
        yield f"{role.name}_state must have the choices present and absent"
    for name, option in role.options.items():
        if not name.startswith(f"{role.name}_") and name not in NAMED_OTHERWISE.get(role.name, ()):
            yield f"{name} does not begin with {role.name}_"
        if not option.get("type") or not option.get("description"):
            yield f"{name} has no type or no description"
        if option.get("type") == "list" and "elements" not in option:
            yield f"{name} is a list of unsaid elements"
        if (
            "default" not in option
            and not option.get("required")
            and "Default is" not in str(option.get("description"))
        ):
            yield f"{name} has no default: write it, or `# default:` with a template, and say `Default is` in its description"
        if option.get("type") in ("dict", "list") and isinstance(option.get("default"), str):
            # antsibull-docs takes no template as the default of a dict or list.
            yield f"{name} has a template as its default: write it as a comment, `# default:`"
    for name in sorted(role.internals):
        if not name.startswith(f"__{role.name}_"):
            yield f"{name} in vars/ does not begin with __{role.name}_"
    for file, tasks in role.tasks.items():
        for task in tasks:
            for name in [task.get("register"), *task.get("ansible.builtin.set_fact", {})]:
                shared = name in ("cacheable", PREPARE["register"])
                if name and not shared and not name.startswith(f"__{role.name}_"):
                    yield f"{name} in tasks/{file} does not begin with __{role.name}_"


def secrets(role: Role) -> Iterator[str]:
    """Report secrets that are not declared, or that are used where they show."""
    for name, option in role.options.items():
        holds_text = option.get("type") in ("str", "raw") or option.get("elements") in ("str", "raw")
        named_so = _SECRET_NAME.search(name) and not _PUBLIC_NAME.search(name)
        if named_so and holds_text and "choices" not in option and "no_log" not in option:
            yield f"{name} sounds secret: say no_log: true, or no_log: false"
    for item in role.files():
        template = role.template_of(item)
        text = template.read_text() if template and template.exists() else ""
        # `secret:` may be an expression about whether a secret is given.
        hidden = item.get("secret") is True or any(name in str(item.get("secret")) for name in role.secrets)
        if mentions([item, text], role.secrets) and not hidden:
            yield f"{item['path']} holds a secret and is not `secret: true`"
    for file, tasks in role.tasks.items():
        for task in tasks:
            where = f"tasks/{file}, {task.get('name')}"
            argv = [task.get(f"ansible.builtin.{module}") for module in ("command", "shell", "raw", "script")]
            if mentions([argv, task.get("args", {}).get("argv")], role.secrets):
                yield f"{where}: a secret in the arguments of a command, which everybody on the host can read"
            if task.get("no_log") is not True and mentions(task.get("loop"), role.secrets):
                yield f"{where}: -v shows the item of a loop, and so a secret: set no_log"
            if mentions([task.get(f"{COLLECTION}.finding"), task.get("ansible.builtin.debug")], role.secrets):
                yield f"{where}: shows a secret"


def templates(role: Role) -> Iterator[str]:
    """Report templates that do not mirror their target, are missing, or are not used."""
    used = {template for item in role.files() if (template := role.template_of(item))}
    for template in sorted(used):
        if not template.exists():
            yield f"{template.relative_to(role.path)} is missing"
    text = "\n".join(file.read_text() for folder in ("tasks", "vars") for file in role.path.glob(f"{folder}/*.yml"))
    planned = "\n".join(file.read_text() for file in role.checkout.glob("plugins/module_utils/_*/**/*.py"))
    for template in sorted((role.path / "templates").rglob("*")):
        name = str(template.relative_to(role.path / "templates"))
        if not template.is_file():
            continue
        if not re.fullmatch(r"(etc|opt|usr|var|srv|root|home)/.+\.j2", name):
            yield f"templates/{name} does not mirror a path on the target"
        elif template not in used and not (
            name in text or f'"{name}"' in planned or f'/{name.removesuffix(".j2")}"' in planned
        ):
            yield f"templates/{name} is used by nothing"
        elif template not in used and mentions(template.read_text(), role.secrets):
            yield f"templates/{name} holds a secret: make the file in secret_files of the role"


def platforms(role: Role) -> Iterator[str]:
    """Report variables of platforms that are not loaded."""
    if any((role.path / "vars").glob("[A-Z]*.yml")):
        for name, tasks in role.tasks.items():
            for prepare, following in itertools.pairwise([*tasks, {}]):
                if prepare | PREPARE == prepare and following | PLATFORM_VARIABLES != following:
                    yield f"tasks/{name} does not load the variables of the platform after Prepare"


# An import costs no task of its own; an include that is not due costs one instead of all that it has.
INCLUDED = {"Install": "include", "Configure": "import", "Remove": "include"}


def plans(role: Role) -> bool:
    """Return True if the role has a plan that refuses problems: a call of the action plan."""
    return any(f"{COLLECTION}.plan" in task for name in ("plan.yml", "main.yml") for task in role.tasks.get(name, []))


def table_of_contents(role: Role) -> Iterator[str]:
    """Report a tasks/main.yml without the fixed tasks in their order; a role may add tasks, and add to a condition."""
    file = role.path / "tasks/main.yml"
    if not file.exists():
        return
    if (lines := len(file.read_text().splitlines())) > MAIN_LINES:
        yield f"tasks/main.yml has {lines} lines, more than {MAIN_LINES}"
    require: dict[str, Any] = {f"{COLLECTION}.require": {"that": f"{{{{ __{role.name}_requirements }}}}"}}
    plan: dict[str, Any] = {"ansible.builtin.import_tasks": "plan.yml"}
    if "plan.yml" not in role.tasks:
        plan = {"register": f"__{role.name}_plan"}
    # A role with a plan module refuses in its plan; the others need `require`.
    refusal = ("Plan", (plan, "")) if plans(role) else ("Check the request", (require, "present"))
    wanted = dict([("Prepare", (PREPARE, "")), refusal])
    for verb, state in (("Install", "present"), ("Configure", "present"), ("Remove", "absent")):
        if f"{verb.lower()}.yml" in role.tasks:
            wanted[verb] = ({f"ansible.builtin.{INCLUDED[verb]}_tasks": f"{verb.lower()}.yml"}, state)
        elif verb != "Install" and not role.only_proves:
            # Short enough for the table of contents itself.
            wanted[verb] = ({}, state)
    tasks = role.load("tasks/main.yml") or [{}]
    if tasks[0].get("name") != "Prepare":
        yield "tasks/main.yml does not begin with Prepare"
    if [task["name"] for task in tasks if task.get("name") in wanted] != list(wanted):
        yield f"tasks/main.yml does not have, in this order: {', '.join(wanted)}"
    for task in tasks:
        action, state = wanted.get(task.get("name"), ({}, ""))
        if task | action != task:
            yield f"tasks/main.yml: {task['name']} does something else than in CONTRIBUTING.md"
        when = task.get("when", "")
        if (
            state
            and not role.only_proves
            and not str(when[0] if isinstance(when, list) else when).startswith(f'{role.name}_state == "{state}"')
        ):
            yield f"tasks/main.yml: {task['name']} is not tied to {role.name}_state"


def removal(role: Role) -> Iterator[str]:
    """Report removals of users and units that the role did not install, and sets that are not removed last."""
    tasks = role.tasks.get("remove.yml", [])
    for task in tasks:
        units = (task.get(f"{COLLECTION}.systemd_units") or {}).get("units")
        if ("ansible.builtin.user" in task or isinstance(units, list)) and "ansible_facts['rigwright']" not in str(
            task.get("when")
        ):
            yield f"tasks/remove.yml, {task.get('name')}: is done on a host that the role never managed, too"
    asks = [number for number, task in enumerate(tasks) if "['managed']" in str(task.get("when"))]
    gives = [number for number, task in enumerate(tasks) if f"{COLLECTION}.config_files" in task]
    if asks and gives and min(gives) < len(tasks) - 1:
        yield "tasks/remove.yml: after the set is removed, the next run does not complete one that was interrupted"


def verification(role: Role) -> Iterator[str]:
    """Report a tasks/verify.yml that does more than to prepare and to call the action verify.

    The playbooks verify all roles of a host in one module run, without this file.
    """
    tasks = role.tasks.get("verify.yml", [{}])
    first = tasks[0]
    if first | PREPARE != first:
        yield "tasks/verify.yml does not begin with Prepare: run alone, it has no facts"
    rest = [task for task in tasks[1:] if task | PLATFORM_VARIABLES != task]
    if [{key: task[key] for key in task if key not in ("name", "register")} for task in rest] != [VERIFY]:
        yield "tasks/verify.yml does something else than to call the action verify, without arguments"
    code = role.checkout / f"plugins/module_utils/_roles/{role.name}.py"
    if not code.is_file() or not defines(code.read_text(), "verify"):
        yield f"{code.relative_to(role.checkout)} has no function verify"


def registered_changes(role: Role) -> Iterator[str]:
    """Report changes that are not registered: `finding` and `config_files` read the results in check mode."""
    changes = {f"{COLLECTION}.{module}" for module in ("config_files", "systemd_units", "group_members")}
    recorded = {file for file, tasks in role.tasks.items() if any(f"{COLLECTION}.finding" in task for task in tasks)}
    for file, tasks in role.tasks.items():
        of_findings = changes if file.startswith("configure") and recorded - {"verify.yml", "remove.yml"} else set()
        for task in tasks if file != "remove.yml" else ():
            brings = "ansible.builtin.apt" in task and task["ansible.builtin.apt"].get("state") != "absent"
            # Later calls in check mode find the directory missing that this one makes.
            makes = file == "install.yml" and "directories" in (task.get(f"{COLLECTION}.config_files") or {})
            if (brings or makes or of_findings & task.keys()) and "register" not in task:
                yield f"tasks/{file}, {task.get('name')}: is not registered, so check mode does not know of it later"


def handed_on(role: Role) -> Iterator[str]:
    """Check that the results which later roles read in check mode are registered (`hands_on` in meta/rigwright.yml)."""
    registered = {task["register"] for tasks in role.tasks.values() for task in tasks if "register" in task}
    for kind, source in ((role.load("meta/rigwright.yml") or {}).get("hands_on") or {}).items():
        if source.partition(".")[0] not in registered:
            yield f"meta/rigwright.yml hands on {kind} by {source}, which no task of the role registers"


def full_names(role: Role) -> Iterator[str]:
    """Report modules and roles without their full name."""
    keywords = re.compile(
        r"name|register|loop|loop_control|when|vars|block|rescue|always|become\w*|delegate_(to|facts)|notify|listen|no_log|"
        r"changed_when|failed_when|check_mode|diff|until|retries|delay|args|environment|ignore_(errors|unreachable)|run_once|tags|throttle|"
        r"timeout|async|poll|any_errors_fatal|module_defaults"
    )
    for file, tasks in role.tasks.items():
        for task in tasks:
            for action in task:
                if not keywords.fullmatch(action) and action.count(".") < 2:
                    yield f"tasks/{file}, {task.get('name')}: {action} is no full name"
            for include in ("include_role", "import_role"):
                name = (task.get(f"ansible.builtin.{include}") or {}).get("name", f"{COLLECTION}.")
                if not name.startswith(f"{COLLECTION}."):
                    yield f"tasks/{file}, {task.get('name')}: role {name} is no full name"


def durations(role: Role) -> Iterator[str]:
    """Report task names that say how long the task takes: that differs from host to host."""
    for file, tasks in role.tasks.items():
        for task in tasks:
            if _DURATION.search(str(task.get("name", ""))):
                yield f"tasks/{file}: the name {task['name']!r} has a duration: leave it out"


def pages(role: Role) -> Iterator[str]:
    """Report a role without a page or without a line in the changelog."""
    if not (role.checkout / f"docs/{role.name}.md").exists():
        yield f"docs/{role.name}.md is missing"
    changes = [*role.checkout.glob("changelogs/fragments/*.yml"), *role.checkout.glob("changelogs/changelog.yaml")]
    if not any(re.search(rf"\b{role.name}\b", change.read_text()) for change in changes):
        yield f"changelogs/ has no fragment about {role.name}"


def scenario(role: Role) -> Iterator[str]:
    """Report a missing molecule scenario, or one without tests."""
    folder = role.checkout / "molecule" / role.name
    if not (folder / "molecule.yml").exists():
        yield f"molecule/{role.name}/molecule.yml is missing"
    if not list(folder.glob("tests/test_*.py")):
        yield f"molecule/{role.name}/tests has no test"


CHECKS: list[Callable[[Role], Iterator[str]]] = [
    files,
    handlers,
    variables,
    secrets,
    templates,
    platforms,
    table_of_contents,
    removal,
    verification,
    registered_changes,
    handed_on,
    full_names,
    durations,
    pages,
    scenario,
]
