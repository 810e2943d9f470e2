"""The table of APIs by key, with their request and response classes. Kafka's `ApiKeys`.

The messages of an API are in the module of its name (`ElectLeaders`: `protocol.api.elect_leaders`),
which is imported when something first asks for them: a process uses few of all APIs.

The versions in the declarations are Kafka 4.4's, from the floor of KIP-896 up. Odradek's own APIs
have keys from 20000. A broker advertises
the versions of its own table (`broker.apis`); the two differ where old clients need it. The
protocol page of the documentation is generated from both.
"""

from __future__ import annotations

from functools import cached_property
from importlib import import_module
from typing import Any, Final

from odradek.protocol.schema import Declaration, declaration

FIRST_OWN_KEY: Final = 20_000
"""The keys from here on are Odradek's own. Kafka's are below a hundred."""

NAMES: Final = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    8: "OffsetCommit",
    9: "OffsetFetch",
    10: "FindCoordinator",
    11: "JoinGroup",
    12: "Heartbeat",
    13: "LeaveGroup",
    14: "SyncGroup",
    15: "DescribeGroups",
    16: "ListGroups",
    17: "SaslHandshake",
    18: "ApiVersions",
    19: "CreateTopics",
    20: "DeleteTopics",
    21: "DeleteRecords",
    22: "InitProducerId",
    23: "OffsetForLeaderEpoch",
    24: "AddPartitionsToTxn",
    25: "AddOffsetsToTxn",
    26: "EndTxn",
    27: "WriteTxnMarkers",
    28: "TxnOffsetCommit",
    29: "DescribeAcls",
    30: "CreateAcls",
    31: "DeleteAcls",
    32: "DescribeConfigs",
    33: "AlterConfigs",
    35: "DescribeLogDirs",
    36: "SaslAuthenticate",
    37: "CreatePartitions",
    42: "DeleteGroups",
    43: "ElectLeaders",
    44: "IncrementalAlterConfigs",
    45: "AlterPartitionReassignments",
    46: "ListPartitionReassignments",
    47: "OffsetDelete",
    48: "DescribeClientQuotas",
    50: "DescribeUserScramCredentials",
    52: "Vote",
    53: "BeginQuorumEpoch",
    54: "EndQuorumEpoch",
    55: "DescribeQuorum",
    56: "AlterPartition",
    57: "UpdateFeatures",
    58: "Envelope",
    59: "FetchSnapshot",
    60: "DescribeCluster",
    61: "DescribeProducers",
    62: "BrokerRegistration",
    63: "BrokerHeartbeat",
    64: "UnregisterBroker",
    65: "DescribeTransactions",
    66: "ListTransactions",
    67: "AllocateProducerIds",
    74: "ListConfigResources",
    75: "DescribeTopicPartitions",
    80: "AddRaftVoter",
    81: "RemoveRaftVoter",
    82: "UpdateRaftVoter",
    20_000: "DescribeWaiting",
    20_001: "DescribeMetrics",
}
"""The name of each API by its key."""


class ApiMessages:
    """An API by its key, with its request and response for all versions."""

    def __init__(self, key: int, name: str) -> None:
        self.key = key
        self.name = name

    @cached_property
    def request(self) -> type[Any]:
        return self._message("Request")

    @cached_property
    def response(self) -> type[Any]:
        return self._message("Response")

    @property
    def versions(self) -> tuple[int, int]:
        """The first and the last version of the declarations."""
        return self._declaration.versions

    @property
    def flexible(self) -> int | None:
        """The first version with compact lengths, tagged fields and the matching header."""
        return self._declaration.flexible

    def is_flexible(self, version: int) -> bool:
        """True if this version of request and response is flexible."""
        return self._declaration.is_flexible(version)

    @cached_property
    def _declaration(self) -> Declaration:
        """The declaration of the request, which is that of the response too."""
        declared = declaration(self.request)
        assert declaration(self.response) == declared and declared.api == self.key, self.name
        return declared

    def _message(self, kind: str) -> type[Any]:
        module = import_module(f"odradek.protocol.api.{module_name(self.name)}")
        found: type[Any] = getattr(module, self.name + kind)
        return found

    def __repr__(self) -> str:
        return f"ApiMessages({self.key}, {self.name!r})"


def module_name(name: str) -> str:
    """`ElectLeaders` -> `elect_leaders`."""
    return "".join(f"_{char.lower()}" if char.isupper() else char for char in name)[1:]


MESSAGES: Final = {key: ApiMessages(key, name) for key, name in NAMES.items()}
