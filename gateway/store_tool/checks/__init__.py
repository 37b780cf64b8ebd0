"""The checks of a store directory: each module compares one kind of file with the commit log.

Open ``verification`` first: it walks the log (``stretch_walk``) in several processes and collects the ``findings`` of
the other modules. Not here: what would mend a finding (``repair``).
"""
