# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Facts that the plans of CUDA and cuDNN depend on, read below a root directory."""

from __future__ import annotations

import json
import os
import platform
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._apt.packages import (
    EXTENDED_STATES,
    STATUS,
    parse_automatic,
    parse_policy,
    parse_status,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._core import record
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files import STORE, Store
from ansible_collections.rigwright.workstation.plugins.module_utils._core.config_files_due import is_due
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rootfs import Tree
from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import FileRow
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import cuda_repository
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import facts as gpu
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia import package_catalogue as package_data
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.catalogue import CUDA_REPOSITORY
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_options import CudaRepository
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.cuda_plan import (
    ALTERNATIVES,
    Host,
    PackagePlan,
    repository_of,
)
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.gpus import of_driver, read_gpus
from ansible_collections.rigwright.workstation.plugins.module_utils._nvidia.package_facts import journal

ENVIRONMENT = "/etc/environment"
# The directories that packages are unpacked to, and apt's cache.
PATHS = ("/usr/local", "/opt", "/var/cache/apt")


def memory(role: str) -> str:
    """Return the file in which a role keeps the names of the packages that it installed."""
    return f"/var/lib/rigwright_{role}/packages.json"


def read_host(tree: Tree, role: str) -> Host:
    """Read what the plans of CUDA and cuDNN depend on.

    :raises ValueError: the role's own record is damaged.
    """
    system = gpu.read_system(tree)
    gpus = of_driver(read_gpus(tree))
    driver = gpu.read_driver(tree)
    return Host(
        distribution=system["distribution"],
        version=system["version"],
        machine=platform.machine(),
        packages=parse_status(tree.text(STATUS)),
        automatic=parse_automatic(tree.text(EXTENDED_STATES)),
        # Without a GPU, a library of the driver only serves to link a toolkit.
        driver=driver["loaded"] or (driver["library"] if gpus else ""),
        generations=tuple(card["generation"] for card in gpus),
        free_bytes=gpu.read_free_bytes(tree, PATHS),
        alternatives={
            name: tree.link(f"{ALTERNATIVES}/{name}") for name in tree.names(ALTERNATIVES) if name.startswith("cuda")
        },
        roots={name: tree.link(f"/usr/local/{name}") for name in tree.names("/usr/local") if name.startswith("cuda")},
        installed=read_installed(tree, role),
        interrupted=bool(journal(tree)),
        environment=tree.text(ENVIRONMENT),
        environment_before=_read_original(tree, role),
    )


def known_packages(run: t.Callable[..., tuple[int, str, str]], names: t.Iterable[str]) -> frozenset[str]:
    """Return those of *names* that apt can install."""
    _rc, out, _err = run(["apt-cache", "policy", *names], check_rc=True)
    return parse_policy(out)


def package_set(role: str) -> str:
    """Return the name of the set of config_files that has the memory of a role and its source of packages."""
    return f"{role}_packages"


class InstallSteps(t.TypedDict):
    """The steps before packages are installed, and whether each is due."""

    package_files: list[FileRow]
    repository: dict[str, str]
    repository_due: bool
    package_files_due: bool
    install_due: bool


def install_steps(
    tree: Tree,
    run: t.Callable[..., tuple[int, str, str]],
    role: str,
    host: Host,
    plan: PackagePlan,
    elsewhere: CudaRepository,
    more_files: t.Sequence[FileRow] = (),
) -> InstallSteps:
    """Return the steps before packages are installed, and whether each is due."""
    package_files: list[FileRow] = [{"path": memory(role), "content": json.dumps(plan.installed) + "\n"}, *more_files]
    place = repository(host, elsewhere) if plan.source == CUDA_REPOSITORY else {}
    repository_due = cuda_repository.is_due(run, role, place)
    package_files_due = is_due(tree, package_set(role), package_files, [os.path.dirname(memory(role))])
    return {
        "package_files": package_files,
        "repository": place,
        "repository_due": repository_due,
        "package_files_due": package_files_due,
        "install_due": repository_due or package_files_due or bool(plan.install) or plan.unfinished,
    }


def read_installed(tree: Tree, role: str) -> frozenset[str]:
    """Return the names of the packages that a role installed.

    :raises Damaged: the record is damaged.
    """
    remedy = (
        f"it has the names of the packages that the role {role} installed, as a list in JSON. Restore it, or write [] into it,"
        " and these packages count as your own"
    )
    return frozenset(record.read(tree.at(memory(role)), remedy, [str]) or [])


def _read_original(tree: Tree, role: str) -> str | None:
    """Return /etc/environment as it was before config_files replaced it with the role's."""
    record = Store(role, tree.at(STORE)).load().get(ENVIRONMENT)
    return None if record is None else (record.original.content or b"").decode("utf-8", errors="replace")


def repository(host: Host, elsewhere: CudaRepository) -> dict[str, str]:
    """Return the options of the module cuda_repository. *elsewhere* has the address and checksums of a mirror."""
    row = repository_of(host)
    if row is None:
        return {}
    return repository_at(row.directory, row.architectures[host.machine], row.keyring_sha256, elsewhere)


def repository_at(
    directory: str, architecture: str, keyring_sha256: t.Mapping[str, str], elsewhere: CudaRepository
) -> dict[str, str]:
    """Return the options of the module cuda_repository for one directory of NVIDIA's repositories. An unknown checksum is empty."""
    base = (elsewhere.get("url") or package_data.CUDA_REPOSITORY_URL).rstrip("/")
    given = (elsewhere.get("keyring_sha256") or {}).get(directory)
    return {
        "url": f"{base}/{directory}/{architecture}",
        "directory": directory,
        "architecture": architecture,
        "keyring": package_data.CUDA_KEYRING_PACKAGE,
        "keyring_sha256": given or keyring_sha256.get(architecture, ""),
    }
