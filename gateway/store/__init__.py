"""The message store: commit log, consume queues, key index and checkpoint in Apache RocketMQ's disk format.

The store is a passive library: it starts no thread, has no timer and knows no reactor. The program around the store
brings the clock, a way
to run a function "soon", and a way to run a blocking function in a thread. The commit log is the truth; everything else
can be rebuilt from the log.

Start with ``message_store``, the face of the store. The rooms, from the disk upwards: ``disk`` (files, names, locks),
``queues`` (consume queues), ``log`` (the commit log), ``index`` (queries by key), ``reading`` (a pull's way through
queue and log), ``durability`` (from appended to answered), ``recovery`` (opening), ``space`` (retention and deletion).
All file access goes through ``disk.files.FileLayer``.
"""
