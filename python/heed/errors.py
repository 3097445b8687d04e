"""The one exception of the package."""


class HeedError(Exception):
    """A file is missing, damaged or not heed's, or a program or package that a call needs is not there.

    The message is one line: what is wrong, where, and what to do.
    """
