"""`python -m compat_tests.python_client_soak`: see `compat_tests.python_client_soak.command`."""

import sys

from compat_tests.python_client_soak.command import main

sys.exit(main())
