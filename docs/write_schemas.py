"""Write the JSON Schemas of the records, beside this file: `python docs/write_schemas.py`."""

from __future__ import annotations

from pathlib import Path

from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import BaselinePart, Run
from pytest_schedprof.store.records import json_schema

if __name__ == "__main__":
    kinds: dict[str, type[Result | Run | BaselinePart]] = {
        "result": Result,
        "run": Run,
        "baseline": BaselinePart,
    }
    for name, kind in kinds.items():
        Path(__file__).with_name(f"{name}.schema.json").write_text(json_schema(kind))
