"""Requests of administration tools that are neither about one table nor needed by ordinary clients.

Loaded when the first of them comes. Topics, groups and the broker's own settings and figures are beside this package,
in ``gateway.broker.requests``. Upstream: ``AdminBrokerProcessor``, version 5.5.0.
"""
