"""What a client knows of the cluster, and how it stays up to date.

`cluster_image` (an immutable picture of nodes, topics and leaders), `metadata` (when to ask and for
what), `updater` (sends the requests).

Tests: unit/client
"""
