#!/usr/bin/python

# Copyright: the Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: tls_certificate
short_description: Keep a private CA and a server certificate signed by it
description:
  - Creates a private CA and one certificate signed by it, and renews the certificate before it ends or when its names change.
    All of it is one module run.
  - Keys are elliptic curve keys (P-256). They are created on the target and never leave it, and no result shows them.
  - The CA is never replaced unless O(renew_ca) says so, because clients trust it by its certificate.
  - An interrupted run leaves nothing that the next run does not complete.
version_added: 0.1.0
author:
  - The Rigwright engineers (@rigwright)
extends_documentation_fragment:
  - rigwright.workstation.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
    details:
      - Names, dates, owners and modes. Never a key.
requirements:
  - openssl 3.0 or newer on the target
options:
  directory:
    description:
      - Directory of the files C(ca.crt), C(ca.key), C(<name>.crt) and C(<name>.key). It is created if missing; its parent is not.
      - It is refused where users other than root may write in it or above it.
    type: path
    required: true
  name:
    description:
      - Name of the certificate's files.
    type: str
    default: server
  state:
    description:
      - V(present) keeps the CA and the certificate.
      - V(absent) removes them, and O(directory) when nothing else is in it.
    type: str
    choices: [present, absent]
    default: present
  names:
    description:
      - Host names and IP addresses that clients connect to. Required if O(state=present).
    type: list
    elements: str
  ca_common_name:
    description:
      - Name of the CA. It counts when the CA is made.
    type: str
    default: Private CA
  ca_days:
    description:
      - Lifetime of the CA. It counts when the CA is made.
    type: int
    default: 3650
  days:
    description:
      - Lifetime of the certificate. It never outlives its CA.
    type: int
    default: 825
  renew_days:
    description:
      - Create a new certificate if the present one ends in less than this many days.
      - Warn when the CA does.
    type: int
    default: 30
  renew_ca:
    description:
      - Replace a CA that has ended, ends in less than O(renew_days) or cannot be used. Every client needs its new certificate then.
      - A CA that serves is left alone.
    type: bool
    default: false
  owner:
    description:
      - Owner of the certificate's key. The CA's key belongs to root alone.
    type: str
    default: root
  group:
    description:
      - Group of the certificate's key, whose members may use it.
    type: str
    default: root
  mode:
    description:
      - Mode of the certificate's key, in octal digits.
    type: str
    default: "0640"
seealso:
  - module: rigwright.workstation.systemd_units
"""

EXAMPLES = r"""
- name: Keep the certificate of the gateway
  rigwright.workstation.tls_certificate:
    directory: /etc/frp/pki
    ca_common_name: frp on gateway
    names: [gateway.example.org, 192.0.2.1]
    group: frp
  register: __frp_tls

- name: Copy the CA certificate to the clients
  rigwright.workstation.config_files:
    name: frp_client
    files:
      - path: /etc/frp/ca.crt
        content: "{{ __frp_tls.ca_certificate }}"
  delegate_to: laptop
"""

RETURN = r"""
ca_certificate:
  description: The certificate of the CA as PEM, which clients trust. Null where there is none (check mode, or O(state=absent)).
  returned: success
  type: str
not_after:
  description: When the certificate ends (UTC). In check mode when the new one would.
  returned: success
  type: str
  sample: "2029-02-23T10:15:00Z"
fingerprint:
  description: SHA-256 of the certificate. Null where there is none.
  returned: success
  type: str
  sample: 51:65:E1:F2:95:FA:04:95:3E:1C:98:60:29:85:6B:47:5F:D5:D6:39:A4:60:6E:9D:0E:7E:52:4E:05:36:31:40
reasons:
  description: Why the certificate was created again.
  returned: success
  type: list
  elements: str
  sample: [its names differ]
changed_paths:
  description: The files that changed, or would in check mode; those that are removed included.
  returned: success
  type: list
  elements: str
  sample: [/etc/frp/pki/server.crt, /etc/frp/pki/server.key]
"""

from ansible_collections.rigwright.workstation.plugins.module_utils._core.certificate_run import SPEC, run
from ansible_collections.rigwright.workstation.plugins.module_utils._core.host_module import HostModule


def main() -> None:
    module = HostModule(argument_spec=SPEC, required_if=[("state", "present", ("names",))], supports_check_mode=True)
    run(module)


if __name__ == "__main__":
    main()
