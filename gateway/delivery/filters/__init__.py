"""Which messages a subscription lets through: by tag, or by an SQL92 expression over their properties.

Every filter is compiled once from a subscription and then only called. ``sql92*.py`` goes from text to tokens, parts
and closures; ``java_numbers.py`` reads numbers as Java does.
"""
