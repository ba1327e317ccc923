"""The entry point of every child: `python -m edgetool.child MODULE WORKDIR`.

The process is confined before the module is imported, because threads that libraries start on import could no longer be
confined.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from edgetool.child.serving import prepare

if __name__ == "__main__":
    module, workdir = sys.argv[1:]
    prepare(Path(workdir))
    sys.argv[1:] = [workdir]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
