"""Connections to the nodes of a cluster, and requests over them.

`network_client` (all nodes), `node_connection` (one node: pending, in flight, answered),
`handshake` (connect and negotiate versions), `channel` (frames over a transport);
`connection_states`, `in_flight_requests` and `api_versions` are the state they keep; `backoff` and
`alarm` are used by the whole client.

Tests: unit/client
"""
