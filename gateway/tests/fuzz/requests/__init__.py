"""Requests as the fuzzer makes them, well and badly."""
