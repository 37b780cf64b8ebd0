"""What a store directory contains: an overview of its files, and its messages as lines of JSON.

Open ``inspection`` first, for messages ``dump``. Not here: whether the files are right (``checks``).
"""
