"""The opening of a store directory after an orderly stop, a kill, a power failure, or the service of another broker.

Open ``recovery`` first: its docstring lists the cases. Nothing here runs once the store is open.
"""
