# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a job: a model's configuration, and other files of JSON. They are data, and links are refused."""

from __future__ import annotations

import json
import os
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import directories
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.fit import families, nets
from ansible_collections.rigwright.workstation.plugins.module_utils._gpu.nvml_errors import Refusal

FILE_LIMIT = 4 * 2**20


def read_json(path: str, variable: str) -> t.Any:
    """Read a file of JSON.

    :raises Refusal: it cannot be read, or is none.
    """
    try:
        return json.loads(directories.read_file(path, limit=FILE_LIMIT).decode("utf-8"))
    except OSError as error:
        raise Refusal(
            f"`{variable}`: {path} cannot be read ({error.strerror or error}): give a regular file"
        ) from error
    except (ValueError, RecursionError) as error:
        raise Refusal(f"`{variable}`: {path} is no JSON: give a file of JSON") from error


def is_entry(model: str) -> bool:
    """Return whether a model is a Python entry point, PATH:FUNCTION."""
    path, colon, name = model.rpartition(":")
    return bool(colon) and path.endswith(".py") and name.isidentifier()


def described(given: t.Mapping[str, t.Any], model: str) -> dict[str, t.Any]:
    """Return a job with the content of its model: a name of torchvision, or the file of a configuration."""
    if not model:
        return dict(given)
    if model in nets.NAMES:
        return {**given, "torchvision": model}
    path = os.path.join(model, "config.json") if os.path.isdir(model) else model
    if not os.path.exists(path):
        near = families.nearest(model, nets.NAMES)
        raise Refusal(f"`model`: {model} is neither a file nor a name of torchvision; the nearest are {near}")
    stem = os.path.basename(os.path.abspath(path)).rpartition(".")[0]
    # A file of the usual name is in a folder with the name of the model.
    name = os.path.basename(os.path.dirname(os.path.abspath(path))) if stem == "config" else stem
    return {"name": name or model, **given, "config": read_json(path, "model")}
