"""Tests of traces and spans of what is sent and consumed."""
