"""What building a wheel does beside copying files: C sources are compiled where that is possible.

Such a wheel fits this kind of machine only; one without it fits all. ``FUNDLAB_PURE=1`` makes one
without. ``FUNDLAB_PLATFORM=manylinux_2_17_x86_64`` names the machines that it fits, as a release
does: the C part has no ABI of Python's, so that one wheel serves each Python.
"""

import os
import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledSources(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
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
