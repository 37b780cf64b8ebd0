"""Histories in which a controller decides who is the master."""
