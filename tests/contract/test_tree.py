# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds for the whole tree."""

from __future__ import annotations

import functools
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

CHECKOUT = Path(__file__).parents[2]

# Each is put together here, so that this file does not hold what it looks for.
REGISTRIES = [
    name.replace(" ", r"\.")
    for name in (
        "pypi org",
        "files pythonhosted org",
        "(deb|security|ftp|snapshot) debian org",
        "(archive|security|ports) ubuntu com",
        "proxy golang org",
        "sum golang org",
        "registry npmjs org",
        "registry-1 docker io",
        "index docker io",
        "galaxy ansible com",
        "conda anaconda org",
        "repo anaconda com",
        "crates io",
    )
]
DEVELOPER = ["/work" + "/(main|shared)", r"\.pyenv" + "/(versions|shims)", "/home" + "/runner", "/Users" + "/"]


def tree() -> list[Path]:
    """Return files that are, or are about to be, in the repository."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [
        path for name in listed.stdout.splitlines() if (path := CHECKOUT / name).is_file() and not path.is_symlink()
    ]


@functools.cache
def contents() -> dict[str, str]:
    return {str(path.relative_to(CHECKOUT)): path.read_text(errors="replace") for path in tree()}


def places(pattern: str, text: str) -> list[str]:
    if not re.search(pattern, text):
        return []
    return [f"line {number}" for number, line in enumerate(text.splitlines(), start=1) if re.search(pattern, line)]


@pytest.mark.parametrize("pattern", [*REGISTRIES, *DEVELOPER, re.escape(str(CHECKOUT)) + r"\b"])
def test_no_file_has_a_registry_address_or_developer_path(pattern):
    found = {name: places(pattern, text) for name, text in contents().items()}
    assert {name: lines for name, lines in found.items() if lines} == {}


@pytest.mark.parametrize("address", ["https://" + "pypi" + ".org/simple", "http://deb" + ".debian.org/debian"])
def test_address_would_be_found(address):
    assert any(places(pattern, f"one\nindex-url = {address}\n") == ["line 2"] for pattern in REGISTRIES)


def antsibull_changelog(command: str, place: Path) -> None:
    subprocess.run([sys.executable, "-m", "antsibull_changelog", command], cwd=place, check=True)


def test_fragments_of_the_changelog_are_such():
    antsibull_changelog("lint", CHECKOUT)


def test_changelog_is_what_the_tool_makes_of_its_releases(tmp_path):
    shutil.copytree(CHECKOUT / "changelogs", tmp_path / "changelogs")
    shutil.copy(CHECKOUT / "galaxy.yml", tmp_path)
    antsibull_changelog("generate", tmp_path)
    assert (CHECKOUT / "CHANGELOG.md").read_text() == (tmp_path / "CHANGELOG.md").read_text()


def test_changelog_lists_no_plugin_that_is_gone():
    releases = yaml.safe_load((CHECKOUT / "changelogs/changelog.yaml").read_text())["releases"]
    release = releases.get(coming_version(), {})
    listed = {"modules": release.get("modules", []), **release.get("plugins", {})}
    gone = [
        f"{kind}/{row['name']}"
        for kind, rows in listed.items()
        for row in rows
        if not (CHECKOUT / "plugins" / kind / f"{row['name']}.py").exists()
    ]
    assert gone == []


def test_changelog_has_no_release_after_the_version_that_comes():
    releases = yaml.safe_load((CHECKOUT / "changelogs/changelog.yaml").read_text())["releases"]
    assert max(map(parsed, releases)) <= parsed(coming_version())


def test_every_page_is_linked_from_their_index():
    pages = {page.name for page in CHECKOUT.glob("docs/*.md")} - {"README.md"}
    linked = set(re.findall(r"\]\((\w+\.md)\)", (CHECKOUT / "docs/README.md").read_text()))
    assert linked == pages


def test_readme_has_every_role_in_a_table():
    roles = {role.name for role in (CHECKOUT / "roles").iterdir()} - {"common"}
    rows = re.findall(r"^\| \[`(\w+)`\]\(docs/(\w+)\.md\) \|", (CHECKOUT / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted((role, role) for role in roles)


def matrix_of(readme: str) -> set[tuple[str, str, bool]]:
    """Return rows of the support matrix: distribution, version, and whether the row says that it ran in the sandbox."""
    rows = re.findall(r"^\| (Debian|Ubuntu) ([\d.]+)[^|]*\|(.*)$", readme, re.MULTILINE)
    return {(distribution, version, "sandbox" in rest) for distribution, version, rest in rows}


def test_readme_states_the_support_matrix():
    platforms = yaml.safe_load((CHECKOUT / "roles/common/vars/main/platforms.yml").read_text())["__common_platforms"]
    stated = matrix_of((CHECKOUT / "README.md").read_text())
    assert stated == {(row["distribution"], row["version"], row["run"] == "sandbox") for row in platforms}


def test_matrix_is_read_from_a_table():
    readme = (
        "| system | |\n|---|---|\n| Debian 12 (bookworm) | run in the sandbox |\n| Ubuntu 24.04 | by data, not run |\n"
    )
    assert matrix_of(readme) == {("Debian", "12", True), ("Ubuntu", "24.04", False)}


def test_changelog_fragments_announce_no_internal_module():
    internal = {
        path.stem
        for path in (CHECKOUT / "plugins/modules").glob("*.py")
        if re.search(r"^short_description:.*\(internal", path.read_text(), re.MULTILINE)
    }
    assert "role" in internal
    announced = {
        name.strip()
        for path in CHECKOUT.glob("changelogs/fragments/*.yml")
        for entries in yaml.safe_load(path.read_text()).values()
        for entry in entries
        for name in entry.partition(" - ")[0].split(",")
    }
    assert announced & internal == set()


def coming_version() -> str:
    version: str = yaml.safe_load((CHECKOUT / "galaxy.yml").read_text())["version"]
    return version.partition("-")[0]


def test_nothing_was_added_after_the_version_that_comes():
    added = {
        found
        for path in [*CHECKOUT.glob("plugins/**/*.py"), *CHECKOUT.glob("roles/**/*.yml")]
        for found in re.findall(r"version_added: ?\"?([0-9.]+)", path.read_text())
    }
    assert {version for version in added if parsed(version) > parsed(coming_version())} == set()


def parsed(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
