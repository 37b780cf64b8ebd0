"""The loop that waits for sockets, timers and threads: what servers need from it, and how it waits for a disk.

Connections and frames are in ``gateway.remoting``, periodic work is in ``gateway.broker.upkeep``. Open ``interface``
first.
"""
