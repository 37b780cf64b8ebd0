"""Tests of the wire package; one file per source file."""
