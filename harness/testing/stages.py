"""The stages of `script/test`: one table, the fast ones first.

A stage that needs more than a few commands has a function here that does its work.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from harness.testing import selection, tracing
from harness.testing.plays import has_plays
from harness.testing.stage import (
    OUTPUT,
    ROOT,
    Log,
    Outcome,
    Stage,
    StageFailed,
    Tally,
    clean_environment,
    tally_of_junit,
)
from harness.vm import drill

COLLECTION = "rigwright.workstation"
COLLECTION_PATH = Path("ansible_collections", *COLLECTION.split("."))
# They begin first, the longest of them before the others, so that in the end no lane waits for one of them.
SLOW_SCENARIOS = (
    "nvidia_driver",
    "backup",
    "smoke_test",
    "docker",
    "gpu_usage",
    "nvidia_container_toolkit",
    "ssh",
    "xrdp",
)
WORKFLOWS = (
    "check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/test.yml",
    "check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml",
    "check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml",
    "pre-commit validate-config",
)
GPU_DEVICE = Path("/dev/nvidiactl")
SHELL_SCRIPTS = ("script/*", ".ci/run", "requirements/lock", "harness/*/*.sh", "harness/vm/files/*.sh")
# What the archive may hold at its top; build_ignore of galaxy.yml leaves the rest out.
SHIPPED = {
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MANIFEST.json",
    "README.md",
    "SECURITY.md",
    "changelogs",
    "docs",
    "meta",
    "playbooks",
    "plugins",
    "roles",
}


def every_stage() -> list[Stage]:
    """Return all stages that this checkout has, in the order of the report."""
    return [
        Stage("ruff", "Python is formatted and free of common mistakes", commands("ruff format --check", "ruff check")),
        Stage("mypy", "types hold", commands("mypy harness plugins tests")),
        Stage("yamllint", "YAML is well formed", commands("yamllint --strict .")),
        Stage("ansible-lint", "playbooks and roles meet the production profile", commands("ansible-lint")),
        Stage("shellcheck", "shell scripts are free of common mistakes", shellcheck),
        Stage("words", "spelling, and the words of CONTRIBUTING.md", commands("codespell", "python -m harness words")),
        Stage("workflows", "files for GitHub and pre-commit are valid", commands(*WORKFLOWS)),
        Stage("unit", "plugins, harness and the contract of every role", unit),
        Stage(
            "plays",
            "actions, callbacks and playbooks under a real ansible-playbook",
            plays,
            fast=False,
        ),
        Stage("docs", "every plugin and role has a documentation page that sites can build", pages),
        Stage("archive", "the built collection installs into an empty place and runs from there", archive),
        Stage("sanity", "ansible-test sanity on a copy", sanity, fast=False),
        Stage(
            "site",
            "the whole site: both controllers, the installed archive, a login through the tunnel",
            pytest("tests/site", processes="0"),
            fast=False,
        ),
        Stage(
            "upgrade",
            "hosts of an earlier version are upgraded in use, and keep their states",
            pytest("tests/upgrade", processes="0"),
            fast=False,
        ),
        *(
            Stage(
                f"bare_metal:{name}",
                "a machine of qemu is backed up, lost, built again on other disks, and booted to a login",
                commands(f"{sys.executable} -m harness bare-metal {name}"),
                fast=False,
                # Each takes minutes of all processors: one stands for the four.
                by_default=False,
                with_all=name == drill.WITH_ALL,
            )
            for name in drill.DRILLS
        ),
        Stage(
            "machine",
            "a booted machine of qemu is provisioned, loses its power and its data disk, and heals",
            pytest("tests/machine", "--exitfirst", "--capture=no", processes="0"),
            fast=False,
            # It takes minutes of all processors.
            by_default=False,
            with_all=True,
        ),
        Stage(
            "new_role",
            "a role that script/new-role writes passes on real hosts, and its killed runs are completed",
            new_role,
            fast=False,
        ),
        *(
            Stage(f"molecule:{name}", f"the role {name} on real hosts", molecule(name), fast=False)
            for name in scenarios()
        ),
        Stage(
            "gpu",
            "the hardware tests",
            pytest("tests/hardware", "-m", "gpu", processes="0"),
            fast=False,
            by_default=False,
        ),
    ]


def choose(
    stages: list[Stage],
    *,
    fast: bool = False,
    role: str | None = None,
    gpu: bool = False,
    drills: bool = False,
    machine: bool = False,
    everything: bool = False,
) -> list[Stage]:
    """Return the stages that these options ask for."""
    if machine:
        return [stage for stage in stages if stage.name == "machine"]
    if drills:
        return [stage for stage in stages if stage.name.startswith("bare_metal:")]
    if gpu:
        return [stage for stage in stages if stage.name == "gpu"]
    if role:
        chosen = map(str, selection.unit_tests_of(role))
        tests = Stage(
            "unit", f"the tests of all code that {role} reaches", pytest(*chosen, "tests/contract", "tests/world")
        )
        return [tests, *(stage for stage in stages if stage.name == f"molecule:{role}")]
    return [
        stage
        for stage in stages
        if (stage.by_default and (stage.fast or not fast)) or (everything and not fast and stage.with_all)
    ]


def scenarios() -> list[str]:
    names = sorted(path.parent.name for path in ROOT.glob("molecule/*/molecule.yml"))
    return sorted(names, key=lambda name: SLOW_SCENARIOS.index(name) if name in SLOW_SCENARIOS else len(SLOW_SCENARIOS))


def has_gpu() -> bool:
    return GPU_DEVICE.exists()


# ---- The work of stages --------------------------------------------------------------------------------------------------


def commands(*lines: str | Sequence[str]) -> Callable[[Log], Tally]:
    """Return the work of a stage that passes when all these commands do."""

    def work(log: Log) -> Tally:
        for line in lines:
            log.run(*(line.split() if isinstance(line, str) else line))
        return Tally(passed=1)

    return work


def pytest(*arguments: str, processes: str = "auto") -> Callable[[Log], Tally]:
    """Return the work of a stage that runs pytest with these arguments and counts its tests."""

    def work(log: Log) -> Tally:
        results = OUTPUT / f"{log.path.stem}.xml"
        results.unlink(missing_ok=True)
        options = ("--quiet", f"--numprocesses={processes}", f"--junitxml={results}")
        status = log.run("pytest", *options, *arguments, must_pass=False).status
        tally = tally_of_junit(results)
        if status != 0:
            raise StageFailed(f"pytest ended with status {status}", tally)
        return tally

    return work


def unit(log: Log) -> Tally:
    """Run the unit and contract tests, and hold the selection of tests to the files that they have read."""
    shutil.rmtree(tracing.READS, ignore_errors=True)
    options = ("-p", "harness.testing.tracing", "-m", "not plays")
    tally = pytest("tests/unit", "tests/contract", "tests/world", *options)(log)
    missed = selection.misses(
        {name: files for name, files in tracing.recorded().items() if name.startswith("tests/unit/")}
    )
    if missed:
        raise StageFailed("\n".join(["the selection of tests misses files", *missed]), tally + Tally(failed=1))
    return tally + Tally(passed=1)


def plays(log: Log) -> Tally:
    """Run the unit tests that start ansible-playbook. To collect all others takes longer than most of these tests."""
    files = filter(has_plays, sorted((ROOT / "tests/unit").rglob("test_*.py")))
    return pytest("-m", "plays", *(str(path.relative_to(ROOT)) for path in files))(log)


def shell_scripts() -> list[Path]:
    return [path for pattern in SHELL_SCRIPTS for path in sorted(ROOT.glob(pattern))]


def shellcheck(log: Log) -> Tally:
    scripts = shell_scripts()
    log.run("shellcheck", *scripts)
    return Tally(passed=len(scripts))


def plugin_names(kind: str) -> list[str]:
    """Return the full names of the collection's plugins of a kind: `module`, `callback`, `filter`, `lookup` or `role`."""
    if kind == "role":
        found = sorted(path.name for path in ROOT.glob("roles/*") if path.is_dir())
    else:
        found = sorted(path.stem for path in (ROOT / "plugins" / {"module": "modules"}.get(kind, kind)).glob("*.py"))
    return [f"{COLLECTION}.{name}" for name in found]


