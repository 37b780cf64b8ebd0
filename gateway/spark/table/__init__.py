"""The columns of the table, and records of the commit log as Arrow columns, many records at a time.

Open ``schema`` first, then ``columns``. No code here asks a broker.
"""
