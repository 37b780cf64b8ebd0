"""Tests of the pages about the client."""
