"""Environments as their users meet them.

The channel is the harness's (harness/depot/files/conda/packages.yml), and so is its `conda`, which finds and activates environments and no
more. Solving, downloads, links and wheels are real.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from harness.depot import conda_channel
from harness.depot import lifecycle as depot
from harness.depot.conda_channel import Package
from harness.sandbox import fingerprint
from harness.sandbox.clients import Machine

Apply = Callable[..., Any]
# `apply` with these runs the proof alone, with the variables of the scenario.
PROVE = {"apply_tasks_from": "verify"}
RESEARCH = {"name": "research", "packages": ["python", "plotter"], "pip": ["einops"]}
DATA = {"name": "data", "packages": ["libnumbers=1.*"]}


def asking(*packages: str, **rest: Any) -> dict[str, Any]:
    """Return variables that request other packages in the environment `data`."""
    return {"conda_environments": [RESEARCH, {**DATA, "packages": list(packages), **rest}]}


def numbers(target: Machine) -> str:
    """Return the version of libnumbers that users of `data` have."""
    return target.must("cat /opt/conda/envs/data/share/numbers/version", user="student").strip()


def linked(target: Machine, name: str = "data") -> str:
    return target.must(f"readlink /opt/conda/envs/{name}").strip().rpartition("/")[2]


@pytest.fixture
def as_before(applied: Apply, targets: list[Machine]) -> Iterator[None]:
    """Restore the environments of the scenario as new generations, whatever the test has done."""
    yield
    applied()
    for target in targets:
        assert numbers(target) == "1.1"


@pytest.fixture
def channel() -> Iterator[Callable[..., None]]:
    """Add packages to the channel, for the time of the test."""
    yield lambda *packages: conda_channel.write(conda_channel.PLACE, [*conda_channel.read_table(), *packages])
    conda_channel.write(conda_channel.PLACE, conda_channel.read_table())


# Enough files for a kill to come while they are linked.
LARGE = Package("large", "1.0", noarch="generic", files={f"share/large/{number}": "" for number in range(30000)})


# --- Users ---


@pytest.mark.parametrize("user", ["owner", "student"])
def test_a_user_activates_an_environment_in_a_login_shell(target: Machine, user: str) -> None:
    output = target.must(f"su - {user} -c 'conda activate research && command -v python mathkit && mathkit'")
    assert output == "/opt/conda/envs/research/bin/python\n/opt/conda/envs/research/bin/mathkit\nmathkit 1.0\n"
    assert "einops" in target.must(
        f"su - {user} -c 'conda activate research; python -c \"import einops; print(einops)\"'"
    )


def test_a_command_over_ssh_runs_in_an_environment(laptop: Machine, target: Machine) -> None:
    target.must(
        f"cp -p ~owner/.ssh/authorized_keys /root/keys; echo '{laptop.public_key().strip()}' >> ~owner/.ssh/authorized_keys"
    )
    try:
        for command in ("conda run --name research mathkit", "/opt/conda/envs/research/bin/mathkit"):
            assert laptop.ssh(f"owner@{target.host.address}", command).stdout == "mathkit 1.0\n"
    finally:
        target.must("cp -p /root/keys ~owner/.ssh/authorized_keys; rm /root/keys")


def test_users_may_read_everything_and_change_nothing(target: Machine) -> None:
    unreadable = "find -L /opt/conda/envs ! -readable -o -type d ! -executable"
    assert target.must(unreadable, user="student") == ""
    assert target.must("find /opt/conda/generations /opt/rigwright -writable ! -type l", user="student") == ""
    assert target.run("ls /opt/conda/cache", user="student").rc != 0
    # conda and mamba refuse to change an environment that says this (CEP 22).
    assert "conda_environments" in json.loads(target.must("cat /opt/conda/envs/data/conda-meta/frozen"))["message"]


def test_shell_files_are_not_edited_and_anaconda_is_absent(target: Machine) -> None:
    assert (
        target.run(
            "grep -rl conda ~owner/.bashrc ~student/.bashrc ~student/.profile /root/.bashrc /etc/bash.bashrc"
        ).stdout
        == ""
    )
    settings = target.must("cat /etc/conda/condarc.d/rigwright.yml")
    assert "channel_priority: strict\n" in settings and "denylist_channels:\n- defaults\n" in settings


# --- The proof ---


@pytest.mark.both_releases
def test_verify_passes(apply: Apply, targets: list[Machine]) -> None:
    proof = apply(variables=PROVE)
    for target in targets:
        assert proof.findings(target.host.name) == {
            f"conda.{part}": "pass" for part in ("environments", "users", "drop_ins")
        }
    assert set(proof.changed().values()) == {0}


def test_verify_fails_for_a_broken_or_changed_environment(
    apply: Apply, as_before: None, targets: list[Machine]
) -> None:
    for target in targets:
        target.must("rm /opt/conda/envs/research/bin/python3")
        target.must("chmod o+w /opt/conda/envs/data/share/numbers")
    proof = apply(variables=PROVE)
    for target in targets:
        assert proof.findings(target.host.name) == {
            "conda.environments": "fail",
            "conda.users": "fail",
            "conda.drop_ins": "pass",
        }
        evidence = {row["id"]: row["evidence"] for row in proof.hosts[target.host.name]["findings"]}
        found, users = evidence["conda.environments"], evidence["conda.users"]
        assert "research: bin/python3 of python was removed" in found
        assert "data: share/numbers may be written by others" in found
        assert "research fails" in users
        assert "data fails: users other than root may write /opt/conda/envs/data/share/numbers" in users


# --- Another request, and back ---


@pytest.mark.both_releases
def test_upgrade_lists_changes_and_rollback_needs_no_channel(applied: Apply, targets: list[Machine]) -> None:
    old = [linked(target) for target in targets]
    check_run = applied(asking("libnumbers >=2", "handwritten"), "--diff", check=True)
    shown = check_run.output.splitlines()
    assert {"-        - libnumbers 1.1 0", "+        - libnumbers 2.0 0", "+        - handwritten 1.0 0"} <= set(shown)
    assert [numbers(target) for target in targets] == ["1.1", "1.1"]

    applied(asking("libnumbers >=2", "handwritten"))
    assert [numbers(target) for target in targets] == ["2.0", "2.0"]

    before = len(depot.requests())
    applied()
    assert [numbers(target) for target in targets] == ["1.1", "1.1"]
    assert [linked(target) for target in targets] == old
    assert [row for row in depot.requests()[before:] if str(row["path"]).startswith("/conda")] == []


def test_old_generations_and_their_cache_are_removed(applied: Apply, as_before: None, targets: list[Machine]) -> None:
    for request in ("libnumbers ==1.0", "libnumbers ==1.1", "libnumbers ==2.0"):
        applied(asking(request))
    for target in targets:
        kept = target.must("ls /opt/conda/generations/data").split()
        assert len([name for name in kept if name.isdigit()]) == 2
        assert target.must("ls -d /opt/conda/cache/packages/libnumbers-*/").split() == [
            "/opt/conda/cache/packages/libnumbers-1.1-0/",
            "/opt/conda/cache/packages/libnumbers-2.0-0/",
        ]


def test_dropped_packages_and_environments_are_removed(applied: Apply, as_before: None, targets: list[Machine]) -> None:
    more = {"name": "more", "packages": ["python", "mathkit"]}
    applied({"conda_environments": [RESEARCH, DATA, more]})
    applied({"conda_environments": [RESEARCH, DATA, {**more, "packages": ["python"]}]})
    for target in targets:
        assert target.run("ls /opt/conda/envs/more/bin/mathkit").rc != 0
    applied()
    applied({"conda_exclusive": True})
    for target in targets:
        assert target.must("ls /opt/conda/envs /opt/conda/generations").split().count("more") == 0


def test_a_file_and_a_lock_of_the_controller(
    applied: Apply, as_before: None, targets: list[Machine], tmp_path: Path
) -> None:
    written = tmp_path / "environment.yml"
    written.write_text(
        "name: theirs\nchannels: [conda-forge, nodefaults]\ndependencies: [python, mathkit=1.0=0, {pip: [einops]}]\n"
    )
    applied({"conda_environments": [RESEARCH, DATA, {"name": "written", "file": str(written)}]})
    for target in targets:
        assert target.must("/opt/conda/envs/written/bin/mathkit", user="student") == "mathkit 1.0\n"

    lock = tmp_path / "data.lock"
    lock.write_text(targets[0].must(f"cat /opt/conda/generations/data/{linked(targets[0])}.lock"))
    applied({"conda_exclusive": True, "conda_environments": [RESEARCH, DATA, {"name": "copy", "lock": str(lock)}]})
    for target in targets:
        assert target.must("cat /opt/conda/envs/copy/share/numbers/version") == "1.1\n"
        assert target.run("ls /opt/conda/envs/written").rc != 0
    applied({"conda_exclusive": True})


def test_builds_follow_the_driver(applied: Apply, as_before: None, targets: list[Machine]) -> None:
    """Fake a driver by the file name of libcuda, which is all that solving reads."""
    library = "/usr/lib/x86_64-linux-gnu/libcuda.so"
    applied(asking("libnumbers =1.1", "trainer"))
    assert {target.must("cat /opt/conda/envs/data/share/trainer") for target in targets} == {"cpu\n"}
    try:
        for target in targets:
            target.must(f"touch {library}.580.95.05 && ln -s libcuda.so.580.95.05 {library}.1")
        applied(asking("libnumbers =1.1", "trainer"))
        assert {target.must("cat /opt/conda/envs/data/share/trainer") for target in targets} == {"cuda\n"}
    finally:
        for target in targets:
            target.must(f"rm -f {library}.*")


def test_a_local_channel_is_enough(applied: Apply, as_before: None, targets: list[Machine]) -> None:
    for target in targets:
        target.must("mkdir -p /srv/channel")
        subprocess.run(
            ["docker", "cp", f"{conda_channel.PLACE}/.", f"{target.host.container}:/srv/channel"], check=True
        )
    before = len(depot.requests())
    applied(asking("libnumbers =1.1", "legacy", channels=["file:///srv/channel"]))
    for target in targets:
        assert target.must("cat /opt/conda/envs/data/share/legacy") == "0.9\n"
        target.must("rm -r /srv/channel")
    assert depot.requests()[before:] == []


# --- What others did ---


def test_manual_changes_are_reported_and_fixed(applied: Apply, targets: list[Machine]) -> None:
    for target in targets:
        prefix = target.must("realpath /opt/conda/envs/data").strip()
        record = json.dumps({"name": "handwritten", "version": "1.0", "build": "0", "files": []})
        target.must(
            f"echo '{record}' > {prefix}/conda-meta/handwritten-1.0-0.json; echo edited >> {prefix}/etc/numbers.conf"
        )
        target.must("rm /opt/conda/envs/research/lib/python3.*/site-packages/plotter.py")
        # Its content is as installed, so it is not reported.
        target.must(f"touch {prefix}/share/numbers/version")
        target.must(f"chmod 777 {prefix}/share && rm {prefix}/conda-meta/frozen")

    result = applied()

    for target in targets:
        (finding,) = (row for row in result.hosts[target.host.name]["findings"] if row["id"] == "conda.drift")
        plotter = target.must("cd /opt/conda/envs/research; ls lib/python3.*/site-packages/plotter.py").strip()
        assert finding["status"] == "warn"
        assert finding["evidence"].split("; ") == [
            f"research: {plotter} of plotter was removed",
            "data: handwritten 1.0 0 was added",
            "data: conda-meta/frozen was removed",
            "data: etc/numbers.conf of libnumbers was changed",
            "data: share may be written by others",
        ]
        assert target.run("ls /opt/conda/envs/data/conda-meta/handwritten-1.0-0.json").rc != 0
        assert "edited" not in target.must("cat /opt/conda/envs/data/etc/numbers.conf")
    assert set(applied().changed().values()) == {0}


# --- What goes wrong ---


def test_run_killed_while_linking_keeps_the_old_environment(
    apply: Apply, applied: Apply, as_before: None, target: Machine, channel: Callable[..., None]
) -> None:
    channel(LARGE)
    name = target.host.name
    old = linked(target)
    # The module, as soon as the first file is linked; the process that links ends with it.
    kill = """
    linking() { grep -ls rattler.abi3.so /proc/[0-9]*/maps | cut -d/ -f3 | sort -n; }
    until compgen -G '/opt/conda/generations/data/*/share/large/1*' >/dev/null; do sleep 0.01; done
    kill -KILL $(linking | head -1)
    while [ "$(linking)" ]; do sleep 0.01; done
    ls /opt/conda/generations/data/*/share/large | wc -l
    """
    with ThreadPoolExecutor() as pool:
        running = pool.submit(apply, hosts=name, variables=asking("libnumbers >=2", "large"))
        files = int(target.must(kill, seconds=300))
        result = running.result()
    assert result.rc != 0 and 0 < files < 30000
    assert (numbers(target), linked(target)) == ("1.1", old)

    applied(asking("libnumbers >=2", "large"), hosts=name)
    assert numbers(target) == "2.0"
    assert target.must("ls /opt/conda/envs/data/share/large | wc -l") == "30000\n"
    leftovers = target.must("cd /opt/conda/generations/data; ls -d [0-9]*/").split()
    assert leftovers == [f"{old}/", f"{linked(target)}/"]


