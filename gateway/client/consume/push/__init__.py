"""Push consumers: they hand messages to a listener, many at once or in the order of their queue.

Read ``push_consumer.py`` first, then ``pushed_queues.py``.
"""
