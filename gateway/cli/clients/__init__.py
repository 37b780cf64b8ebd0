"""The commands that are clients, ``produce``, ``consume``, ``tail`` and ``pipeline``, and their common parts.

Open ``consume`` first. The protocol of clients is elsewhere (``gateway.client``, ``gateway.spark``).
"""