def test_bad_input_changes_nothing(all_refused: Callable[..., None]) -> None:
    # What was downloaded before the refusal stays in the cache.
    all_refused(
        [
            (asking("mathkit 2.*", "plotter", "python"), "cannot be solved"),
            (asking("mathkit 2.*", "plotter", "python"), "plotter 1.0 would require"),
            (asking("legacy", "libnumbers >=2"), "legacy 0.9 would constrain"),
            (asking("libnumbers =1.0", "needs-tampered"), "hash mismatch"),
            (
                asking("libnumbers ==1.0", channels=["http://127.0.0.1:9/channel"]),
                "Name channels that this host reaches",
            ),
            ({"conda_channel_alias": "http://127.0.0.1:9/conda", **asking("libnumbers ==1.0")}, "cannot be read"),
            (asking("libnumbers 1.1"), "Did you mean '==1.1' or '1.1.*'?"),
            (asking("python", pip=["nosuchproject"]), "nosuchproject"),
            (asking("python", pip=[f"einops==0.8.2 --hash=sha256:{'0' * 64}"]), "ash mismatch"),
            (asking(generation=7), "has no generation 7: choose among"),
            ({"conda_prefix": "/opt"}, "conda_prefix: is not a usable directory"),
            ({"conda_prefix": "/srv/my conda"}, "conda_prefix: is not a usable directory"),
            ({"conda_channels": []}, "conda_channels: is empty"),
            ({"conda_keep": -1}, "conda_keep: is not a number of generations"),
            ({"conda_channels": ["defaults"]}, "names defaults, Anaconda's own channels"),
            (
                {"conda_environments": [{"name": "base", "packages": ["python"]}]},
                "named base, which is the name of",
            ),
            (
                {"conda_environments": [{"name": "x", "pakages": ["python"]}]},
                "conda_environments.pakages. Supported parameters",
            ),
            ({"conda_environments": [{"name": "../x", "packages": ["python"]}]}, "is not a name for an environment"),
        ],
        but="/opt/conda/cache",
    )


