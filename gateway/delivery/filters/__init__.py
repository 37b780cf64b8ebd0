"""The filters of subscriptions: by tag, or by an SQL92 expression over the properties of messages.

Every filter is compiled once from a subscription and afterwards only called. ``sql92*.py`` turn text into tokens, parts
and closures; ``java_numbers.py`` reads numbers as Java does. Open ``message_filter.py`` first.
"""
