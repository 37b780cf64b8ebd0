"""Tests of the headers; one file for each file that does more than declare."""
