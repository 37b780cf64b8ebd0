"""From a query to Arrow batches: which queues and offsets are read, by which task, and the pulls of a task.

Open ``planning`` first, then ``range_reader``, which reads the range of one task. The columns of records are elsewhere
(``gateway.spark.table``).
"""
