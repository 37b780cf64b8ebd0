"""The broker: it carries out the requests of producers, consumers and tools on store, metadata and membership.

``service`` says when everything starts and stops, and ``parts`` makes every part of a broker. ``requests`` has the
classes that answer requests: ``request_loader`` finds each class and makes it from the ``desk``. ``announcing``
registers the broker with name servers, ``upkeep`` runs periodic work, and ``figures`` counts.
"""