def documentation(log: Log, cwd: Path = ROOT, env: Mapping[str, str] | None = None) -> Tally:
    """Check that every plugin and role has its page. The exit status alone is not enough: ansible-doc leaves out what it cannot find."""
    tally, missing = Tally(), []
    for kind in ("module", "callback", "filter", "lookup", "role"):
        names = plugin_names(kind)
        if names:
            output = log.run("ansible-doc", "--type", kind, *names, cwd=cwd, env=env, must_pass=False).output
            shown = set(re.findall(r"^> \w+:? \*?([\w.]+)", output, re.MULTILINE))
            missing += sorted(set(names) - shown)
            tally += Tally(passed=len(shown.intersection(names)))
    if missing:
        raise StageFailed(f"no page of {', '.join(missing)}", tally + Tally(failed=len(missing)))
    return tally


def pages(log: Log) -> Tally:
    """Show every page, and have the tool of Galaxy and documentation sites accept all of them."""
    tally = documentation(log)
    options = ("--plugin-docs", "--skip-rstcheck", "--validate-collection-refs", "self")
    log.run("antsibull-docs", "lint-collection-docs", *options, ".")
    return tally + Tally(passed=1)


def archive(log: Log) -> Tally:
    """Build, install and use the collection as a new user does: no checkout, no ansible.cfg, no other collection in sight."""
    place = OUTPUT / "archive"
    shutil.rmtree(place, ignore_errors=True)
    home = place / "home"
    home.mkdir(parents=True)
    env = {
        "HOME": str(home),
        "ANSIBLE_COLLECTIONS_PATH": str(place / "collections"),
        "ANSIBLE_INJECT_FACT_VARS": "false",
    }

    def run(*command: str | Path) -> Outcome:
        return log.run(*command, cwd=home, env=env)

    log.run("ansible-galaxy", "collection", "build", "--output-path", place)
    (built,) = place.glob("*.tar.gz")
    run("ansible-galaxy", "collection", "install", "--offline", "--collections-path", place / "collections", built)
    installed = place / "collections" / COLLECTION_PATH
    strays = sorted(path.name for path in installed.iterdir() if path.name not in SHIPPED)
    if strays:
        raise StageFailed(f"the archive carries what no user needs: {', '.join(strays)} (galaxy.yml, build_ignore)")
    run("ansible-playbook", "--syntax-check", "--inventory", "localhost,", f"{COLLECTION}.site")
    run("ansible", "localhost", "--module-name", f"{COLLECTION}.host_facts")
    roles = [role.removeprefix(f"{COLLECTION}.") for role in plugin_names("role")]
    specs = {role: (ROOT / "roles" / role / "meta" / "argument_specs.yml").read_text() for role in roles}
    with_state = [role for role in roles if f"{role}_state:" in specs[role]]
    (home / "refused.json").write_text(json.dumps([wrong_state(role) for role in with_state]))
    shown = run("ansible-playbook", "--inventory", "localhost,", "refused.json").output
    accepted = [role for role in with_state if f"value of {role}_state must be one of" not in shown]
    tally = Tally(passed=4 + len(with_state) - len(accepted), failed=len(accepted))
    if accepted:
        raise StageFailed(f"roles of the installed archive did not refuse a wrong state: {', '.join(accepted)}", tally)
    return tally + documentation(log, cwd=home, env=env)


