"""Tests of the requests that the Spark source sends, against pretended servers."""
