"""From rows to stored messages: how a task sends rows, and how half messages of a micro-batch get their outcomes.

Open ``writer`` first, which has Spark's calls in their order. The connections are elsewhere
(``gateway.spark.asking``).
"""
