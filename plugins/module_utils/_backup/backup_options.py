# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The options of the role backup in a request. Made from its argument spec by `python -m harness pages`."""

from __future__ import annotations

import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject


class BackupRepositories(t.TypedDict, total=False):
    name: str
    url: str
    password: str | None
    password_file: str | None
    user: str | None
    user_password: str | None
    env: JsonObject | None
    ca_certificate: str | None
    ssh_key: str | None
    known_hosts: str | None
    options: list[str] | None
    append_only: bool
    init: bool


class BackupJobsDumps(t.TypedDict, total=False):
    name: str
    filename: str | None
    may_be_empty: bool
    command: list[str]
    user: str | None
    timeout_s: int | None


class BackupJobsPre(t.TypedDict, total=False):
    command: list[str]
    user: str | None
    timeout_s: int | None


class BackupJobs(t.TypedDict, total=False):
    name: str
    repository: str | None
    host: str | None
    paths: list[str] | None
    excludes: list[str] | None
    exclude_sets: list[str] | None
    exclude_caches: bool
    one_file_system: bool
    tags: list[str] | None
    retention: JsonObject | None
    schedule: str | None
    max_age_h: int | None
    timeout_s: int
    dumps: list[BackupJobsDumps] | None
    pre: list[BackupJobsPre] | None
    post: list[BackupJobsPre] | None
    post_failure: list[BackupJobsPre] | None
    always: list[BackupJobsPre] | None


class BackupOptions(t.TypedDict):
    state: str
    repositories: list[BackupRepositories]
    jobs: list[BackupJobs]
    host: str
    version: str
    releases: JsonObject | None
    user: str
    exclude_sets: list[str]
    excludes: list[str]
    dataset_paths: list[str]
    retention: JsonObject
    manifest: bool
    schedule: str
    forget_schedule: str
    prune_schedule: str
    check_schedule: str
    drill_schedule: str
    randomized_delay_s: int
    check_subset_parts: int
    drill_paths: list[str]
    drill_files: int
    textfile_directory: str
    notify_command: list[str]
    limit_upload_kib: int
    limit_download_kib: int
    retry_lock_s: int
    max_age_h: JsonObject
