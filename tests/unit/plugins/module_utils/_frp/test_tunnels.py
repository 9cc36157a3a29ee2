# SPDX-License-Identifier: GPL-3.0-or-later
"""What a user writes, and what frpc reads."""

from __future__ import annotations

from ansible_collections.rigwright.workstation.plugins.module_utils._frp.tunnels import tunnels


def test_a_known_service_is_private_and_needs_only_its_name():
    assert tunnels([{"name": "ssh"}], [], secret_key="s" * 16)["proxies"] == [
        {
            "name": "ssh",
            "type": "stcp",
            "localIP": "127.0.0.1",
            "localPort": 22,
            "secretKey": "s" * 16,
            "allowUsers": ["*"],
        }
    ]


def test_a_public_port_has_no_secret():
    (proxy,) = tunnels([{"name": "web", "local_port": 8080, "remote_port": 6000}], [])["proxies"]
    assert proxy == {"name": "web", "type": "tcp", "localIP": "127.0.0.1", "localPort": 8080, "remotePort": 6000}


def test_service_without_a_port_has_port_zero():
    assert tunnels([{"name": "web"}], [])["proxies"][0]["localPort"] == 0


def test_visitor_listens_on_loopback():
    visitors = [{"server_name": "ssh", "server_user": "workstation", "bind_port": 6022}]
    assert tunnels([], visitors, secret_key="s" * 16)["visitors"] == [
        {
            "name": "workstation-ssh",
            "type": "stcp",
            "serverUser": "workstation",
            "serverName": "ssh",
            "secretKey": "s" * 16,
            "bindAddr": "127.0.0.1",
            "bindPort": 6022,
        }
    ]


def test_options_without_a_value_are_null():
    service = {
        "name": "ssh",
        "local_port": None,
        "local_ip": None,
        "secret_key": None,
        "allow_users": None,
        "extra": None,
    }
    (proxy,) = tunnels([service], [], secret_key="s" * 16, allow_users=["laptop"])["proxies"]
    assert (proxy["localPort"], proxy["secretKey"], proxy["allowUsers"]) == (22, "s" * 16, ["laptop"])


def test_frpc_reads_all_that_is_returned():
    assert set(tunnels([{"name": "ssh"}], [])) == {"proxies", "visitors"}


def test_anything_else_of_frp_can_be_added():
    service = {"name": "ssh", "extra": {"transport": {"useCompression": True}}}
    assert tunnels([service], [])["proxies"][0]["transport"] == {"useCompression": True}
