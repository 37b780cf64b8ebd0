"""`python -m compat_tests.transactions_load`: see `compat_tests.transactions_load.command`."""

import sys

from compat_tests.transactions_load.command import main

sys.exit(main())
