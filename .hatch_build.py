"""What building a wheel does beside copying files: C sources are compiled where that is possible.

Such a wheel fits this kind of machine only; one without it fits all.
"""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledSources(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        made = runpy.run_path(str(Path(self.root) / "fundlab/base/compiled.py"))
        for source in made["SOURCES"]:
            library = made["library_of"](source)
            if made["compile_source"](source, library):
                platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
                build_data["artifacts"].append(str(library.relative_to(self.root)))
                build_data["pure_python"] = False
                build_data["tag"] = f"py3-none-{platform}"
