"""The list of packages, which setup.cfg cannot express: all of toolchain/, and targets/ as edgetool.targets."""

from setuptools import find_packages, setup

setup(packages=[*find_packages("toolchain"), "edgetool.targets"])