def wrong_state(role: str) -> dict[str, Any]:
    """Return a play that asks a role for a state that it does not have, and shows its refusal."""
    apply = {"ansible.builtin.include_role": {"name": f"{COLLECTION}.{role}"}, "vars": {f"{role}_state": "wrong"}}
    show = {"ansible.builtin.debug": {"var": "ansible_failed_result.msg"}}
    return {
        "hosts": "localhost",
        "connection": "local",
        "gather_facts": False,
        "tasks": [{"block": [apply], "rescue": [show]}],
    }


# What other stages do: ruff (also what pylint finds), yamllint, shellcheck; the import test compiles, and runs once for each Python.
SANITY_LEFT_OUT = ("pep8", "pylint", "yamllint", "shellcheck", "compile", "import")
# Those that ansible-core 2.21 supports on targets.
PYTHONS = [f"3.{minor}" for minor in range(9, 15)]


def copy_checkout(log: Log, copy: Path, only: Set[str] = frozenset()) -> None:
    """Copy what git knows, of all folders or of some, to a git tree of its own."""
    shutil.rmtree(copy, ignore_errors=True)
    for name in subprocess.check_output(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=ROOT, text=True
    ).splitlines():
        source = ROOT / name
        if (not only or Path(name).parts[0] in only) and (source.is_file() or source.is_symlink()):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, copy / name, follow_symlinks=False)
    log.run("git", "init", "--quiet", cwd=copy)
    log.run("git", "add", "--all", cwd=copy)


