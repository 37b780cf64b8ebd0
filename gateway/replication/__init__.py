"""The copies of the log on other machines: the master sends its durable records, the slave stores them and says so.

    prefix    the proof that two logs begin alike, before the first byte flows
    slave     the connection to a master, and what is received

What the two sides do is decided by pure functions; the store appends, the reactor only waits for sockets.
"""