@pytest.fixture
def theirs(targets: list[Machine]) -> Iterator[None]:
    """Create what another installer would: a conda, and an environment in the place of the role's."""
    targets[0].must("mkdir -p /srv/miniforge/conda-meta /opt/conda/envs/mine/conda-meta")
    yield
    targets[0].must("rm -r /srv/miniforge /opt/conda/envs/mine")


def test_foreign_conda_is_left_alone(theirs: None, refused: Callable[[dict[str, Any], str], None]) -> None:
    refused({"conda_prefix": "/srv/miniforge"}, "/srv/miniforge is a conda of its own: it was not made by this module")
    mine = {"name": "mine", "packages": ["libnumbers"]}
    refused({"conda_environments": [RESEARCH, DATA, mine]}, "/opt/conda/envs/mine is in the way")


def test_writable_prefix_is_refused(targets: list[Machine], refused: Callable[[dict[str, Any], str], None]) -> None:
    target = targets[0]
    target.must("mkdir ~/c && chmod 777 ~/c && ln -s ~/c ~/link", user="owner")
    try:
        refused(
            {"conda_prefix": "/home/owner/c"},
            "Users other than root may write in /home/owner, /home/owner/c, and could",
        )
        refused({"conda_prefix": "/home/owner/link/conda"}, "write in /home/owner, /home/owner/link, and")
        refused({"conda_prefix": "/tmp/new/conda"}, "Users other than root may write in /tmp, and could")
    finally:
        target.must("rm -r ~owner/c ~owner/link")


