"""The loop that waits for sockets, timers and threads: what servers ask of it, and how it waits for a disk.

Not here: connections and frames (``gateway.remoting``), what is done at which time (``gateway.broker.upkeep``).
Open ``interface`` first.
"""
