"""One wheel for all Pythons: the library that it carries knows nothing of Python, but is of one machine."""
from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel


class OfAMachine(Distribution):
    def has_ext_modules(self):
        return True


class OfAllPythons(bdist_wheel):
    def get_tag(self):
        return "py3", "none", super().get_tag()[2]


setup(distclass=OfAMachine, cmdclass={"bdist_wheel": OfAllPythons})
