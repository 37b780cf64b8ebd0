"""The commit log: the file that holds every message, and the ways to walk through its records.

Open ``commit_log`` first. When a batch is written, synced and answered is decided in ``gateway.store.durability``.
"""
