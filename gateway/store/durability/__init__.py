"""From an appended message to an answered sender: gathering, writing, syncing, and making messages visible.

Open ``group_commit`` first: it holds the order of these steps. Where bytes go in a file belongs to the rooms ``log``
and ``queues``.
"""
