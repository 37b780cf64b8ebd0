"""Messages that wait: delay levels and timer messages, the topics they wait in, and the services that release them.

Which message is due is computed without I/O; the two services, ``delay_service.py`` and ``timer_service.py``, read and
append. Open ``delay_service.py`` first.
"""
