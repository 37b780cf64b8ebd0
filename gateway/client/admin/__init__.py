"""Questions and orders of operators: topics, groups, offsets, messages, clusters.

Read ``admin.py`` first: it names the parts by subject.
"""
