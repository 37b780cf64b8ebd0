"""Tables as JSON files of the data directory: when a changed table is written, and how a file is replaced as a whole.

Open ``saved_table.py`` first, then ``json_file.py``. The content of the tables is in ``gateway.metadata``, not here.
"""
