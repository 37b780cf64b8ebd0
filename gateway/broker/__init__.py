"""The broker: requests of producers, consumers and tools, carried out on store, metadata and membership.

``service`` wires the parts, ``requests`` answers, ``registration`` tells name servers where we are,
``upkeep`` does what is due from time to time.
"""
