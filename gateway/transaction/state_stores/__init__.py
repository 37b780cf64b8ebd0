"""Where it is kept which half messages are pending, besides the op records of the ``queue`` store.

Half messages lie in the half topic with every store, so their places stay what producers were told. ``table`` and
``database`` differ from ``queue`` in three things: an outcome's evidence in the log is the final message, or a hidden
record of the rollback kind (``outcome_records``) instead of an op record; a ``follower`` brings what is durable in the
log to files or rows of their own; and a start reads those and only the end of the log behind them. The log decides:
files and rows that are lost or old are made again from it.

Not here: deciding outcomes (``settling``), and moving pending ones from one store to another (``migration``).
"""
