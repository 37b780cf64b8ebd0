"""The content of a store directory: an overview of its files, and its messages as lines of JSON.

Open ``inspection`` first; ``dump`` reads messages. Not here: whether the files are right (``checks``).
"""
