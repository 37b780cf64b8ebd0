"""Messages that wait: delay levels, the topic they wait in and the service that lets them go.

What is waited for is computed purely; only ``delay_service`` reads and appends.
"""
