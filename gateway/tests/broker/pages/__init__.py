"""Tests of the pages over HTTP."""
