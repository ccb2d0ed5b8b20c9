"""What all suites share."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("skep", deadline=None, print_blob=True)
settings.load_profile("skep")