def new_role(log: Log) -> Tally:
    """Write a role in a copy of the checkout, as one who adds a role does, and run its scenario there."""
    copy = OUTPUT / "new_role"
    copy_checkout(log, copy)
    # Another checkout needs networks of its own: those of the lanes are taken.
    env = {"RIGWRIGHT_SANDBOX": str(int(log.env["RIGWRIGHT_SANDBOX"]) + 10), "PYTHONPATH": str(copy)}
    names = ("-c", "user.name=rigwright", "-c", "user.email=rigwright@localhost")
    log.run("git", *names, "commit", "--quiet", "--message=copy", cwd=copy)
    options = ("probe", "--unit", "--port", "9700", "--metric")
    log.run(sys.executable, "-m", "harness", "new-role", *options, cwd=copy, env=env)
    log.run("ansible-lint", "roles/probe", "molecule/probe", "playbooks/site.yml", cwd=copy, env=env)
    shutil.copy2(ROOT / "tests/new_role/test_killed.py", copy / "molecule/probe/tests/test_killed.py")
    return molecule("probe", env, cwd=copy)(log) + Tally(passed=2)


def sanity(log: Log) -> Tally:
    """Run `ansible-test sanity` on a copy of what the archive will hold: it does not follow the links under collections/."""
    copy = OUTPUT / "sanity" / COLLECTION_PATH
    # ansible-test would not read a folder inside another git tree.
    copy_checkout(log, copy, {*SHIPPED, "galaxy.yml"})
    home = prepare_ansible_test_home(log)
    rest = [f"--skip-test={name}" for name in SANITY_LEFT_OUT]
    # With the oldest that is here, and with --all the newest too: ruff keeps the syntax to what the oldest knows.
    path = clean_environment()["PATH"]
    pythons = [python for python in PYTHONS if shutil.which(f"python{python}", path=path)]
    chosen = pythons[:: max(1, len(pythons) - 1)] if os.environ.get("RIGWRIGHT_SLOW") else pythons[:1]
    imports = [["--test", "import", "--python", python] for python in chosen]
    statuses = [
        log.run(
            *("ansible-test", "sanity", "--junit", "--color", "no", *options),
            cwd=copy,
            env={"HOME": str(home)},
            must_pass=False,
        ).status
        for options in (rest, *imports)
    ]
    tally = sum((tally_of_junit(path) for path in sorted((copy / "tests/output/junit").glob("*.xml"))), Tally())
    if any(statuses):
        raise StageFailed(f"ansible-test ended with status {max(statuses)}", tally)
    return tally


# ansible-test wants to download get-pip for its environments; the pip that Python carries serves as well.
GET_PIP = """\
import subprocess, sys

wanted = [word for word in sys.argv[1:] if word not in ("--no-setuptools", "--no-wheel")]
for command in ["ensurepip"], ["pip", "install", *wanted]:
    subprocess.check_call([sys.executable, "-m", *command])
"""


def prepare_ansible_test_home(log: Log) -> Path:
    """Return a home for ansible-test, kept between runs because it makes an environment for every test and Python there."""
    home = OUTPUT / "ansible-test-home"
    requirements = Path(sys.prefix).glob("lib/python3*/site-packages/ansible_test/_internal/python_requirements.py")
    version = re.search(r"pip='([\d.]+)'", next(requirements).read_text())
    if version is None:
        raise StageFailed(
            "ansible-test no longer names the pip that it wants: harness/testing/stages.py must learn where it does"
        )
    cache = home / ".ansible/test/cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"get_pip_{version[1].replace('.', '_')}.py").write_text(GET_PIP)
    # It also hides the environment from pip: the settings of this machine (a proxy's certificate) are handed on in a file.
    settings = re.findall(r"^(?:global|:env:)\.([\w-]+)='(.*)'$", log.run("pip", "config", "list").output, re.MULTILINE)
    config = home / ".config/pip/pip.conf"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text("[global]\n" + "".join(f"{key} = {value}\n" for key, value in dict(settings).items()))
    return home


def molecule(name: str, settings: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Callable[[Log], Tally]:
    """Return the work of a stage that runs a scenario: its sequence counts as one test, its testinfra tests one each.

    :param settings: environment variables that hold it to one release (harness/testing/changed.py), or to another sandbox.
    :param cwd: the checkout that has the scenario.
    """

    def work(log: Log) -> Tally:
        results = OUTPUT / f"{log.path.stem}.xml"
        results.unlink(missing_ok=True)
        env = {
            **(settings or {}),
            "MOLECULE_GLOB": "molecule/*/molecule.yml",
            "PYTEST_ADDOPTS": f"--junitxml={results}",
        }
        outcome = log.run("molecule", "test", "--scenario-name", name, cwd=cwd, env=env, must_pass=False)
        verified = tally_of_junit(results) if results.exists() else Tally()
        if outcome.status != 0:
            raise StageFailed(f"molecule ended with status {outcome.status}", verified + Tally(failed=1))
        return verified + Tally(passed=1)

    return work
