"""The message store: commit log, consume queues, key index and checkpoint in Apache RocketMQ's disk format.

A passive library: it starts no thread, has no timer and knows no reactor. Whoever uses it brings the clock, a way to
run something "soon" and a way to run something blocking in a thread. The commit log is the truth; everything else
can be rebuilt from it. Start with ``message_store``; all file access goes through ``files.FileLayer``.
"""
