"""Tests against the real thing: stock Java clients, Apache RocketMQ's own broker, real processes and sockets.

What a single Python module promises is tested beside it; here only what another implementation can see.
Everything needs Docker. A missing engine fails the tests, it does not skip them.
"""
