"""Requests that most brokers never receive: those of tools, and waiting for messages to pop.

All modules here are loaded when the first such request comes, and nothing that a start needs may import them. Each
module has one class of requests. Requests that every client sends are in the neighbouring packages. Upstream:
``AdminBrokerProcessor``, version 5.5.0.
"""
