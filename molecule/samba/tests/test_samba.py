"""Shares as their users meet them: a laptop with the real client, a disk that comes and goes, and a neighbour who asks as Windows does.

The laptop is a host of its own on the sandbox's network. The kernel's cifs is not to be had in these containers, so smbclient it is.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.sandbox.clients import Done, Machine, kept

PASSWORDS = {"alice": "p\"a'%s %d ü€𝄞 $`\\ end ", "bob": "bob-has-a-password", "carol": "carol-has-one"}
SHARES: list[dict[str, Any]] = [
    {"name": "data", "path": "/srv/data", "group": "ml", "mode": "2775", "default_acl": True, "read_only": False},
    {
        "name": "private",
        "path": "/srv/private",
        "valid_users": ["alice"],
        "write_list": ["alice"],
        "encrypt": "required",
    },
    {"name": "disk", "path": "/mnt/disk/sets", "valid_users": ["@ml"], "read_only": False, "mount": "/mnt/disk"},
]
USERS = [{"name": name, "password": PASSWORDS[name]} for name in ("alice", "bob")]
TALLY = "/var/lib/rigwright_samba"


def smb(
    laptop: Machine,
    target: Machine,
    share: str,
    command: str,
    user: str = "alice",
    password: str | None = None,
    options: str = "",
    seconds: float = 60,
) -> Done:
    """Run a command of smbclient on the laptop. A file descriptor passes the password unchanged."""
    secret = PASSWORDS[user] if password is None else password
    request = f"-c {shlex.quote(command)}" if command else ""
    where = f"-L //{target.host.address}" if share == "" else f"//{target.host.address}/{share}"
    return laptop.run(
        f"printf '%s\\n' {shlex.quote(secret)} | PASSWD_FD=0 smbclient --configfile=/dev/null {where} -U {user} {options} {request}",
        seconds=seconds,
    )


def until(true: Callable[[], bool], seconds: float = 20) -> bool:
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            return False
        time.sleep(0.3)
    return True


class Session:
    """A client on the laptop that stays connected and runs one line after the other."""

    def __init__(self, laptop: Machine, target: Machine, share: str, user: str) -> None:
        self.laptop, self.name = laptop, f"/srv/smb/{share}-{user}"
        laptop.must(f"mkdir -p /srv/smb; rm -f {self.name}*; mkfifo {self.name}")
        laptop.start(f"sleep 600 > {self.name}")
        client = f"stdbuf -oL smbclient --configfile=/dev/null //{target.host.address}/{share} -U {user}"
        laptop.start(f"PASSWD={shlex.quote(PASSWORDS[user])} {client} < {self.name} > {self.name}.said 2>&1")
        self.say("pwd", "Current directory")

    def say(self, line: str, answer: str) -> None:
        self.laptop.must(f"echo {shlex.quote(line)} > {self.name}")
        assert until(lambda: answer in self.output(), 60), self.output()

    def output(self) -> str:
        return self.laptop.must(f"cat {self.name}.said")

    def end(self) -> None:
        self.laptop.must(f"echo exit > {self.name}")


def lets_in(laptop: Machine, target: Machine, share: str, password: str | None = None) -> bool:
    """Return whether Alice can open a share, once smbd has read its configuration again."""
    return until(lambda: smb(laptop, target, share, "ls", password=password).rc == 0)


# A gigabyte with `script/test --all`.
LARGE = "1G" if os.environ.get("RIGWRIGHT_SLOW") else "200M"


def starts(target: Machine) -> str:
    return target.must("systemctl show smbd --property=ExecMainStartTimestampMonotonic")


# --- Users and what they may ---


def test_a_large_file_is_copied_both_ways_unchanged(laptop: Machine, target: Machine) -> None:
    create = f"head -c {LARGE} /dev/zero | openssl enc -aes-128-ctr -pass pass:x -nosalt 2>/dev/null > big"
    laptop.must(
        f"mkdir -p /srv/smb; cd /srv/smb; test -s big || {create}; rm -f back; sha256sum < big > sum", seconds=120
    )
    done = smb(laptop, target, "data", "lcd /srv/smb; put big; get big back", "bob", seconds=300)
    assert done.rc == 0, done.stdout
    assert target.must("sha256sum < /srv/data/big") == laptop.must("cat /srv/smb/sum")
    assert laptop.must("sha256sum < /srv/smb/back") == laptop.must("cat /srv/smb/sum")
    target.must("rm /srv/data/big")


def test_uploaded_files_get_owner_group_and_mode(laptop: Machine, target: Machine) -> None:
    done = smb(laptop, target, "data", "lcd /etc; put hostname; mkdir deep; put hostname deep\\inner", "bob")
    assert done.rc == 0, done.stdout
    assert target.must("cd /srv/data; stat -c %U:%G:%a hostname deep deep/inner").split() == [
        "bob:ml:664",
        "bob:ml:2775",
        "bob:ml:664",
    ]
    # Without Samba, by somebody with another umask.
    target.must("umask 077; echo x > /srv/data/local", user="alice")
    assert target.must("stat -c %G:%a /srv/data/local").strip() == "ml:664"
    assert target.must("stat -c %G:%a /srv/data").strip() == "ml:2775"
    target.must("rm -r /srv/data/hostname /srv/data/deep /srv/data/local")


def test_only_the_right_password_logs_in(laptop: Machine, target: Machine) -> None:
    assert smb(laptop, target, "private", "ls").rc == 0
    for wrong in ("", "wrong", PASSWORDS["alice"].strip()):
        assert "NT_STATUS_LOGON_FAILURE" in smb(laptop, target, "private", "ls", password=wrong).stdout
    assert "NT_STATUS_LOGON_FAILURE" in smb(laptop, target, "data", "ls", "carol").stdout, "a user of the host alone"


def test_a_share_is_for_its_users(laptop: Machine, target: Machine) -> None:
    assert "NT_STATUS_ACCESS_DENIED" in smb(laptop, target, "private", "ls", "bob").stdout
    assert "NT_STATUS_BAD_NETWORK_NAME" in smb(laptop, target, "homes", "ls", "bob").stdout


def test_anonymous_client_gets_no_list_of_shares(laptop: Machine, target: Machine) -> None:
    done = laptop.run(f"smbclient --configfile=/dev/null -N -L //{target.host.address}")
    assert done.rc != 0 and "NT_STATUS_ACCESS_DENIED" in done.stdout + done.stderr
    done = laptop.run(f"smbclient --configfile=/dev/null -N //{target.host.address}/data -c ls")
    # Samba 4.22 and the client of 4.17 do not understand each other here: the client hangs up.
    assert done.rc != 0 and ("NT_STATUS_ACCESS_DENIED" in done.stdout or "CONNECTION_DISCONNECTED" in done.stdout)
    listed = smb(laptop, target, "", "", options="-g").stdout
    assert "Disk|data|" in listed and "Disk|private|" in listed and "print$" not in listed


@pytest.mark.parametrize("protocol", ["NT1", "SMB2_02", "SMB2_10", "SMB3_02"])
def test_older_protocols_are_refused(laptop: Machine, target: Machine, protocol: str) -> None:
    options = f"--option='client min protocol=NT1' -m {protocol}"
    done = smb(laptop, target, "data", "ls", options=options)
    assert done.rc != 0
    assert "NT_STATUS_NOT_SUPPORTED" in done.stdout or "protocol negotiation failed" in done.stdout, done.stdout


def test_a_connection_is_encrypted(laptop: Machine, target: Machine) -> None:
    session = Session(laptop, target, "private", "alice")
    status = target.must("smbstatus --processes")
    session.end()
    rows = [row for row in status.splitlines() if " alice " in row]
    assert rows and all("SMB3_11" in row and "AES-" in row for row in rows), status
    assert "server smb encrypt = required" in target.must("testparm -s --suppress-prompt 2>/dev/null")


def test_samba_listens_only_on_tcp_445_and_netbios_is_off(target: Machine) -> None:
    listeners = [row.split() for row in target.must("ss -Hlntup").splitlines()]
    names = {(row[0], row[4].rpartition(":")[2]) for row in listeners if "smbd" in row[-1] or "nmbd" in row[-1]}
    assert names == {("tcp", "445")}
    assert target.run("systemctl is-active nmbd samba-ad-dc").stdout.split() == ["inactive", "inactive"]


def neighbourhood(target: Machine) -> tuple[str, str]:
    """Return addresses of the target and of its neighbour on their cable."""
    first, second = str(target.host.address).split(".")[:2]
    return f"{first}.{second}.250.1", f"{first}.{second}.250.2"


def test_windows_finds_the_host(target: Machine) -> None:
    """Send a real probe (WS-Discovery 1.0, section 5.3) by multicast, from the neighbour."""
    theirs, mine = neighbourhood(target)
    probe = f"""
