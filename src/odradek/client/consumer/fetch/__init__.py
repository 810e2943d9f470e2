"""From Fetch requests to records: `fetcher`, `session` (KIP-227), `completed_fetch`, `collector`.

Tests: unit/client/consumer
"""
