# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import json
from pathlib import Path

import pytest
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import config as configuration
from ansible_collections.rigwright.workstation.plugins.module_utils._backup import plan as planning

from tests.unit.support.backup.hosts import request


def test_the_program_reads_the_configuration_of_the_role(tmp_path: Path) -> None:
    written = planning.make_config(
        request(jobs=[{"name": "home", "paths": ["/home"], "tags": ["x"]}], max_age_h={"run": 3})
    )
    text = json.dumps(planning.raw_config(written))
    (tmp_path / "config").write_text(text)
    place = configuration.Place(config=str(tmp_path / "config"), secrets=str(tmp_path))
    with pytest.raises(configuration.ConfigError, match="commands.json is missing: run the role backup"):
        configuration.read(place)
    (tmp_path / "commands.json").write_text("{}")
    read = configuration.read(place)
    assert json.dumps(planning.raw_config(read)) == text


def test_an_unknown_name_is_reported_with_the_known_ones() -> None:
    config = planning.make_config(request())
    with pytest.raises(configuration.ConfigError, match="there is no job 'hom': name one of home"):
        config.job("hom")
    with pytest.raises(configuration.ConfigError, match="there is no repository 'x': name one of disk"):
        config.target("x")
    with pytest.raises(configuration.ConfigError, match="run the role backup"):
        configuration.read(configuration.Place(config="/no/such"))
    with pytest.raises(configuration.ConfigError, match="cannot be run"):
        configuration.read_version("/no/such")


def test_a_unit_reads_its_credentials_and_a_person_the_files(monkeypatch: pytest.MonkeyPatch) -> None:
    config, place = planning.make_config(request()), configuration.Place()
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", "/run/credentials/x")
    monkeypatch.setattr(configuration.os, "geteuid", lambda: 977)
    restic = configuration.open_repository(config, place, "disk", (0, 18))
    assert (restic.repository.folder, restic.user, restic.cache) == (
        "/run/credentials/x",
        "",
        "/var/cache/rigwright_backup",
    )
    # Its steps of root have the credentials in their environment, too.
    monkeypatch.setattr(configuration.os, "geteuid", lambda: 0)
    restic = configuration.open_repository(config, place, "disk", (0, 18))
    # Root leaves nothing of its own in a repository on this machine, nor in the units' cache.
    assert (restic.repository.folder, restic.user, restic.cache) == ("/etc/rigwright/backup", "rigwright-backup", "")
