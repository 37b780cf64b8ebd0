"""Tests of what becomes of a message that is stored again."""
