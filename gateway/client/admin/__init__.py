"""The requests of operators: topics, groups, offsets, messages, clusters.

Read ``admin.py`` first, which names the parts by subject.
"""
