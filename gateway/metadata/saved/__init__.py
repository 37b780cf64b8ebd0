"""Tables as JSON files of the data directory: when a changed table is written, and how a file is replaced whole.

Open ``saved_table`` first, then ``json_file``. Not here: what is in a table (``gateway.metadata``).
"""
