"""Measurements: the same load against Apache RocketMQ 5.5.0 and against the gateway, and of single parts.

`python -m benchmarks` compares the two brokers from a stock Java client's view. One file per question; a
claim about speed in this repository names the benchmark behind it.
"""
