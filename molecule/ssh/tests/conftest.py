"""What the tests of sshd share. molecule/ssh/prepare.yml creates the users of the hosts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from harness.sandbox.clients import Done, Machine


@pytest.fixture(scope="session")
def password() -> str:
    """Return the password of the users."""
    return "correct-horse"


@pytest.fixture(scope="session")
def console() -> dict[str, Any]:
    """Return the variables with which Ansible runs as on the machine itself: no ancestor of its modules is a login by ssh."""
    return {"ansible_become_exe": "sudo -n systemd-run --quiet --pipe --wait sudo"}


@pytest.fixture
def login(laptop: Machine) -> Callable[..., Done]:
    """Try to log in from the laptop as a user of a target, by key or with a password."""

    def attempt(target: Machine, user: str, command: str = "true", **how: Any) -> Done:
        return laptop.ssh(f"{user}@{target.host.address}", command, **how)

    return attempt


@pytest.fixture(scope="session")
def other_addresses(laptop: Machine) -> Callable[[], str]:
    """Return a function that gives the client another address, so that failures of one test do not affect another."""
    numbers = itertools.count(70)

    def options() -> str:
        address = laptop.host.address + next(numbers)
        laptop.must(f"ip address replace {address}/16 dev eth0")
        return f"-o BindAddress={address}"

    return options
