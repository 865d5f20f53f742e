"""Compares our table of fal's video endpoints with the types of fal's client.

    check_fal.py TYPES ENDPOINTS.tsv

The types write the numbers in a list as text, so whether a length is text or a
number is not compared. Where a type is "number", its range is not compared either.
"""

import pathlib
import re
import sys

# Members that switch sound on or off, by the table's letters.
AUDIO = {"a": "generate_audio", "q": "generate_audio", "w": "generate_audio_switch", "v": "audio"}

# Where the table differs on purpose: endpoint, member, why.
EXCEPTIONS = {
    ("fal-ai/sora-2/image-to-video/pro", "resolution"): "1080p is 1024 lines, so the other word is used",
    ("fal-ai/sora-2/text-to-video/pro", "resolution"): "1080p is 1024 lines, so the other word is used",
    ("fal-ai/veo3.1/first-last-frame-to-video", "last_frame_url"): "is where orders with two frames go",
    ("fal-ai/veo3.1/fast/first-last-frame-to-video", "last_frame_url"): "is where orders with two frames go",
    ("fal-ai/veo3.1/lite/first-last-frame-to-video", "last_frame_url"): "is where orders with two frames go",
    ("fal-ai/vidu/q2/reference-to-video/pro", "aspect_ratio"): "is free text; the picture's shape will do",
}


def main(types, table):
    source = "\n".join(path.read_text() for path in pathlib.Path(types).glob("*.d.ts"))
    inputs = dict(re.findall(r'"([\w./-]+)":\s*\{\s*input:\s*(\w+)', source))
    compared, newer, faults, used = 0, [], 0, set()
    for line in pathlib.Path(table).read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        path, *columns = line.split("\t")
        if path not in inputs:
            newer.append(path)
            continue
        compared += 1
        for member, wrong in differences(columns, members(source, inputs[path])):
            if (path, member) in EXCEPTIONS:
                used.add((path, member))
            else:
                faults += 1
                print(f"{path}: {member}: {wrong}")
    for path, member in EXCEPTIONS.keys() - used:
        faults += 1
        print(f"{path}: {member}: this exception is not needed any more")
    print(f"newer than the types: {', '.join(newer) or 'none'}")
    print(f"{compared} endpoints compared, {faults} different")
    return 1 if faults or not compared else 0


def members(source, name):
    """A type's members, each with whether it is required and what it takes."""
    other = re.search(rf"export type {name} =\s*(\w+);", source)
    if other:
        return members(source, other[1])
    found = re.search(rf"export (?:type|interface) {name}(?: =)?(?: extends (\w+))?\s*\{{(.*?)\n\}}", source, re.S)
    if not found:
        raise SystemExit(f"the types have no {name}")
    own = re.sub(r"/\*.*?\*/", "", found[2], flags=re.S)
    inherited = members(source, found[1]) if found[1] else {}
    read = re.findall(r"\n\s+(\w+)(\??):\s*([^;]*);", own)
    return inherited | {name: (not optional, kind) for name, optional, kind in read}


def differences(columns, takes):
    picture, last, references, lengths, tiers, shapes, letters = columns
    files = {column.rstrip("!"): column.endswith("!") for column in (picture, last, references) if column != "-"}
    for name, needed in files.items():
        if name not in takes:
            yield name, "is no member"
        elif takes[name][0] and not needed:
            yield name, "is needed"
    yield from words("duration", numbers(lengths) if "/" in lengths else None, takes, lambda word: word.rstrip("s"))
    yield from words("resolution", None if tiers.startswith("=") else tiers.split(","), takes)
    yield from words("aspect_ratio", None if shapes == "-" else shapes.split(","), takes)
    for letter, name in (("n", "negative_prompt"), ("s", "seed")):
        if (letter in letters) != (name in takes):
            yield name, "is a member" if name in takes else "is no member"
    ours = {AUDIO[letter] for letter in letters if letter in AUDIO}
    theirs = ours ^ {name for name in takes if name in AUDIO.values()}
    for name in theirs:
        yield name, "is no member" if name in ours else "is a member"


def words(name, ours, takes, bare=str):
    """Compares the values that a member takes, except `auto`, which no caller asks for."""
    if ours is None or name not in takes:
        if (ours is None) != (name not in takes):
            yield name, "is a member" if ours is None else "is no member"
        return
    theirs = {bare(word) for word in re.findall(r'"([^"]*)"', takes[name][1])} - {"auto"}
    if theirs and theirs != set(ours):
        yield name, f"we say {sorted(ours)}, the types {sorted(theirs)}"


def numbers(lengths):
    text = lengths.partition("/")[0].rstrip("nts")
    first, _, last = text.partition("..")
    return [str(one) for one in range(int(first), int(last) + 1)] if last else text.split(",")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
