"""What the gateway tells about itself: log events and counts.

``logs`` writes one line per event, ``metrics`` keeps numbers by name. Nothing here decides anything,
nothing imports Twisted; the command line joins Twisted's own log to it.
"""
