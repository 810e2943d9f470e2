"""The client's metadata of the cluster, and its updates.

`cluster_image` (an immutable picture of nodes, topics and leaders), `metadata` (when to ask and for
what), `updater` (sends the requests, and says in them whether topics may be created).

Tests: unit/client
"""
