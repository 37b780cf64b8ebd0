"""How stored messages reach consumers: held pulls, filters, the retry and dead-letter decisions.

What is asked for is decided in ``gateway.broker.requests``; what is stored lives in ``gateway.store``.
"""
