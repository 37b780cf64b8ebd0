"""The commit log: the files that hold every message, and the ways to walk through their records.

Open ``commit_log`` first. ``gateway.store.durability`` decides when a batch is written, synced and answered.
"""
