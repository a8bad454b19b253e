"""What all tests share: properties are checked on the same examples every time, however busy the machine is."""

from hypothesis import settings

# Not a conftest of tests/flow: two modules of one name would hide each other from the type checker.
pytest_plugins = ["flow_fixtures"]

settings.register_profile("electralab", deadline=None, derandomize=True)
settings.load_profile("electralab")
