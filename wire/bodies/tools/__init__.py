"""Bodies that only tools of operators ask for: figures, times, units of queues, replicas, transactions.

Open ``statistics`` first. Bodies that producers and consumers use too are one folder up.
"""
