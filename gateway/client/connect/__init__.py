"""Connections to name servers and brokers: everything a client needs before a message is sent or consumed.

Each asyncio client has one ``ClientInstance`` (``instance.py``) for routes, heartbeats and requests of brokers. Read
``client.py`` first. Other folders decide what is sent or consumed over a connection.
"""
