"""Reads lines of JSON, {schema or null, text}, and says which texts are no JSON, or not valid by their schema: "bad LINE why"."""
import json
import sys

from jsonschema import Draft202012Validator, FormatChecker

checked = 0
for number, line in enumerate(sys.stdin, 1):
    case = json.loads(line)
    try:
        value = json.loads(case["text"])
        if case.get("schema") is not None:
            Draft202012Validator(json.loads(case["schema"]), format_checker=FormatChecker()).validate(value)
        elif not isinstance(value, dict):
            raise ValueError("no object")
        checked += 1
    except Exception as error:  # whatever it is, the text is at fault
        print("bad", number, repr(error).split("\n")[0][:300])
print("checked", checked)
