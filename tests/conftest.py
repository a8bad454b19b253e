"""What all tests share: properties are checked on the same examples every time, however busy the machine is."""

from hypothesis import settings

settings.register_profile("electralab", deadline=None, derandomize=True)
settings.load_profile("electralab")
