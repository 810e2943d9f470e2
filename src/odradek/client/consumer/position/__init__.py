"""Subscription and positions: `position` (shared by two threads), `subscription_state`,
`offset_fetcher` (looking positions up), `deferred_errors`.

Tests: unit/client/consumer, property
"""
