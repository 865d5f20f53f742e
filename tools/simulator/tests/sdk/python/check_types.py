"""Checks every body that our adapter sends for the models of a provider's list
against the types of the provider's SDK.

    check_types.py BODIES.json

The types say which members a model takes, which it needs, and the words of
those that have a fixed set. They do not bound numbers.
"""

import collections.abc
import json
import sys
import typing
from typing import Required

from runwayml import types
from runwayml._utils import PropertyInfo
from typing_extensions import get_type_hints, is_typeddict

# The type of the body, by path.
TYPES = {
    "/v1/text_to_video": types.TextToVideoCreateParams,
    "/v1/image_to_video": types.ImageToVideoCreateParams,
}


def main(path):
    bodies, faults = json.load(open(path)), {}
    models = {entry["body"]["model"] for entry in bodies}
    for entry in bodies:
        wrong = fault(entry["body"], TYPES[entry["path"]])
        if wrong:
            faults.setdefault(f"{entry['body']['model']} {entry['path']}: {wrong}", entry["body"])
    for wrong, body in faults.items():
        print(f"{wrong}\n    {json.dumps(body)[:300]}")
    for model in sorted(sold() - models):
        print(f"not in the list: {model}")
    unknown = models - sold()
    for model in sorted(unknown):
        print(f"unknown to the SDK: {model}")
    print(f"{len(bodies)} bodies of {len(models)} models, {len(faults)} wrong")
    return 1 if faults or unknown or not bodies else 0


def sold():
    """The models that the SDK's types name."""
    shapes = [shape for union in TYPES.values() for shape in typing.get_args(union)]
    return {name for shape in shapes for name in typing.get_args(bare(hints(shape)["model"])[0])}


def fault(value, shape):
    """What is wrong with a value, or None."""
    shape, _ = bare(shape)
    origin = typing.get_origin(shape)
    if origin is typing.Union:
        return of_union(value, typing.get_args(shape))
    if origin is typing.Literal:
        words = typing.get_args(shape)
        return None if value in words else f"{value!r} is none of {', '.join(map(repr, words))}"
    if is_typeddict(shape):
        return of_object(value, shape)
    if origin in (list, collections.abc.Iterable):
        if not isinstance(value, list):
            return f"{value!r} is no list"
        return next(
            (
                f"[{place}]: {wrong}"
                for place, one in enumerate(value)
                if (wrong := fault(one, typing.get_args(shape)[0]))
            ),
            None,
        )
    kinds = {float: (int, float)}.get(shape, shape)
    return (
        None
        if isinstance(value, kinds) and (shape is bool or not isinstance(value, bool))
        else f"{value!r} is no {shape}"
    )


def of_union(value, shapes):
    wrong = []
    for shape in shapes:
        found = fault(value, shape)
        if not found:
            return None
        # Of the models' shapes, only the fault in this model's own shape is reported.
        own = is_typeddict(shape) and isinstance(value, dict) and "model" in hints(shape)
        if not own or not fault(value.get("model"), hints(shape)["model"]):
            wrong.append(found)
    return "; or ".join(wrong) or "there is no such model"


def of_object(value, shape):
    if not isinstance(value, dict):
        return f"{value!r} is no object"
    members = {bare(kind)[1] or name: kind for name, kind in hints(shape).items()}
    for name in value:
        if name not in members:
            return f"{name}: is no member"
    for name, kind in members.items():
        if name not in value:
            if is_needed(kind):
                return f"{name}: is missing"
        elif wrong := fault(value[name], kind):
            return f"{name}: {wrong}"
    return None


def hints(shape):
    return get_type_hints(shape, include_extras=True)


def is_needed(kind):
    """Whether the SDK's type marks a member as required."""
    return typing.get_origin(kind) is Required


def bare(shape):
    """A type without its annotations, and its name on the wire, if they give one."""
    name = None
    while hasattr(shape, "__metadata__") or typing.get_origin(shape) is Required:
        for said in getattr(shape, "__metadata__", ()):
            name = said.alias if isinstance(said, PropertyInfo) else name
        shape = shape.__origin__ if hasattr(shape, "__metadata__") else typing.get_args(shape)[0]
    return shape, name


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
