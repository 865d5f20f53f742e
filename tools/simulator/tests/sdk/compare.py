"""Compares what official SDKs send with what our adapters send for the same input.

    compare.py OURS.json SDK.json…

Not compared, because they carry no meaning: members that are null, the
simulator's address, boundaries and file names of multipart bodies, the order of
query members, the number of polls, user agents, accepted types, and identifiers
for tracing. Every other difference has to be in the tables below, with its
reason, and every line there has to be needed.
"""

import itertools
import json
import re
import sys

# What only the SDK sends: SDK, where (a regular expression that matches "METHOD
# path member"), why.
SDK_ONLY = [
    ("fal_client", r"GET .*/status query/logs", "sends the default: no logs"),
    ("fal_client", r"POST .*/initiate query/storage_type", "chooses among fal's storages; the default will do"),
    ("fal_client", r"PUT /storage/put/.* headers/authorization", "sends the key to a signed URL, which needs none"),
    ("@fal-ai/client", r"GET .*/status query/logs", "sends the default: no logs"),
    ("@fal-ai/client", r"POST .*/initiate query/storage_type", "chooses among fal's storages; the default will do"),
    ("@fal-ai/client", r"POST /fal-ai/.* headers/x-fal-queue-priority", "sends the default: normal"),
    ("replicate", r"POST /v1/files body/metadata", "JavaScript only: sends a part for metadata that nobody gave"),
    ("dashscope", r"POST /services/.* body/input/extend_prompt", "is undocumented, and true by default"),
    ("dashscope", r"POST /services/.* body/input/function", "is undocumented, and repeats the path"),
    ("byteplus-python-sdk-v2", r"DELETE .* (headers/content-type|body)", "sends an empty object with a deletion"),
]

# What only we send, likewise.
OURS_ONLY = [
    ("musicai_sdk", r"PUT /bucket/.* headers/content-type", "uploads files without a media type"),
]

# Whole requests that only one side makes: SDK, "METHOD path", why.
REQUESTS = [
    ("google-genai", r"POST /token", "is given a token, so it fetches none"),
    (
        "musicai_sdk",
        r"GET /job/[^/]+/status",
        "polls only the status until the job ends, then the job; we always poll the job",
    ),
]

IGNORED_HEADERS = re.compile(
    r"host|connection|content-length|transfer-encoding|user-agent|accept(-.*)?|sec-fetch-mode"
    r"|x-stainless-.*|x-fern-.*|x-dashscope-sdk-.*|x-goog-api-client|x-client-request-id|x-request-id|traceparent|tracestate"
)

MISSING = object()


def main(ours, *sdks):
    ours = json.load(open(ours))
    used, faults, compared = set(), 0, 0
    for entry in itertools.chain(*(json.load(open(path)) for path in sdks)):
        sdk, case = entry["sdk"], entry["case"]
        name = f"{sdk} {entry['version']}, {case}"
        if case not in ours:
            faults += report(name, ["our adapter has no such case"])
            continue
        compared += 1
        theirs = requests(sdk, entry["journal"], used)
        own = requests(sdk, ours[case], used)
        faults += report(name, differences(sdk, own, theirs, used))
    for table in (SDK_ONLY, OURS_ONLY, REQUESTS):
        for line in table:
            if line not in used:
                faults += report(f"{line[0]}, {line[1]}", ["this exception is not needed any more"])
    print(f"{compared} compared, {faults} different")
    return 1 if faults or not compared else 0


def report(name, found):
    print(f"{name} ... {'DIFFERENT' if found else 'ok'}")
    for line in found:
        print(f"    {line}")
    return 1 if found else 0


# --- What is compared ---------------------------------------------------------


def requests(sdk, journal, used):
    """The requests of a journal, prepared for comparison. Repetitions in a row
    count once."""
    found = []
    for entry in journal:
        request = {
            "method": entry["method"],
            "path": entry["path"].partition("?")[0],
            "query": query(entry["path"].partition("?")[2]),
            "headers": headers(entry),
            "body": MISSING if entry["body"] is None else body(entry["body"]),
        }
        line = exception(REQUESTS, sdk, f"{request['method']} {request['path']}")
        if line:
            used.add(line)
        elif not found or found[-1] != request:
            found.append(request)
    return found


def query(text):
    members = dict(pair.partition("=")[::2] for pair in text.split("&") if pair)
    # The simulator's signatures are counters, so numbers in queries are not compared.
    return {name: "NUMBER" if value.isdigit() else value for name, value in sorted(members.items())}


def headers(entry):
    kept = {}
    for name, value in entry["headers"].items():
        if IGNORED_HEADERS.fullmatch(name):
            continue
        if name == "content-type":
            if entry["body"] is None:
                continue
            value = value.partition(";")[0]
        kept[name] = value
    return kept


def body(value):
    if isinstance(value, dict):
        if set(value) == {"file_name", "mime", "bytes"}:
            value = {"mime": value["mime"], "bytes": value["bytes"]}
        return {name: body(member) for name, member in value.items() if member is not None}
    if isinstance(value, list):
        return [body(member) for member in value]
    return value


# --- Comparing ----------------------------------------------------------------


def exception(table, sdk, where):
    return next((line for line in table if line[0] == sdk and re.fullmatch(line[1], where)), None)


def differences(sdk, ours, theirs, used):
    if [(one["method"], one["path"]) for one in ours] != [(one["method"], one["path"]) for one in theirs]:
        return [
            f"{who}: {' │ '.join(one['method'] + ' ' + one['path'] for one in all)}"
            for who, all in (("we ", ours), ("SDK", theirs))
        ]
    found = []
    for own, their in zip(ours, theirs):
        request = f"{own['method']} {own['path']}"
        for part in ("query", "headers", "body"):
            for path, left, right in unequal(own[part], their[part], part):
                table = OURS_ONLY if right is MISSING else SDK_ONLY if left is MISSING else []
                line = exception(table, sdk, f"{request} {path}")
                if line:
                    used.add(line)
                else:
                    found.append(f"{request}, {path}: we {show(left)}, SDK {show(right)}")
    return found


def unequal(left, right, path):
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from unequal(left.get(name, MISSING), right.get(name, MISSING), f"{path}/{name}")
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for index, pair in enumerate(zip(left, right)):
            yield from unequal(*pair, f"{path}/{index}")
    elif left != right or type(left) is not type(right):
        yield path, left, right


def show(value):
    if value is MISSING:
        return "send nothing"
    text = json.dumps(value)
    return text if len(text) < 120 else f"{text[:120]}…"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
