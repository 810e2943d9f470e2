"""All administrative calls as one class. Faces bind its methods; see `client.blocking.admin`."""

from __future__ import annotations

from odradek.client.admin.cluster import ClusterCalls
from odradek.client.admin.configs import ConfigCalls
from odradek.client.admin.group_offsets import GroupOffsetCalls
from odradek.client.admin.topics import TopicCalls


class AdminCalls(TopicCalls, ConfigCalls, GroupOffsetCalls, ClusterCalls):
    """Topics, records, settings, groups, brokers."""
