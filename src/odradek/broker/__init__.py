"""The broker: which requests it serves, how a request is answered, and the wiring of its parts.

    server node broker              a broker on this machine; the wiring; what handlers use
    formatting                      a new data directory
    apis dispatch context           the table of APIs; from a frame to its handler; one request
    handlers/                       one module per API
    long_requests                   requests that are handled in parts
    acl_operations leader_hints     parts of answers: authorized operations, who leads instead
    fetch_sessions                  partitions of a consumer, kept between fetches (KIP-227)
    partitions stray_logs           committed metadata to replicas and logs; logs without a replica
    coordinator_topics              the topics of the two coordinators
    transaction_service             the transaction coordinator, wired
    transaction_verification        before a transaction's first batch
    transaction_markers             after its end
    hanging_transactions            transactions that no coordinator ends
    producer_fenced producer_ids    what a fenced producer is told; blocks of producer ids
    waiting sliced_answers          what waits, shown in slices
    metrics/ request_metrics        what is counted; the counts of requests
    http_service                    the paths of HTTP
    background housekeeping log_cleaner shutdown   work of its own

Of a node of several:

    cluster_member                  its side towards the others, wired
    lifecycle lifecycle_manager controller_lifecycle   registration, heartbeats, controlled shutdown
    quorum_membership voter_changes its own entry among the voters; changes of voters by request
    controller_service decision_in_parts   the active controller at work for the brokers
    controller_channel forwarding   requests to it: of this broker, of clients
    replication_service             its replicas and those of other brokers
    leader_ends                     ends of partitions that others lead, for the lag of groups

A handler is `handle(broker, context, request)`. It returns the response, or a `DelayedResponse`: an
operation that responds when the event that it watches happens or its deadline passes. Handlers
decide; they do no I/O of their own.

Tests: unit/broker, clients, interop, sim
"""
