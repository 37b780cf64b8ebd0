"""The key index: which messages of the log have a key, for queries by key.

Open ``index`` first. An index entry holds a hash of a key only: ``indexing`` compares the messages themselves.
"""
