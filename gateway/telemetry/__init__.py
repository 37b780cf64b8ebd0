"""Reports of the gateway about itself: log events and counts.

``logs`` writes one line per event, and ``metrics`` keeps numbers by name. Nothing here decides anything, and nothing
imports Twisted; the command line adds Twisted's own log to these events.
"""
