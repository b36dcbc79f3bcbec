"""Runs some of Python's own tests and prints one line for each: its name and how it ended.

`outcomes.py MODULE [PATTERN]...`, say `outcomes.py test.test_os`. Tests that need a resource
(network, large files, much CPU) are left out, as Python's own runner leaves them out.
"""

import os
import sys
import unittest

from test import support

SKIPS = os.environ.get("OUTCOMES_SKIP", "").split()


class Outcomes(unittest.TestResult):
    """Writes a line for each test as soon as it has ended."""

    def say(self, test, how: str, more: str = "") -> None:
        os.write(1, f"{test.id()} {how}\n".encode())
        if more and os.environ.get("OUTCOMES_WHY"):
            os.write(2, f"{test.id()}\n{more}\n".encode())

    def addSuccess(self, test):
        self.say(test, "ok")

    def addFailure(self, test, error):
        self.say(test, "FAILED", self._exc_info_to_string(error, test))

    def addError(self, test, error):
        self.say(test, "ERROR", self._exc_info_to_string(error, test))

    def addSkip(self, test, reason):
        self.say(test, "left out")

    def addSubTest(self, test, part, error):
        if error:
            self.say(part, "PART FAILED", self._exc_info_to_string(error, test))


def main() -> None:
    support.use_resources = {}
    module, patterns = sys.argv[1], sys.argv[2:]
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*" for pattern in patterns] or None
    suite = loader.loadTestsFromName(module)
    suite.run(Outcomes())


main()
