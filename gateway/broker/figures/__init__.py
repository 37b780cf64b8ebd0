"""What a broker counts: messages in and out, by topic and group, by second; and the page where monitors read it.

Counters of single parts stay with the parts. Begin with ``traffic``.
"""
