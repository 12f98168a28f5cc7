"""Write the JSON Schemas of the records beside this file: `python docs/write_schemas.py`."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.model.result import BaselinePart, Result, Run
from pytest_schedprof.storage.records import json_schema

if __name__ == "__main__":
    for kind, name in ((Result, "result"), (Run, "run"), (BaselinePart, "baseline")):
        path = Path(__file__).with_name(f"{name}.schema.json")
        path.write_text(json_schema(kind))
