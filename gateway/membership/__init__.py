"""Who is connected right now: producers, consumers, their heartbeats, and the locks of orderly consumers.

All of it is in memory and gone after a restart; the clients' next heartbeat brings it back. What groups may
do is kept in ``gateway.metadata``.
"""
