"""The message store: commit log, consume queues, key index and checkpoint in Apache RocketMQ's disk format.

A passive library: it starts no thread, has no timer and knows no reactor. Whoever uses it brings the clock, a way to
run something "soon" and a way to run something blocking in a thread. The commit log is the truth; everything else
can be rebuilt from it.

Start with ``message_store``, the face of the store. The rooms, from the disk upwards: ``disk`` (files, maps, locks),
``queues`` (consume queues), ``log`` (the commit log), ``index`` (queries by key), ``reading`` (a pull's way through
queue and log), ``durability`` (from appended to answered), ``recovery`` (opening), ``space`` (retention and deletion).
All file access goes through ``disk.files.FileLayer``.
"""
