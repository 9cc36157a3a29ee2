# SPDX-License-Identifier: GPL-3.0-or-later
"""A host in a directory, its mirrors behind a scripted apt-helper."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._apt import mirror_plan
from ansible_collections.rigwright.workstation.plugins.module_utils._roles import mirrors as mirrors_role
from ansible_collections.rigwright.workstation.plugins.plugin_utils._plan_request import options_of, request_of

from harness.sandbox.lab import ROOT
from tests.unit.support.plan import run_role

Run = Callable[..., dict[str, Any]]

KEY = "/usr/share/keyrings/debian-archive-keyring.gpg"
OWN = "/etc/apt/sources.list.d/debian.sources"
A, B = "https://a.example/debian", "https://b.example/debian"

DISTRIBUTION = {
    "id": "debian",
    "codename": "bookworm",
    "pockets": ["updates", "security"],
    "security_pocket": "security",
    "security_suffix": "-security",
    "components": ["main", "contrib"],
    "keyrings": ["debian-archive-keyring.gpg"],
    "directories": ["debian", "debian-security"],
}

CONTEXT = {"profiles": {"none": {}}, "archive": "debian", "distribution": DISTRIBUTION}

SOURCES = f"""\
Types: deb
URIs: http://archive.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: {KEY}

Types: deb
URIs: http://archive.example/debian-security
Suites: bookworm-security
Components: main
Signed-By: {KEY}
"""

# Answers as `url`, days since its release, exit status; the rest as Debian's apt-helper does it.
APT_HELPER = """\
#!/bin/sh
echo "$2" >> {log}
case "$2" in
{answers}
*) echo "E: Failed to fetch $2  Could not connect to mirror:80. - connect (111: Connection refused)" >&2; exit 100 ;;
esac
"""


class Host:
    """A root directory, and what was asked of mirrors."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.log = root / "asked.log"

    def write(self, path: str, text: str) -> None:
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def mirrors(self, **days: float) -> None:
        """Set which mirrors answer, by the first letter of their name, and how many days old they are."""
        answers = [
            f"https://{name}.example/*) printf 'Origin: Debian\\nDate: {formatdate(_days_ago(age), usegmt=True)}\\n' > \"$3\" ;;"
            for name, age in days.items()
        ]
        self.write("apt-helper", APT_HELPER.format(log=self.log, answers="\n".join(answers)))
        (self.root / "apt-helper").chmod(0o755)

    def requests(self) -> list[str]:
        urls = self.log.read_text().split() if self.log.exists() else []
        self.log.unlink(missing_ok=True)
        return sorted(urls)

    def apply(self, result: dict[str, Any]) -> None:
        """Write the files as config_files does."""
        for item in result["files"]:
            if item.get("state") == "absent":
                (self.root / item["path"].lstrip("/")).unlink(missing_ok=True)
            else:
                self.write(item["path"], item["content"])


def _days_ago(days: float) -> float:
    import time

    return time.time() - days * 86400


def contents(result: dict[str, Any]) -> dict[str, str]:
    return {item["path"]: item["content"] for item in result["files"] if "content" in item}


