"""The consumer's side of its group, a state machine with effects: `coordinator` (inputs and parts),
`member` (state and effects), `requests`, `membership`, `leader`, `rebalance`, `commits`, and
`runner`, which carries the effects out.

Tests: transcripts/consumer, unit/client/consumer, sim
"""
