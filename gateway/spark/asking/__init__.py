"""Questions of the driver and the workers to name servers and brokers: blocking connections, routes, ends of queues.

Open ``cluster`` first. The choice of messages is elsewhere (``gateway.spark.reading``).
"""
