"""Room on the disk: which files are too old or too many, deleting them, and refusing messages when the disk is full.

Open ``retention`` first: it decides without touching a file. ``deletion`` acts.
"""
