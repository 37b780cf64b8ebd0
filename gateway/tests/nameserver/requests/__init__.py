"""Tests of what a name server is asked, over a memory transport."""
