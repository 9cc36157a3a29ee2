"""The demo: a gateway, a workstation behind it and a laptop; provisioned by site.yml, then used as their owner would."""

from __future__ import annotations

import argparse
import json
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

from harness.depot import lifecycle as depot
from harness.fakes import disks as fake_disks
from harness.progress import say, step
from harness.sandbox import engine, images, lab, site_output
from harness.sandbox import lifecycle as sandbox
from harness.sandbox.clients import Entry, Machine
from harness.sandbox.lab import ROOT, Refusal

INSTALL = "apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install --no-install-recommends"
STATE = lab.STATE / "demo"
VARIABLES = STATE / "variables.json"
REPORT = STATE / "report.json"
SITE_LOG = STATE / "site.log"
REPORT_PAGE, STATUS_PAGE = STATE / "report.html", STATE / "status.html"
SHOWN_OF_A_FAILURE = 40
# frp_client_visitors of the laptop in harness/sandbox/labs/demo.yml.
TUNNEL_PORT, SMB_PORT, RDP_PORT = 6022, 6445, 6389


def make_variables(laptop_key: str) -> None:
    """Make the secrets of this demo once, readable by this user alone, and write the laptop's key and the connection next to them."""
    STATE.mkdir(parents=True, exist_ok=True)
    VARIABLES.touch(mode=0o600)
    created = {
        "demo_token": secrets.token_hex(32),
        "demo_secret": secrets.token_hex(16),
        "demo_password": secrets.token_urlsafe(16),
        "demo_backup_password": secrets.token_urlsafe(32),
    }
    variables = created | json.loads(VARIABLES.read_text() or "{}")
    variables |= {"demo_laptop_key": laptop_key.strip(), **lab.looked_up("demo")}
    VARIABLES.write_text(json.dumps(variables, indent=1))


def password() -> str:
    """Return the password of the workstation's owner, for desktops and shares."""
    return str(json.loads(VARIABLES.read_text())["demo_password"])


def hosts() -> dict[str, Machine]:
    """Start the hosts, with what the owner of such machines has already: a disk, a window manager and a password; a client for shares."""
    wanted = lab.read("demo")
    sandbox.up(wanted)
    machines = {host.name: Machine(engine.connect(), host) for host in wanted.hosts}
    workstation, laptop = machines["workstation"], machines["laptop"]
    make_variables(laptop.public_key())
    with step("workstation: an empty disk, a window manager, a password; laptop: smbclient"):
        fake_disks.prepare(workstation)
        account = shlex.quote(f"owner:{password()}")
        workstation.must(f"chpasswd <<< {account}; test -e /usr/bin/openbox || {INSTALL} openbox xterm", seconds=300)
        laptop.must(f"test -e /usr/bin/smbclient || {INSTALL} smbclient", seconds=300)
    return machines


def site_command(playbook: str = "site.yml") -> list[str]:
    """Return the command that provisions the demo, relative to the checkout. Or that of another playbook."""
    inventory = lab.LABS.relative_to(ROOT) / "demo.yml"
    return ["ansible-playbook", playbook, "-i", str(inventory), "-e", f"@{VARIABLES.relative_to(ROOT)}"]


def provision(*, verbose: bool = False) -> None:
    """Run site.yml, and show one line a role, or with *verbose* all its output. Raises Refusal when it fails."""
    command = site_command()
    with step(" ".join(command)):
        arguments = [str(Path(sys.executable).with_name(command[0])), *command[1:]]
        # One line a role for all hosts is made of Ansible's own output.
        environment = os.environ | {
            "RIGWRIGHT_REPORT_PATH": str(REPORT),
            "ANSIBLE_STDOUT_CALLBACK": "ansible.builtin.default",
        }
        with (
            SITE_LOG.open("w") as log,
            subprocess.Popen(
                arguments, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            ) as site,
        ):
            steps = site_output.Steps()
            for line in site.stdout or ():
                log.write(line)
                shown = line.rstrip("\n") if verbose else steps.take(line.rstrip("\n"))
                if verbose or shown:
                    print(shown, flush=True)
    if site.returncode != 0:
        end = "" if verbose else "".join(SITE_LOG.read_text().splitlines(keepends=True)[-SHOWN_OF_A_FAILURE:])
        raise Refusal(
            f"{end}site.yml failed; all its output: {SITE_LOG.relative_to(ROOT)}."
            f" The hosts are left as they are, `script/demo` tries again, {DOWN}"
        )


def log_in(laptop: Machine) -> None:
    """Log in from the laptop to the workstation through the tunnel, with the laptop's own ssh. Raises Refusal when it fails."""
    command = "echo $(hostname), $(. /etc/os-release; echo $PRETTY_NAME), logged in as $(id -un)"
    with step(f"laptop: ssh -p {TUNNEL_PORT} owner@127.0.0.1, through frp on the gateway to the workstation"):
        deadline = time.monotonic() + 30
        while True:
            done = laptop.ssh("owner@127.0.0.1", command, port=TUNNEL_PORT)
            if done.rc == 0 or time.monotonic() > deadline:
                break
            time.sleep(1)
        if done.rc != 0:
            raise Refusal(f"The laptop cannot log in to the workstation: {done.stderr.strip()}")
        print(f"    {done.stdout.strip()}", flush=True)
        if not done.stdout.startswith("workstation,"):
            raise Refusal("The laptop arrived somewhere else than on the workstation")


