"""One module per API: its versions' behaviour at the top, then `handle(broker, context,
request)`.
"""