import socket, uuid
message = '<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://www.w3.org/2003/05/soap-envelope" ' \\
    'xmlns:wsa="http://schemas.xmlsoap.org/ws/2004/08/addressing" xmlns:wsd="http://schemas.xmlsoap.org/ws/2005/04/discovery" ' \\
    'xmlns:wsdp="http://schemas.xmlsoap.org/ws/2006/02/devprof"><soap:Header>' \\
    '<wsa:To>urn:schemas-xmlsoap-org:ws:2005:04:discovery</wsa:To>' \\
    '<wsa:Action>http://schemas.xmlsoap.org/ws/2005/04/discovery/Probe</wsa:Action>' \\
    '<wsa:MessageID>urn:uuid:' + str(uuid.uuid4()) + '</wsa:MessageID></soap:Header>' \\
    '<soap:Body><wsd:Probe><wsd:Types>wsdp:Device</wsd:Types></wsd:Probe></soap:Body></soap:Envelope>'
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
    asked.settimeout(1)
    asked.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton("{mine}"))
    for _attempt in range(5):
        asked.sendto(message.encode(), ("239.255.255.250", 3702))
        try:
            while True:
                answer, peer = asked.recvfrom(65536)
                if peer[0] == "{theirs}":
                    print(answer.decode())
                    raise SystemExit(0)
        except TimeoutError:
            pass
