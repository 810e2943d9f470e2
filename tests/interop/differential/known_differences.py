"""Every difference between this broker's answers and Apache Kafka 4.3.1's that stays, with its reason."""

from __future__ import annotations

from interop.differential.comparing import Known

KNOWN: tuple[Known, ...] = ()
