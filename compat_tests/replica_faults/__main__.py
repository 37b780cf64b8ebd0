"""`python -m compat_tests.replica_faults`: see `compat_tests.replica_faults.command`."""

import sys

from compat_tests.replica_faults.command import main

sys.exit(main())
