"""`python -m compat_tests.soak`: see `compat_tests.soak.command`."""

import sys

from compat_tests.soak.command import main

sys.exit(main())
