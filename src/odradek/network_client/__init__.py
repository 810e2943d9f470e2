"""Connections to nodes, and requests over them: for the clients, and from broker to broker.

    network_client      all nodes; its `settings`
    broker_connections  those of a broker to other brokers, by purpose
    node_connection     one node: requests pending, in flight, answered
    handshake           connect and negotiate versions (`api_versions`)
    channel             frames over a transport
    connection_states in_flight_requests      the state of all nodes
    backoff alarm       waiting before a retry; one timer for many deadlines
    network_metrics     bytes, requests and responses of each node
    errors              what a request may fail with

It knows nodes by id and address, and neither metadata nor what a request is about. It uses sockets,
clock and randomness only through `model.env.Env`, so it runs over simulated networks unchanged.

Tests: unit/network_client, property/test_network_client_faults.py
"""
