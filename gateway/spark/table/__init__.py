"""The columns of the table, and records of the commit log as Arrow columns, many records at a time.

Open ``schema`` first, then ``columns``. Nothing here asks a broker.
"""
