"""Kafka's wire protocol and record format: conversion between bytes and Python values.

    schema, api/<api>               how a message is declared, and one module per API
    codec                           reads and writes any version of a message
    codegen, generated_reader,
    generated_writer                straight-line Python generated from the declarations
    hot_codec, hot_produce,
    hot_fetch, hot_heartbeat        codecs written by hand for the most frequent messages
    api_keys, frame, primitives     the table of APIs; lengths and headers; variable-length integers
    record_batch, records,
    record_batch_builder,
    record_columns, compression     reading, building and decompressing record batches
    validate                        the broker's checks on a produced batch
    control_records, quorum_records,
    metadata_records,
    consumer_protocol, principal    contents of records and fields that Kafka itself defines

Nothing here does I/O or acts on a message. Invalid input from a peer raises `ProtocolError` (see
`model.errors`) and nothing else; nothing is allocated for a length that has not arrived.

Tests: unit/protocol, property, fuzz, golden, interop
"""
