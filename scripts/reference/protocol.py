"""The page of the protocol: which versions of which APIs the broker serves."""

from __future__ import annotations

from odradek.broker.apis import ROWS
from odradek.protocol.api_keys import MESSAGES

HEAD = """# Protocol

<!-- Rendered from the code: `make reference` writes this page again. -->

What this broker serves, drawn from the table it decides by (`odradek.broker.apis`). Versions are
Kafka 4.4's from the floor of KIP-896 up; a flexible version has compact lengths and tagged fields
(KIP-482). The last column says what a principal must be allowed to do where there is an authorizer.

| key | API | versions | flexible from | authorisation |
|---|---|---|---|---|
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
            f"| {'-' if flexible is None else flexible} | {api.authorisation} |\n"
        )
    return HEAD + "".join(lines)
