"""The repair of a damaged store directory, carried out so that nothing is lost.

Open ``repair_plan`` first (decides, changes nothing), then ``repair`` (keeps the old bytes and carries the plan out).
Not here: how damage is found (``checks``).
"""
