"""The counts of a broker: messages in and out, by topic and group, by second; and the page where monitors read them.

Counters of single parts stay with the parts. Open ``throughput`` first.
"""
