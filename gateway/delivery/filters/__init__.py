"""Which messages a subscription lets through, by tag.

Every filter is compiled once from a subscription and then only called.
"""
