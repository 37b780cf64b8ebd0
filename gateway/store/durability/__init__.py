"""The way from an appended message to an answered sender: gather, write, sync, make visible.

Open ``group_commit`` first: the module holds the order of these steps. The rooms ``log`` and ``queues`` decide where
bytes go in a file.
"""
