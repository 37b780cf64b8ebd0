"""The read of a queue for a pull: from the units of the queue to the bytes of the messages in the log.

Open ``queue_reader`` first. Nothing here writes. ``gateway.delivery`` holds a pull that finds no message.
"""
