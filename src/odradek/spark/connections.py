"""The connections of this process, kept from task to task.

Spark reuses its Python workers across tasks and micro-batches, and unpickles readers and writers
anew for each; what lives in a module stays. A cluster is therefore opened once per process and set
of options. Python workers are forked: what a parent opened is not used by its child (two processes
must never share a socket), which the process id in the key sees to.
"""

from __future__ import annotations

import os

from odradek import Admin
from odradek.client.simple.cluster import Cluster
from odradek.spark.options import ClientOptions

_clusters: dict[tuple[int, ClientOptions], Cluster] = {}
_admins: dict[tuple[int, ClientOptions], Admin] = {}


def admin_of(options: ClientOptions) -> Admin:
    """This process's admin client for these options."""
    key = (os.getpid(), options)
    if key not in _admins:
        _admins[key] = Admin(
            brokers=options.bootstrap_servers,
            client_id=options.client_id,
            request_timeout_ms=options.request_timeout_ms,
            default_api_timeout_ms=max(options.api_timeout_ms, options.request_timeout_ms),
        )
    return _admins[key]


def cluster_of(options: ClientOptions) -> Cluster:
    """This process's cluster for these options."""
    key = (os.getpid(), options)
    if key not in _clusters:
        _clusters[key] = open_cluster(options)
    return _clusters[key]


def open_cluster(options: ClientOptions) -> Cluster:
    """A cluster with connections of its own, for those who leave requests under way."""
    return Cluster(
        options.bootstrap_servers,
        client_id=options.client_id,
        request_timeout_ms=options.request_timeout_ms,
        api_timeout_ms=options.api_timeout_ms,
    )
