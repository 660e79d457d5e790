"""What building a wheel does beside copying files: C sources are compiled where that is possible.

Such a wheel fits this kind of machine only; one without it fits all. ``FUNDLAB_PURE=1`` makes one
without. ``FUNDLAB_PLATFORM=manylinux_2_17_x86_64`` names the machines that it fits, as a release
does: the C part has no ABI of Python's, so that one wheel serves each Python.

``FUNDLAB_DOCS=1``, as a release sets it, puts the documentation into the wheel, so that ``fundlab
docs`` needs nothing else; to build it takes what fundlab itself needs and the extra ``docs``.
"""

import os
import runpy
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SITE = """
import sys
from pathlib import Path
from fundlab.cli import root_command
from fundlab.docs import build
build(root_command(), Path(sys.argv[1]))
"""


class CompiledSources(BuildHookInterface[Any]):
    def dependencies(self) -> list[str]:
        """Of the build itself."""
        if os.environ.get("FUNDLAB_DOCS") != "1":
            return []
        core = self.metadata.core
        extras = core.optional_dependencies
        return [*core.dependencies, *extras["docs"], *extras["sandbox"]]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        if os.environ.get("FUNDLAB_DOCS") == "1":
            folder = Path(tempfile.mkdtemp()) / "site"
            subprocess.run(  # noqa: S603 - this Python
                [sys.executable, "-c", SITE, str(folder)],
                cwd=self.root, env=os.environ | {"PYTHONPATH": self.root}, check=True,
            )  # fmt: skip
            build_data["force_include"][str(folder)] = "fundlab/docs/site"
        named = os.environ.get("FUNDLAB_PLATFORM")
        if os.environ.get("FUNDLAB_PURE") == "1":
            return
        made = runpy.run_path(str(Path(self.root) / "fundlab/base/compiled.py"))
        libraries = [
            made["library_of"](source)
            for source in made["SOURCES"]
            if made["compile_source"](source, made["library_of"](source))
        ]
        if not libraries:
            if named:
                raise RuntimeError(f"nothing was compiled, so this is no wheel for {named}: set CC")
            return
        platform = named or sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["artifacts"] += [str(path.relative_to(self.root)) for path in libraries]
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{platform}"
