"""Space on the disk: find files that are too old or too many, delete them, and refuse messages when the disk is full.

Open ``retention`` first: it decides without touching a file. ``deletion`` acts.
"""
