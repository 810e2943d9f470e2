"""The connection of a replica fetcher: an answer, or none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from odradek.network_client.errors import Disconnected
from odradek.network_client.network_client import NetworkClient
from odradek.protocol.hot_fetch import FetchRequest, FetchResponse
from odradek.replication.leader_connection import LeaderConnection
from odradek.timing import SystemTimer


def test_a_fetch_gets_its_answer_or_none_when_it_failed():
    sent: list[tuple[int, Any]] = []
    client = SimpleNamespace(send=lambda node, request, handler: sent.append((node, handler)))
    connection = LeaderConnection(cast("NetworkClient", client), SystemTimer(0), 3)
    heard: list[FetchResponse | None] = []
    request = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    connection.send(request, heard.append)
    connection.send(request, heard.append)
    answer = FetchResponse(responses=[])
    assert [node for node, _ in sent] == [3, 3]
    sent[0][1](SimpleNamespace(error=None, response=answer))
    sent[1][1](SimpleNamespace(error=Disconnected("gone"), response=None))
    assert heard == [answer, None]