def problem(result: dict[str, Any]) -> dict[str, Any]:
    (found,) = result["requirements"]
    return found


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(mirror_plan, "ROOT", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(mirror_plan, "APT_HELPER", str(tmp_path / "apt-helper"))
    host = Host(tmp_path)
    host.write(OWN, SOURCES)
    host.mirrors(a=0.5, b=0.5)
    return host


@pytest.fixture
def plan(host: Host, run_module: Run) -> Run:
    def run(*urls: str, check_mode: bool = False, **options: Any) -> dict[str, Any]:
        # The role has an option `check` of its own.
        values = {f"mirrors_{name}": value for name, value in {"apt_urls": list(urls), **options}.items()}
        request, _secrets = request_of("mirrors", options_of(str(ROOT / "roles/mirrors")), values)
        return run_role(run_module, mirrors_role, {**request, **CONTEXT}, check_mode)

    return run


def test_one_mirror_is_named_in_the_sources_themselves(plan: Run) -> None:
    result = plan(A)

    assert result["changed"] is False
    assert result["directories"] == [{"path": "/var/lib/rigwright_mirrors"}]
    assert f"URIs: {A}\nSuites: bookworm bookworm-updates\n" in contents(result)[OWN]
    assert "URIs: http://archive.example/debian-security\nSuites: bookworm-security\n" in contents(result)[OWN]


def test_several_mirrors_are_a_list_that_apt_goes_through(plan: Run) -> None:
    result = plan(A, B)

    assert result["directories"] == [{"path": "/var/lib/rigwright_mirrors"}, {"path": "/etc/apt/mirrors"}]
    assert contents(result)["/etc/apt/mirrors/debian.list"] == f"{A}\tpriority:1\n{B}\tpriority:2\n"
    assert "URIs: mirror+file:/etc/apt/mirrors/debian.list\n" in contents(result)[OWN]
    assert 'Acquire::Retries "1";' in contents(result)["/etc/apt/apt.conf.d/80rigwright-mirrors"]


def test_a_dead_first_mirror_is_tried_last(host: Host, plan: Run) -> None:
    host.mirrors(b=0.5)

    result = plan(A, B)

    assert contents(result)["/etc/apt/mirrors/debian.list"] == f"{B}\tpriority:1\n{A}\tpriority:2\n"
    assert [(mirror["url"], mirror["status"]) for mirror in result["mirrors"]] == [(B, "fit"), (A, "dead")]
    assert result["mirrors"][1]["reason"] == "Could not connect to mirror:80. - connect (111: Connection refused)"


def test_a_stale_mirror_is_left_out(host: Host, plan: Run) -> None:
    host.mirrors(a=41, b=0.5)

    result = plan(A, B)

    assert f"URIs: {B}\n" in contents(result)[OWN]
    assert [(mirror["url"], mirror["status"]) for mirror in result["mirrors"]] == [(B, "fit"), (A, "stale")]


def test_no_usable_mirror_is_refused_with_every_reason(host: Host, plan: Run) -> None:
    host.mirrors(a=41)

    result = plan(A, B, max_age_days=5)

    found = problem(result)
    assert found["variable"] == "mirrors_apt_urls"
    assert f"no mirror can be used. {A}: its newest release is 41 days old, the limit is 5 days" in found["problem"]
    assert f"{B}: Could not connect to mirror:80" in found["problem"]
    assert [mirror["status"] for mirror in result["mirrors"]] == ["stale", "dead"]
    assert result["states"][0].startswith(f"{A}: stale: its newest release is 41 days old")
    assert (result["fit"], result["files"]) == (False, [])


def test_choice_is_a_finding(host: Host, plan: Run) -> None:
    (found,) = plan(A, B)["findings"]
    assert (found["id"], found["status"], found["evidence"]) == ("mirrors.choice", "pass", f"{A}: fit; {B}: fit")
    host.mirrors(b=0.5)
    (found,) = plan(A, B)["findings"]
    assert (found["status"], found["evidence"].partition(";")[0]) == ("warn", f"{B}: fit")


def test_apt_tests_the_file_of_the_distribution_alone(plan: Run) -> None:
    result = plan(A)
    assert result["checks"] == [" ".join(result["update"])]
    assert f"Dir::Etc::sourcelist={OWN}" in result["update"]


def test_an_address_that_is_none_is_not_asked(host: Host, plan: Run) -> None:
    assert problem(plan("https://a.example/'debian'"))["variable"] == "mirrors_apt_urls"
    assert host.requests() == []


def test_nothing_is_wanted_without_a_mirror(plan: Run) -> None:
    result = plan()
    assert (result["wanted"], result["files"], result["checks"], result["findings"]) == (False, [], [], [])
    assert result["remove"] is False
    assert plan(hf_endpoint="https://hf.example")["wanted"] is True


def test_files_of_an_earlier_run_are_removed_without_a_mirror(host: Host, plan: Run) -> None:
    missing = {"kind": "missing", **dict.fromkeys(("mode", "uid", "gid", "mtime_ns", "written"))}
    record = {"paths": {OWN: {**missing, "secret": False}}}
    host.write("/var/lib/rigwright/config_files/mirrors/manifest.json", json.dumps(record))
    assert plan()["remove"] is True


def test_repeated_request_needs_no_network_and_plans_the_same(host: Host, plan: Run) -> None:
    first = plan(A, B)
    host.apply(first)
    assert host.requests()

    second = plan(A, B)

    assert host.requests() == []
    assert second["asked"] is False
    assert contents(second) == contents(first)


@pytest.mark.parametrize("change", [{"recheck": True}, {"max_age_days": 8}, {"security": True}])
def test_another_request_asks_again(host: Host, plan: Run, change: dict[str, Any]) -> None:
    host.apply(plan(A))
    host.requests()

    assert plan(A, **change)["asked"] is True
    assert host.requests()


def test_a_suite_that_was_added_by_hand_is_kept_and_asked_for(host: Host, plan: Run) -> None:
    host.apply(plan(A))
    host.requests()
    edited = (host.root / OWN.lstrip("/")).read_text().replace("Components: main\n", "Components: main contrib\n")
    host.write(OWN, edited.replace("Suites: bookworm bookworm-updates\n", "Suites: bookworm\n"))

    result = plan(A)

    assert host.requests() == [f"{A}/dists/bookworm-updates/InRelease", f"{A}/dists/bookworm/InRelease"]
    assert f"URIs: {A}\nSuites: bookworm\nComponents: main contrib\n" in contents(result)[OWN]


def test_security_moves_to_the_mirrors_and_back(host: Host, plan: Run) -> None:
    requests = plan(A, security=True)
    assert f"URIs: {A}-security\nSuites: bookworm-security\n" in contents(requests)[OWN]
    assert f"{A}-security/dists/bookworm-security/InRelease" in host.requests()
    host.apply(requests)

    again = plan(A, B, security=True)
    assert "URIs: mirror+file:/etc/apt/mirrors/debian-security.list\n" in contents(again)[OWN]
    host.apply(again)

    assert "URIs: http://archive.example/debian-security\nSuites: bookworm-security\n" in contents(plan(A))[OWN]


def test_unseen_mirrors_keep_the_given_order_and_are_not_asked(host: Host, plan: Run) -> None:
    host.mirrors()

    result = plan(A, B, check=False)

    assert host.requests() == []
    assert contents(result)["/etc/apt/mirrors/debian.list"] == f"{A}\tpriority:1\n{B}\tpriority:2\n"


def test_check_mode_asks_and_writes_nothing(host: Host, plan: Run) -> None:
    before = sorted(path for path in host.root.rglob("*") if path != host.log)

    plan(A, B, check_mode=True)

    assert sorted(path for path in host.root.rglob("*") if path != host.log) == before


def test_cloud_init_preserves_the_sources(host: Host, plan: Run) -> None:
    (host.root / "etc/cloud/cloud.cfg.d").mkdir(parents=True)

    assert (
        contents(plan(A))["/etc/cloud/cloud.cfg.d/99-rigwright-mirrors.cfg"] == "apt:\n  preserve_sources_list: true\n"
    )


def test_a_line_file_that_went_stays_named(host: Host, plan: Run) -> None:
    store = "/var/lib/rigwright/config_files/mirrors"
    entry = {"kind": "file", "mode": 420, "uid": 0, "gid": 0, "mtime_ns": 1, "written": None, "secret": False}
    host.write(f"{store}/manifest.json", json.dumps({"transaction": "1", "paths": {"/etc/apt/sources.list": entry}}))
    host.write(f"{store}/originals/etc%2Fapt%2Fsources.list", "deb http://archive.example/debian bookworm main\n")

    assert {"path": "/etc/apt/sources.list", "state": "absent"} in plan(A)["files"]


def test_without_apt_mirrors_only_pip_is_planned(host: Host, plan: Run) -> None:
    host.write("/etc/pip.conf", "[global]\ncert = /etc/ssl/lab.pem\n")

    result = plan(pip_url="https://m.example/simple")

    assert contents(result) == {
        "/etc/pip.conf": "[global]\nindex-url = https://m.example/simple\ncert = /etc/ssl/lab.pem\n"
    }
    assert result["mirrors"] == []


def test_a_host_without_its_own_sources_is_refused(host: Host, plan: Run) -> None:
    host.write(OWN, "")

    result = plan(A)

    assert "no file in /etc/apt defines the archive of debian bookworm" in problem(result)["problem"]
    assert result["states"] == [
        "mirrors_apt_urls: no file in /etc/apt defines the archive of debian bookworm, so its suites and keys are unknown;"
        " run `apt-get update` once, which shows whose the sources are, or give the host its own sources back first"
    ]
    assert host.requests() == []


def test_a_source_file_that_is_no_text_is_refused(host: Host, plan: Run) -> None:
    (host.root / "etc/apt/sources.list").write_bytes(b"# caf\xe9\n")

    found = problem(plan(A))
    assert (found["variable"], found["problem"].partition(":")[0]) == ("/etc/apt/sources.list", "is not UTF-8 text")


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("http://archive.example/debian/", "archive.example_debian_dists_bookworm_InRelease"),
        ("http://user:secret@h.example:8080/a_b~c", "h.example:8080_a%5fb%7ec_dists_bookworm_InRelease"),
        ("mirror+file:/etc/apt/mirrors/debian.list", "_etc_apt_mirrors_debian.list_dists_bookworm_InRelease"),
    ],
)
def test_lists_are_found_under_the_names_that_apt_gives_them(uri: str, name: str) -> None:
    assert mirror_plan.list_name(uri, "bookworm") == name


