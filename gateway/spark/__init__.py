"""RocketMQ queues as tables and streams of Apache Spark: a PySpark data source with the name ``rocketmq``.

    from gateway.spark import register
    register(spark)
    spark.read.format("rocketmq").option("nameServer", "localhost:9876").option("subscribe", "orders").load()

Drivers and workers talk to name servers and brokers over plain sockets. Neither this package nor anything that the
package imports needs Twisted or the server's packages. docs/spark/options.md describes the options.
"""

from gateway.spark.registration import register

__all__ = ["register"]
