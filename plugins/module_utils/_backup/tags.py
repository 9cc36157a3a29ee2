# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The tags of snapshots."""

from __future__ import annotations

# Every snapshot has a tag of its job, `job:<name>`, and one of what it is a snapshot of. No other tag begins so.
JOB = "job:"
PART = "part:"
FILES = f"{PART}files"
DUMP = f"{PART}dump:"
# And one of the machine that made it (_backup/identity.py).
MACHINE = "machine:"
