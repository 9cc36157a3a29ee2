# SPDX-License-Identifier: GPL-3.0-or-later
"""What the role storage gives to logins, and what it asks of them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import jinja2
import pytest

ROLE = Path(__file__).parents[3] / "roles/storage"
PROFILE = "etc/profile.d/rigwright-storage.sh.j2"
USER = 61001


@pytest.fixture
def profile() -> Iterator[Path]:
    """Render the script of logins, for a directory of a group and one of each user; every user can read it."""
    with tempfile.TemporaryDirectory() as top:
        os.chmod(top, 0o755)
        yield write_profile(Path(top))


def write_profile(top: Path) -> Path:
    folder = top / "data"
    folder.mkdir()
    (folder / "hub").mkdir(mode=0o777)
    (folder / "hub").chmod(0o777)
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(ROLE / "templates"), autoescape=False)  # noqa: S701
    environment.filters["comment"] = "# {}".format
    paths = {"HF_HUB_CACHE": f"{folder}/hub", "PIP_CACHE_DIR": f"{folder}/{{user}}"}
    script = top / "profile.sh"
    script.write_text(environment.get_template(PROFILE).render(ansible_managed="x", storage_environment=paths))
    return script


def names(script: Path, user: int | None = None) -> set[str]:
    """Return the variables that a login has."""
    command = ["sh", "-c", f'. {script}; printf "%s\\n" ${{HF_HUB_CACHE+hub}} ${{PIP_CACHE_DIR+pip}}']
    return set(
        subprocess.run(
            command, capture_output=True, text=True, check=True, user=user, env={"PATH": os.environ["PATH"]}
        ).stdout.split()
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
def test_root_has_no_cache_that_others_may_write(profile: Path) -> None:
    own = profile.parent / "data/root"
    own.mkdir()
    assert names(profile) == {"pip"}
    assert names(profile, USER) == {"hub"}
