"""Every setting of librdkafka is known by name, and its default value is accepted."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from clients.rdkafka_mock import library
from odradek.config.client import ClientSettings
from odradek.config.consumer import ConsumerConfig
from odradek.config.producer import ProducerConfig
from odradek.config.setting import ConfigError

LIBRARY = library()
pytestmark = pytest.mark.skipif(LIBRARY is None, reason="confluent-kafka without its own library")

FUNCTIONS = frozenset({"log_cb", "open_cb", "socket_cb"})
"""Settings whose default is a function of librdkafka; a value is always another one."""


def settings_of(lib: Any, kind: str) -> dict[str, str]:
    """Return names and defaults, as librdkafka lists them."""
    pointer, strings = ctypes.c_void_p, ctypes.POINTER(ctypes.c_char_p)
    make = getattr(lib, f"rd_kafka_{kind}_new")
    dump = getattr(lib, f"rd_kafka_{kind}_dump")
    make.restype, dump.restype = pointer, strings
    dump.argtypes = [pointer, ctypes.POINTER(ctypes.c_size_t)]
    count = ctypes.c_size_t()
    listed = dump(make(), ctypes.byref(count))
    texts = [(listed[index] or b"").decode() for index in range(count.value)]
    return dict(zip(texts[::2], texts[1::2]))


@pytest.mark.parametrize("config", [ProducerConfig, ConsumerConfig])
def test_every_setting_of_librdkafka_is_known_with_its_default(
    config: type[ClientSettings],
) -> None:
    found = settings_of(LIBRARY, "conf") | settings_of(LIBRARY, "topic_conf")
    assert len(found) > 100
    refused = {name: reason for name in found if (reason := refusal(config, name, found[name]))}
    assert set(refused) == FUNCTIONS
    assert not [reason for reason in refused.values() if "Unknown" in reason]


def refusal(config: type[ClientSettings], name: str, value: str) -> str | None:
    """Return the error for a setting, None if it is accepted."""
    try:
        config.resolve(name, value)
    except ConfigError as error:
        return str(error)
    return None
