"""The broker: which requests it serves, how a request is answered, and the wiring of its parts.

Modules: `server` (a broker on this machine), `node` (the wiring), `broker` (what handlers use);
requests: `apis` (the table), `dispatch`, `context`, `handlers` (one per API), `acl_operations`,
`fetch_sessions`; partitions: `partitions`, `coordinator_topics`; transactions:
`transaction_service`, `transaction_verification`, `transaction_markers`, `hanging_transactions`,
`producer_fenced`; work of its own: `background`, `housekeeping`, `log_cleaner`,
`shutdown`.

A handler is `handle(broker, context, request)`. It returns the response, or a `DelayedResponse`: an
operation that responds when the event that it watches happens or its deadline passes. Handlers
decide; they do no I/O of their own.

Tests: unit/broker, clients, interop, sim
"""
