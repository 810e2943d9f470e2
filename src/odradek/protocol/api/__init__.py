"""One module per API with its request and response in all versions, in Kafka's names.

Names have Python's case. `odradek.protocol.api_keys` lists the APIs by key. The codecs written by
hand for `produce`, `fetch` and `heartbeat` must change with their declarations.

Tests: property/test_messages.py, property/test_hot_parity.py, unit/protocol/test_schema.py
"""
