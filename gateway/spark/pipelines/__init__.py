"""Ready-made jobs with the source and the sink, each for a terminal and for ``spark-submit``.

    archive        committed queues into Parquet, partitioned by date and topic, exactly once over restarts
    transactions   half, op and real topics into a table of each transaction's life, and a report of it as HTML
    replay         a part of an archive back into a topic

``rocketmq-gateway pipeline NAME``, ``python -m gateway.spark.pipelines NAME`` and ``spark-submit …/__main__.py NAME``
are the same commands. The code here runs in the driver; workers run only Spark's own operators and the source.
"""
