"""The application at its consumer: `poll_loop`, `calls` (everything but records), `dead_letters`,
`missing_topics`.

Tests: unit/client/consumer, clients/consumer
"""
