"""State stores: where pending half messages are noted, besides the op records of the ``queue`` store.

With every store, half messages are in the half topic, so their places stay those that producers know. ``table`` and
``database`` differ from ``queue`` in three ways:

- An outcome's evidence in the log is the final message or a hidden record of the rollback kind, not an op record
  (``outcome_records``).
- A ``follower`` brings what is durable in the log to separate files or rows.
- A start reads these files or rows, and only the end of the log after them.

The log decides: lost or old files and rows are made again from the log.

Not here: deciding outcomes (``settling``), and moving pending half messages from one store to another (``migration``).
"""
