"""The address and token of a broker's HTTP, as given."""

from __future__ import annotations

import pytest

from odradek.config.http import PORTS_TRIED, HttpSettings, parse_http
from odradek.config.setting import ConfigError

LOOPBACK = "127.0.0.1"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("9404", HttpSettings(LOOPBACK, 9404)),
        ("0", HttpSettings(LOOPBACK, 0)),
        ("10.0.0.7:80", HttpSettings("10.0.0.7", 80)),
        ("localhost:9404", HttpSettings("localhost", 9404)),
        ("[::1]:9404", HttpSettings("::1", 9404)),
        ("none", None),
    ],
)
def test_an_address_is_a_port_or_address_and_port(given: str, meant: HttpSettings | None) -> None:
    assert parse_http(given) == meant
    if meant is not None:
        assert meant.ports() == [meant.port], "a given port is meant exactly"


def test_without_one_the_next_free_port_may_be_taken() -> None:
    settings = parse_http(None)
    assert settings is not None
    assert settings.ports() == [*range(9404, 9404 + PORTS_TRIED), 0]


@pytest.mark.parametrize(
    "given", ["", "x", "-1", "65536", "９404", ":9404", "::1:9404", "[::1]", "a:b", "host:", "NONE"]
)
def test_anything_else_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match="write"):
        parse_http(given)


@pytest.mark.parametrize("token", ["", "two words", "line\n", "\xe9", '"quoted"', "="])
def test_a_token_that_no_header_can_have_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="token"):
        parse_http(None, token)


@pytest.mark.parametrize(
    ("bound", "needs_token"),
    [
        ("127.0.0.1", False),
        ("127.8.8.8", False),
        ("::1", False),
        ("0.0.0.0", True),
        ("::", True),
        ("10.0.0.7", True),
        ("fe80::1%eth0", True),
    ],
)
def test_only_the_loopback_interface_needs_no_token(bound: str, needs_token: bool) -> None:
    HttpSettings(token="x").check_address(bound)
    if needs_token:
        with pytest.raises(ConfigError, match="other machines"):
            HttpSettings().check_address(bound)
    else:
        HttpSettings().check_address(bound)
