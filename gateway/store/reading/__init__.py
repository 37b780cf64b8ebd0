"""Reading a queue for a pull: from the units of the queue to the bytes of the messages in the log.

Open ``queue_reader`` first. Nothing here writes, and holding a pull that finds no message belongs to
``gateway.delivery``.
"""
