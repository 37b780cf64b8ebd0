"""Files, memory maps, names and the lock of a store directory: what every other room reads and writes through.

Open ``files`` first: all access to a disk goes through its ``FileLayer``, so that tests can fail or record each step.
What the bytes of a file mean does not belong here.
"""
