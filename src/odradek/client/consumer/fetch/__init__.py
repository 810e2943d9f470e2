"""From Fetch requests to records: `fetcher`, `session` (KIP-227), `completed_fetch`, `collector`;
`held_up` names the open transaction that a reader waits for.

Tests: unit/client/consumer
"""
