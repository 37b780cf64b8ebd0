"""Many records of the commit log at a time, in columns: rows, their queue units, their keys and the hashes.

Open ``record_rows`` first. Not here: the codec of one record (``wire.message.record``) and any judgement (``checks``).
"""
