"""Write the JSON Schemas of the records, beside this file: `python docs/write_schemas.py`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from pytest_schedprof.model.result import Result
from pytest_schedprof.model.run import BaselinePart, Run

DIALECT = "https://json-schema.org/draft/2020-12/schema"

RECORDS = {"result": Result, "run": Run, "baseline": BaselinePart}


def schema_of(kind: type) -> dict[str, Any]:
    """Return the schema of a record, the same with each release of msgspec.

    From 0.23 on it also writes that mappings are empty by default.
    """
    text = json.dumps({**msgspec.json.schema(kind), "$schema": DIALECT})

    def without_empty_default(part: dict[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in part.items() if (name, value) != ("default", {})}

    schema: dict[str, Any] = json.loads(text, object_hook=without_empty_default)
    return schema


if __name__ == "__main__":
    for name, kind in RECORDS.items():
        text = json.dumps(schema_of(kind), indent=2, sort_keys=True) + "\n"
        Path(__file__).with_name(f"{name}.schema.json").write_text(text)
