"""Settings of the property tests: no deadline (the first call compiles), the same examples in every run."""

from hypothesis import settings

settings.register_profile("gatewise", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("gatewise")