def test_origin_identifies_the_distribution(host: Host, plan: Run) -> None:
    host.write("/etc/apt/sources.list", "deb http://packages.example/debian bookworm main\n")
    host.write("/var/lib/apt/lists/packages.example_debian_dists_bookworm_InRelease", "Origin: Example Packages\n")

    assert "/etc/apt/sources.list" not in contents(plan(A))


def test_the_suite_stable_is_known_without_the_lists_of_apt(host: Host, plan: Run) -> None:
    host.write("/etc/apt/sources.list", "deb http://archive.example/debian stable main\n")
    host.write(OWN, "")
    release = "/var/lib/apt/lists/archive.example_debian_dists_stable_InRelease"
    host.write(release, "Origin: Debian\nSuite: stable\nCodename: bookworm\n")
    first = contents(plan(A))
    assert f"URIs: {A}\nSuites: stable\n" in first[OWN]

    for path, text in first.items():
        host.write(path, text)
    (host.root / "etc/apt/sources.list").unlink()
    (host.root / release[1:]).unlink()

    assert contents(plan(A)) == first


def test_a_mirror_that_never_answers_is_given_up(host: Host, plan: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write("apt-helper", "#!/bin/sh\nexec sleep 60\n")

    result = plan(A, timeout=1)

    assert "no answer within 3 s" in problem(result)["problem"]
