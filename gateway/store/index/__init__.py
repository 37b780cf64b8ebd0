"""The key index: the messages of the log that have a key, for queries by key.

Open ``index`` first. An index entry holds only a hash of a key: ``indexing`` compares the messages themselves.
"""
