"""Bodies for operators' tools only: figures, times, units of queues, replicas, transactions.

Open ``statistics`` first. Bodies for producers and consumers too are one folder up.
"""
