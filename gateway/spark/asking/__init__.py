"""Name servers and brokers as the driver and the workers ask them: blocking connections, routes, ends of queues.

Open ``cluster`` first. Not here: which messages are asked for (``gateway.spark.reading``).
"""
