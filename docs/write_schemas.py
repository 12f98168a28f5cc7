"""Write the JSON Schemas of the records, beside this file: `python docs/write_schemas.py`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec

from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import BaselinePart, Run

DIALECT = "https://json-schema.org/draft/2020-12/schema"

if __name__ == "__main__":
    for name, kind in {"result": Result, "run": Run, "baseline": BaselinePart}.items():
        schema = {**msgspec.json.schema(kind), "$schema": DIALECT}
        text = json.dumps(schema, indent=2, sort_keys=True) + "\n"
        Path(__file__).with_name(f"{name}.schema.json").write_text(text)
