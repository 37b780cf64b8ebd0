"""Requests that most brokers are never asked for: those of tools, and waiting for messages to pop.

All modules here are loaded when the first of them comes, and nothing that a start needs may import them. Each module
has one class of requests. What every client asks for is in the rooms beside. Upstream: ``AdminBrokerProcessor``,
version 5.5.0.
"""
