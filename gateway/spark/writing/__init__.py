"""From rows to stored messages: how a task sends them, and how the half messages of a micro-batch get their outcomes.

Open ``writer`` first: it has the calls that Spark makes, in their order. Not here: the connections
(``gateway.spark.asking``).
"""
