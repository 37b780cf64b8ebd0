"""Transactional messages: half messages, the one outcome of each, and the checks in between.

Memory keeps what is pending and what was decided (``tables``), and each start fills it again from the log
(``restart``). Only ``settling`` changes outcomes: it appends the final message and its op record at once. ``checks``
asks producers for the outcomes that they did not send. Open ``transactions`` first: it puts the parts together.

Not here: the requests that arrive over the wire (``gateway.broker.requests``), and the storing of a half message, which
is an ordinary append.
"""