raise SystemExit(1)
"""
    answer = target.must(f"ip netns exec neighbour python3 - <<'PROBE'\n{probe}\nPROBE")
    assert "ProbeMatches" in answer and "pub:Computer" in answer


def test_client_of_another_network_is_rejected(target: Machine) -> None:
    client = f"PASSWD={PASSWORDS['bob']} ip netns exec neighbour smbclient --configfile=/dev/null -U bob -c ls"
    assert target.run(f"{client} //{neighbourhood(target)[0]}/data").rc == 0
    assert target.run(f"{client} //192.168.77.1/data").rc != 0


# --- A disk that is not there ---


@pytest.fixture
def without_disk(target: Machine) -> Iterator[Machine]:
    target.must("umount /mnt/disk")
    yield target
    target.must("mountpoint -q /mnt/disk || mount -o loop /srv/disks/disk /mnt/disk")


def test_only_the_share_of_a_missing_disk_is_refused(
    apply: Callable[..., Any], verified: Callable[..., Any], laptop: Machine, without_disk: Machine
) -> None:
    target = without_disk
    put = "lcd /etc; put hostname"
    target.must(
        "mkdir -p /mnt/disk/sets && chmod 777 /mnt/disk/sets"
    )  # as if somebody had filled the empty mount point
    try:
        assert "NT_STATUS_ACCESS_DENIED" in smb(laptop, target, "disk", put).stdout
        assert smb(laptop, target, "data", "ls").rc == 0
        # A run without the disk changes nothing and reports it.
        result = apply(hosts=target.host.name)
        assert (result.rc, result.changed()) == (0, {target.host.name: 0}), result.output
        assert result.findings(target.host.name)["samba.disks"] == "warn"
        assert target.must("ls -A /mnt/disk/sets") == ""
    finally:
        target.must("rmdir /mnt/disk/sets")
    assert "NT_STATUS_" in smb(laptop, target, "disk", put).stdout
    target.must("mount -o loop /srv/disks/disk /mnt/disk")
    assert smb(laptop, target, "disk", f"{put}; del hostname").rc == 0, "as soon as it is mounted, without a reload"


# --- Changes ---


@pytest.mark.both_releases
def test_users_and_shares_change_during_a_copy(
    applied: Callable[..., Any], laptop: Machine, targets: list[Machine]
) -> None:
    """Change all in one run: a new password, a removed user, a user by hash, a share that is read-only, a new share."""
    before = [starts(target) for target in targets]
    target = targets[0]
    laptop.must("mkdir -p /srv/smb; head -c 60M /dev/urandom > /srv/smb/slow")
    session = Session(laptop, target, "data", "bob")
    session.say("put /srv/smb/slow first", "as \\first")

    hashed = target.must("pdbedit -L -w -u bob").split(":")[3]
    variables = {
        "samba_users": [
            {"name": "alice", "password": "alice's second: 100%"},
            {"name": "carol", "nt_hash": hashed},
            {"name": "bob", "state": "absent"},
        ],
        "samba_shares": [
            {**SHARES[0], "read_only": True, "write_list": ["carol"]},
            {"name": "new", "path": "/srv/private"},
        ],
    }
    result = applied(variables)
    assert result.changed() == {"debian12": 3, "debian13": 4}, (
        "directory, smb.conf with its reload, users; on 13 what sets hashes"
    )

    for line, started in zip(targets, before, strict=True):
        assert starts(line) == started, "nothing was restarted"
        assert lets_in(laptop, line, "new", "alice's second: 100%")
        assert "NT_STATUS_LOGON_FAILURE" in smb(laptop, line, "new", "ls").stdout, "the old password"
        assert "NT_STATUS_LOGON_FAILURE" in smb(laptop, line, "new", "ls", "bob").stdout, "who was removed"
        assert smb(laptop, line, "data", "lcd /etc; put hostname; del hostname", "carol", PASSWORDS["bob"]).rc == 0, (
            "by the hash"
        )
        put = smb(laptop, line, "data", "lcd /etc; put hostname", "alice", "alice's second: 100%").stdout
        assert "NT_STATUS_ACCESS_DENIED" in put, "read-only"
        assert "bob" not in line.must("pdbedit -L")
        assert "NT_STATUS_BAD_NETWORK_NAME" in smb(laptop, line, "disk", "ls", password="alice's second: 100%").stdout
    # Who was there before goes on.
    session.say("put /srv/smb/slow second", "as \\second")
    session.end()
    target.must("cmp /srv/data/first /srv/data/second && rm /srv/data/first /srv/data/second")

    again = applied(variables)
    assert again.changed() == {"debian12": 0, "debian13": 0}
    applied()
    for line in targets:
        assert "carol" not in line.must("pdbedit -L")
        assert lets_in(laptop, line, "private")


def test_manual_changes_are_fixed_or_reported(applied: Callable[..., Any], targets: list[Machine]) -> None:
    for target in targets:
        target.must("smbpasswd -d bob; printf 'by hand\\nby hand\\n' | pdbedit -a -t -u alice >/dev/null")
        target.must("useradd eve; printf 'x\\nx\\n' | pdbedit -a -t -u eve >/dev/null; userdel eve")
        target.must("chmod 0700 /srv/data")
    result = applied()
    for target in targets:
        assert result.hosts[target.host.name]["stats"]["changed"] == 2, "users, and a directory"
        assert result.findings(target.host.name)["samba.unmanaged"] == "warn"
        assert "[U " in target.must("pdbedit -L -w -u bob")
        assert target.must("stat -c %a /srv/data").strip() == "2775"
        target.must("pdbedit -x -u eve")


def test_a_restart_waits_for_connected_clients(
    applied: Callable[..., Any], laptop: Machine, targets: list[Machine]
) -> None:
    target = targets[0]
    before = starts(target)
    Session(laptop, target, "data", "bob")
    result = applied({"samba_networks": []}, hosts=target.host.name)
    assert result.findings(target.host.name)["samba.pending"] == "warn"
    assert starts(target) == before
    assert "inactive" in target.run("systemctl is-active wsdd2").stdout, "a host that nobody reaches is not announced"
    # New ones from there are refused already, and with leave the restart comes.
    assert smb(laptop, target, "data", "ls").rc != 0
    result = applied({"samba_networks": [], "samba_allow_disruption": True}, hosts=target.host.name)
    assert result.findings(target.host.name)["samba.pending"] == "pass"
    assert starts(target) != before
    sockets = target.must("ss -Hlntp | grep smbd").split()
    assert "127.0.0.1:445" in sockets and not any(
        line.startswith(("0.0.0.0:", "*:", "[::]:")) for line in sockets if ":445" in line
    )
    assert "dport 445" not in target.must("cat /etc/nftables.d/rigwright/samba.nft")
    applied(hosts=target.host.name)
    assert lets_in(laptop, target, "data")


def test_macs_are_served_as_such(applied: Callable[..., Any], laptop: Machine, target: Machine) -> None:
    machine = {
        "name": "tm",
        "path": "/srv/private",
        "owner": "alice",
        "valid_users": ["alice"],
        "read_only": False,
        "time_machine": True,
        "max_size": "10G",
    }
    applied({"samba_shares": [*SHARES, machine]}, hosts=target.host.name)
    effective = target.must("testparm -s --suppress-prompt 2>/dev/null")
    assert "fruit:time machine max size = 10G" in effective
    assert until(lambda: smb(laptop, target, "tm", "lcd /etc; put hostname; del hostname").rc == 0), "the modules load"
    assert smb(laptop, target, "data", "ls").rc == 0
    # A probe by the neighbour gets no answer from avahi in these containers: it is taken at its own word.
    established = "(/services/rigwright-samba.service) successfully established"
    assert until(lambda: established in target.must("journalctl --unit avahi-daemon --no-pager"))
    assert "<type>_adisk._tcp</type>" in target.must("cat /etc/avahi/services/rigwright-samba.service")
    applied(hosts=target.host.name)


# --- What is refused ---


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        pytest.param(
            {"samba_shares": [{**SHARES[0], "options": {"gost ok": True}}]}, "would ignore: gost ok", id="typo"
        ),
        pytest.param(
            {"samba_shares": [{**SHARES[0], "vfs_objects": ["fruitt"]}]}, "does not have here: fruitt", id="VFS module"
        ),
        pytest.param(
            {"samba_users": [{"name": "alice", "password": 12345}]}, "samba_users.password is no text", id="no quotes"
        ),
        pytest.param({"samba_port": 22}, "samba_port: wants port 22, which is taken by sshd", id="port taken"),
    ],
)
def test_request_that_samba_would_accept_is_refused(
    refused: Callable[..., None], variables: dict[str, Any], expected: str
) -> None:
    refused(variables, expected)


def test_all_problems_are_reported_at_once(
    apply: Callable[..., Any], targets: list[Machine], unchanged: Callable[[], None]
) -> None:
    targets[0].must("ln -sfn /etc /srv/link")
    result = apply(
        hosts=targets[0].host.name,
        variables={
            "samba_min_protocol": "NT1",
            "samba_users": [
                *USERS,
                {"name": "root", "password": "x"},
                {"name": "carol"},
                {"name": "bob", "password": "a\nb"},
            ],
            "samba_shares": [
                {"name": "all", "path": "/"},
                {"name": "link", "path": "/srv/link"},
                {"name": "gone", "path": "/srv/gone"},
            ],
        },
    )
    targets[0].must("rm /srv/link")
    assert result.rc != 0
    for expected in (
        "samba_min_protocol: is NT1",
        "names root, whom Samba would let write",
        "no password for carol",
        "line break",
        "shares / where the system itself lies",
        "/srv/link, which leads to /etc",
        "/srv/gone which is no directory",
    ):
        assert expected in result.text, expected
    unchanged()


# --- Secrets, proof, and runs that are cut short ---


@pytest.mark.both_releases
def test_no_password_shows(apply: Callable[..., Any], targets: list[Machine]) -> None:
    secret, hashed = "nobody-may-see-this-password", "0123456789ABCDEF0123456789ABCDEF"
    variables = {"samba_users": [{"name": "alice", "password": secret}, {"name": "bob", "nt_hash": hashed}]}
    output = ""
    for more in ({"check": True}, {}):
        result = apply("samba", "targets", variables, "--diff", "-vvv", **more)
        assert result.rc == 0, result.output
        output += result.output
    proof = apply("samba", "targets", {**variables, "apply_tasks_from": "verify"}, "--diff", "-vvv")
    for name in ("debian12", "debian13"):
        assert proof.findings(name)["samba.logins"] == "pass", "a login by password and one by hash"
    output += proof.output
    output += "".join(
        target.must("journalctl --no-pager; cat /var/log/samba/* 2>/dev/null; true") for target in targets
    )
    assert (output.count(secret), output.lower().count(hashed.lower())) == (0, 0)
    assert apply().rc == 0


@pytest.mark.both_releases
def test_verification_passes_and_finds_problems(verified: Callable[..., Any], targets: list[Machine]) -> None:
    for found in verified().values():
        assert set(found.values()) == {"pass"}, found
    with kept(targets, "/etc/samba/smb.conf"):
        for target in targets:
            target.must(
                "sed -i 's/restrict anonymous = 2/restrict anonymous = 0/; s/SMB3_11/SMB2_10/; /^.private/,$d' /etc/samba/smb.conf"
            )
            target.must("smbpasswd -d bob; systemctl reload smbd; sleep 1")
        found = verified()
        for target in targets:
            target.must("smbpasswd -e bob")
    for host in found.values():
        wrong = {key for key, status in host.items() if status == "fail"}
        assert wrong >= {"samba.old_protocols", "samba.logins", "samba.shares"}, host
    for target in targets:
        target.must("systemctl reload smbd")


def test_a_run_that_was_killed_is_completed(applied: Callable[..., Any], targets: list[Machine]) -> None:
    """Leave the state of a run killed after the files: users on record whom Samba does not know, and no reload."""
    target = targets[0]
    target.must("pdbedit -x -u alice; systemctl stop smbd wsdd2; chmod 755 /srv/data")
    assert json.loads(target.must(f"cat {TALLY}/users.json")) == ["alice", "bob"]
    result = applied(hosts=target.host.name)
    assert result.changed() == {target.host.name: 3}
    assert "alice" in target.must("pdbedit -L")
    assert target.must("systemctl is-active smbd wsdd2").split() == ["active"] * 2
