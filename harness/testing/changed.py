"""The stages of `script/test --changed`: the checks of changed files, and the tests that a change can reach.

Without `--hosts`, what needs no containers. With a release, also the scenarios of the roles that the change reaches, on one host of it.
With `all`, these on both releases, and every other stage that the change can reach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.testing import selection, stages
from harness.testing.stage import ROOT, Log, Stage, Tally

RELEASES = ("debian12", "debian13")
# Which changes a stage with hosts, or with a machine, can reach.
REACHED_BY = {
    "sanity": ("plugins/", "roles/", "playbooks/", "meta/", "galaxy.yml"),
    "archive": ("plugins/", "roles/", "playbooks/", "meta/", "galaxy.yml"),
    "site": ("plugins/", "roles/", "playbooks/", "tests/site/"),
    "upgrade": ("plugins/", "roles/", "playbooks/", "tests/upgrade/"),
    "new_role": (
        *(f"plugins/module_utils/{package}/" for package in ("_core", "_service", "_system")),
        "plugins/action/",
        "plugins/plugin_utils/",
        "plugins/modules/",
        "roles/common/",
        "tests/new_role/",
    ),
    "bare_metal:": (
        *(
            f"plugins/module_utils/{package}/"
            for package in ("_bare_metal", "_manifest", "_backup", "_core", "_system", "_apt", "_docker")
        ),
        "plugins/modules/bare_metal_",
        "plugins/modules/machine_manifest",
        "playbooks/",
        "roles/backup/",
    ),
}


def default_base() -> str:
    """Return the branch that a change is for: origin/main where there is one, else main."""
    log = Log(ROOT / ".cache/test/changed.log")
    exists = log.run("git", "rev-parse", "--verify", "--quiet", "origin/main", must_pass=False).status == 0
    return "origin/main" if exists else "main"


def stages_of(names: Sequence[str], hosts: str = "") -> list[Stage]:
    """Return the stages for a change of these files."""
    chosen = selection.select(names)
    reason = f" ({chosen.reason})" if chosen.reason else ""
    tests = [str(path.relative_to(ROOT)) for path in chosen.tests]
    found = [*lint(names), Stage("unit", f"{len(tests)} files of unit tests{reason}, and the contract", unit(tests))]
    found += (
        [Stage("docs", "the pages of changed plugins and roles", stages.documentation)] if plugins_of(names) else []
    )
    if hosts:
        only = (
            {} if hosts == "all" else {"RIGWRIGHT_RELEASE": hosts, "RIGWRIGHT_LIMIT": f"localhost,all,{without(hosts)}"}
        )
        found += [
            Stage(f"molecule:{role}", f"the role {role} on {hosts}", stages.molecule(role, only))
            for role in stages.scenarios()
            if role in chosen.roles
        ]
    if hosts == "all":
        found += [
            stage
            for stage in stages.every_stage()
            if (stage.by_default or stage.with_all) and is_reached(stage.name, names, chosen.reason)
        ]
    return found


def without(release: str) -> str:
    return ",".join(f"!{other}" for other in RELEASES if other != release)


def is_reached(stage: str, names: Sequence[str], everything: str) -> bool:
    for name, prefixes in REACHED_BY.items():
        if stage.startswith(name):
            return bool(everything) or any(changed.startswith(prefixes) for changed in names)
    return False


def lint(names: Sequence[str]) -> list[Stage]:
    """Return the checks of single files, for those that changed."""
    present = [name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]
    python = [name for name in present if name.endswith(".py")]
    yaml = [name for name in present if name.endswith((".yml", ".yaml"))]
    shell = [name for name in present if (ROOT / name) in set(stages.shell_scripts())]
    table: list[tuple[str, str, Sequence[str], Sequence[str]]] = [
        (
            "ruff",
            "changed Python is formatted and free of common mistakes",
            ("ruff format --check", "ruff check"),
            python,
        ),
        ("yamllint", "changed YAML is well formed", ("yamllint --strict",), yaml),
        ("shellcheck", "changed shell scripts are free of common mistakes", ("shellcheck",), shell),
        ("words", "changed files use the words of CONTRIBUTING.md", ("codespell", "python -m harness words"), present),
    ]
    found = [
        Stage(name, proves, stages.commands(*([*line.split(), *files] for line in lines)))
        for name, proves, lines, files in table
        if files
    ]
    whole = {"mypy"} if any(name.endswith(".py") for name in names) else set()
    whole |= {"workflows"} if any(name.startswith((".github/", ".pre-commit")) for name in names) else set()
    return [*found, *(stage for stage in stages.every_stage() if stage.name in whole)]


def unit(tests: Sequence[str]) -> Callable[[Log], Tally]:
    return stages.pytest(*tests, "tests/contract", "tests/world")


def plugins_of(names: Sequence[str]) -> bool:
    return any(name.startswith(("plugins/", "roles/")) for name in names)
