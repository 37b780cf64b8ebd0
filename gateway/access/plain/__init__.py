"""Accounts of ACL 1.0: the files ``plain_acl.yml`` and ``acl/*.yml``, their judgement, and requests that change them.

Open ``accounts.py`` first, then ``document.py`` and ``files.py``. Nothing here is imported unless ``aclEnable`` is on:
``parsing.py`` is the only module that needs a YAML library.
"""