def test_a_full_disk_leaves_the_old_environment_in_use(
    apply: Apply, applied: Apply, as_before: None, targets: list[Machine], channel: Callable[..., None]
) -> None:
    """Use a disk that has space for the environment and not for the next one."""
    channel(Package("huge", "1.0", noarch="generic", files={"share/huge": "x" * (20 << 20)}))
    target = targets[0]
    existing = {"conda_prefix": "/small/conda", "conda_base_packages": [], "conda_environments": [DATA]}
    applied(existing, hosts=target.host.name)
    result = apply(
        hosts=target.host.name,
        variables={**existing, "conda_environments": [{**DATA, "packages": ["libnumbers >=2", "huge"]}]},
    )
    assert result.rc != 0
    assert "Free space on the disk" in result.text or "No space left on device" in result.text
    assert target.must("cat /small/conda/envs/data/share/numbers/version; ls /small/conda/generations/data") == (
        "1.1\n1\n1.files.json\n1.json\n1.lock\n"
    )
    assert set(applied(existing, hosts=target.host.name).changed().values()) == {0}
    target.must("rm -r /small/conda")


def test_tests_leave_no_changes_behind(targets: list[Machine]) -> None:
    """Check that the tests above have left nothing that the role would not remove itself."""
    for target in targets:
        names = [name for name in fingerprint.of(target) if "rigwright-conda" in name or "/small" in name]
        assert names == ["file /etc/profile.d/rigwright-conda.sh"]
