"""Transactional messages: half messages, their one outcome, and the checks in between.

What waits and what was decided is kept in memory beside the log (``tables``), found again at start (``restart``), and
changed in one place (``settling``), which appends the final message and its op record together. ``checks`` asks
producers that did not say what became of a half message. Open ``transactions`` first: it puts the parts together.

Not here: the requests that arrive over the wire (``gateway.broker.requests``) and the storing of a half
message, which is an ordinary append.
"""