def put_file(laptop: Machine) -> None:
    """Put a file on the workstation's share from the laptop and get it back, through the tunnel. Raises Refusal when it fails."""
    with step(f"laptop: smbclient -p {SMB_PORT} //127.0.0.1/sets, through the same tunnel: 50 MB there and back"):
        laptop.put({"/root/.smb": Entry(f"username=owner\npassword={password()}\n".encode(), mode=0o600)})
        done = laptop.run(
            "cd /tmp && head -c 50M /dev/urandom > there && smbclient --authentication-file /root/.smb"
            f" --port {SMB_PORT} //127.0.0.1/sets --command 'put there; get there back; rm there' && cmp there back",
            seconds=120,
        )
        if done.rc != 0:
            raise Refusal(f"The laptop cannot use the workstation's share: {done.stdout.strip()} {done.stderr.strip()}")


def restore_file(workstation: Machine) -> None:
    """Run a backup of the workstation, delete a file of its owner and restore it. Raises Refusal when it fails."""
    with step("workstation: rigwright-backup run home; a lost file; rigwright-backup restore home"):
        done = workstation.run(
            "set -e; cd ~owner; date --iso-8601=ns > thesis; cp thesis /tmp/thesis; rigwright-backup run home; rm thesis"
            " && rigwright-backup restore home --path ~owner/thesis --target / && cmp thesis /tmp/thesis",
            seconds=180,
        )
        if done.rc != 0:
            raise Refusal(f"The workstation has not got its file back: {done.stdout.strip()} {done.stderr.strip()}")


def write_pages(workstation: Machine) -> None:
    """Make the page of the report, and fetch the one about the workstation. Raises Refusal when it fails."""
    inventory = lab.LABS.relative_to(ROOT) / "demo.yml"
    with step("pages: the report of the run, and the state of the workstation"):
        done = subprocess.run(
            [
                *(Path(sys.executable).with_name("ansible-playbook"), "playbooks/report.yml", "-i", inventory),
                *("-e", f"report_file={REPORT} report_html={REPORT_PAGE} report_junit="),
            ],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise Refusal(f"playbooks/report.yml failed: {done.stdout.strip()} {done.stderr.strip()}")
        # Not the page of the service, whose next update, with the backup that was just made, may be 15 s away.
        STATUS_PAGE.write_text(
            workstation.must(
                'cd "$(mktemp -d)" && workstation-status --html status.html && cat status.html && rm -r "$PWD"'
            )
        )


# A sandbox of another number than the usual one has to be named in every command.
SANDBOX = f"RIGWRIGHT_SANDBOX={lab.NUMBER} " if "RIGWRIGHT_SANDBOX" in os.environ else ""
DOWN = f"`{SANDBOX}script/demo --down` removes them"
LOOK_AROUND = f"""
    Look around:
      ssh -F {(lab.STATE / "demo.ssh_config").relative_to(ROOT)} workstation     (or gateway, laptop)
      ssh -F {(lab.STATE / "demo.ssh_config").relative_to(ROOT)} -t laptop sudo ssh -p {TUNNEL_PORT} owner@127.0.0.1
    Change {lab.LABS.relative_to(ROOT)}/demo.yml and run this again:
      {SANDBOX}.venv/bin/{" ".join(site_command())}
    Remove all roles again:
      {SANDBOX}.venv/bin/{" ".join(site_command("rigwright.workstation.uninstall"))}
    Open in a browser:
      {REPORT_PAGE.relative_to(ROOT)}     every finding, and where the time went
      {STATUS_PAGE.relative_to(ROOT)}     how the workstation is
    The report as data: {REPORT.relative_to(ROOT)}. All of Ansible's output: {SITE_LOG.relative_to(ROOT)}. Done with the hosts? {DOWN}.
"""


def up(*, verbose: bool) -> None:
    start = time.monotonic()
    machines = hosts()
    provision(verbose=verbose)
    log_in(machines["laptop"])
    put_file(machines["laptop"])
    restore_file(machines["workstation"])
    write_pages(machines["workstation"])
    reports = json.loads(REPORT.read_text())["hosts"]
    say(f"findings: {site_output.counts(row for report in reports.values() for row in report['findings'])}")
    print("\n".join(site_output.findings(reports)), flush=True)
    say(f"the demo works: {time.monotonic() - start:.0f} s")
    print(LOOK_AROUND, flush=True)


def down(*, with_images: bool) -> None:
    """Remove what the demo made; images and downloads, which the tests use too, only when asked."""
    sandbox.down("demo")
    shutil.rmtree(STATE, ignore_errors=True)
    if with_images:
        images.remove_all(engine.connect())
        depot.clean()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--down", action="store_true", help="remove the hosts, the network and the secrets of the demo")
    parser.add_argument(
        "--verbose", action="store_true", help="show all the output of Ansible, and not one line a role"
    )
    parser.add_argument("--images", action="store_true", help="with --down: remove the images and downloads too")


def main(args: argparse.Namespace) -> int:
    if args.images and not args.down:
        raise Refusal("--images goes with --down")
    if args.down:
        down(with_images=args.images)
    else:
        up(verbose=args.verbose)
    return 0
