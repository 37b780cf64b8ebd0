"""Tests of the blocking faces, against a scripted broker on this machine."""
