"""The files of a store directory: where they are, who has them open, and how they are read and copied without a change.

Open ``directory`` first. Not here: what the files must contain (``checks``).
"""
