"""The handlers: one module per API, with the behaviour of its versions in the docstring.

Each module has `handle(broker, context, request)`; `broker.apis` lists them all.

Tests: unit/broker, clients/bad_input, interop/differential
"""
