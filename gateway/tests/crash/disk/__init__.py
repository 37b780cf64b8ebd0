"""A disk in memory that logs every change, and what a crash may leave of it."""
