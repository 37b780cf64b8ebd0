"""The broker: requests of producers, consumers and tools, carried out on store, metadata and membership.

``service`` says when everything starts and stops, ``parts`` what a broker is made of, and ``requests`` answers: each
class there is found by ``request_loader`` and made of the ``desk``. ``announcing`` tells name servers where we are,
``upkeep`` does what is due from time to time, ``figures`` counts.
"""
