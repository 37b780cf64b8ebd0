"""The commands that are clients, ``produce``, ``consume``, ``tail`` and ``pipeline``, and what they share.

Open ``consume`` first. Not here: the protocol of clients (``gateway.client``, ``gateway.spark``).
"""
