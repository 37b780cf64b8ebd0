"""The clients that are connected now: producers, consumers, their heartbeats, and the locks of orderly consumers.

Everything here is in memory and gone after a restart; the clients' next heartbeats bring it back. ``gateway.metadata``
keeps what groups may do.
"""
