"""The files of a store directory: where they lie, who has them open, how they are mapped and copied without a change.

Open ``directory`` first. Not here: what the files must contain (``checks``).
"""
