"""What building a wheel does beside copying files: the decoder is compiled where that is possible.

Such a wheel fits this kind of machine only; one without it fits all.
"""

import runpy
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledDecoder(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002
        made = runpy.run_path(str(Path(self.root) / "fundlab/tables/compile.py"))
        if made["compile_decoder"]():
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["artifacts"].append("fundlab/tables/libplain_pages.so")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"
