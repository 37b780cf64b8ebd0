"""Files, names and the lock of a store directory, through which every other room reads and writes.

Open ``files`` first: all access to a disk goes through its ``FileLayer``, so that tests can fail or record each step.
The meaning of a file's bytes does not belong here.
"""
