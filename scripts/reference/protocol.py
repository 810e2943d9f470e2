"""The page of the protocol: which versions of which APIs the broker serves."""

from __future__ import annotations

from odradek.broker.apis import ROWS, Api
from odradek.protocol.api_keys import MESSAGES

HEAD = """# Protocol

<!-- Rendered from the code: `make reference` writes this page again. -->

The APIs and versions that the broker serves (`odradek.broker.apis`). Versions are those of Kafka
4.4, from the minimum of KIP-896 up. The APIs with keys from 20000 are Odradek's own: listed only to
clients with its software name (KIP-511), but answered to whoever sends them. A flexible version has
compact lengths and tagged fields (KIP-482). The last column has the operation that a principal
needs permission for, with an authorizer. Any broker answers, unless the table says that only the
active controller does, to which other brokers send the request on (KIP-590), or that the request
is one between nodes of the cluster, which clients cannot send.

| key | API | versions | flexible from | who answers | authorisation |
|---|---|---|---|---|---|
"""


def page() -> str:
    """The page as Markdown."""
    lines = []
    for api in ROWS:
        flexible = MESSAGES[api.key].flexible
        advertised = (
            ""
            if api.advertised_min == api.min_version
            else f" (advertised from {api.advertised_min}, for old librdkafka)"
        )
        lines.append(
            f"| {api.key} | {api.name} | {api.min_version}-{api.max_version}{advertised} "
            f"| {'-' if flexible is None else flexible} | {who_answers(api)} "
            f"| {api.authorisation} |\n"
        )
    return HEAD + "".join(lines)


def who_answers(api: Api) -> str:
    if api.between_nodes:
        return "between nodes"
    return "active controller" if api.of_controller else ""
