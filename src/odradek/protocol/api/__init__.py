"""One module per API: its request and its response, in all versions, with Kafka's names in Python's
case. `odradek.protocol.api_keys` lists them by key.
"""
