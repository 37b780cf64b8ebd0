"""Connections to name servers and brokers: what every client needs before a message is sent or consumed.

Each asyncio client shares one ``instance.py``: routes, heartbeats, requests of brokers. Read ``client.py`` first.
What is sent or consumed over a connection is decided in the other rooms.
"""
