"""What would mend a damaged store directory, and how it is done so that nothing is lost.

Open ``repair_plan`` first (decides, changes nothing), then ``repair`` (keeps the old bytes and carries the plan out).
Not here: how damage is found (``checks``).
"""
