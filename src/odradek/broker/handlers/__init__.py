"""The handlers: one module per API, with the behaviour of its versions in the docstring.

Each module has `handle(broker, context, request)`; `broker.apis` names them all, and
imports each at the first request for it.

Tests: unit/broker, clients/bad_input, interop/differential
"""
