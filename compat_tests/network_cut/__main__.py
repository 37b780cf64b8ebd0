"""`python -m compat_tests.network_cut`: see `compat_tests.network_cut.command`."""

import sys

from compat_tests.network_cut.command import main

sys.exit(main())
