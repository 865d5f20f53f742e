"""Places orders at a gateway with the OpenAI SDK, which repeats failed requests by itself.

Reads {"base_url", "api_key", "orders": [{"kind", "body"}]} and writes a list of
{"status", "code", "task", "should_retry", "retry_after"}, the last answer to each order.
"""

import concurrent.futures
import json
import random
import sys

import openai


def main():
    request = json.load(sys.stdin)
    client = openai.OpenAI(base_url=request["base_url"], api_key=request["api_key"], max_retries=4)
    with concurrent.futures.ThreadPoolExecutor(max_workers=8) as pool:
        answers = list(pool.map(lambda order: place_order(client, order), request["orders"]))
    json.dump(answers, sys.stdout)


def place_order(client, order):
    # A short timeout makes the SDK repeat some orders.
    client = client.with_options(timeout=random.choice([0.7, 4.0, 4.0]))
    try:
        return {"status": 200, "code": None, "task": KINDS[order["kind"]](client, order["body"])}
    except openai.APIStatusError as error:
        body = error.body if isinstance(error.body, dict) else {}
        headers = error.response.headers
        return {
            "status": error.status_code,
            "code": body.get("code"),
            "task": headers.get("x-task-id"),
            "should_retry": headers.get("x-should-retry") == "true",
            "retry_after": headers.get("retry-after"),
        }
    except openai.APIError as error:
        # A stream that broke, or an unreachable gateway after the last attempt.
        return {"status": None, "code": getattr(error, "code", None), "task": None}
    except Exception as error:  # a connection that broke while the answer was read
        if type(error).__module__.split(".")[0] not in ("httpx", "httpcore", "httpx2", "httpcore2"):
            raise
        return {"status": None, "code": None, "task": None}


def chat(client, body):
    answer = client.chat.completions.with_raw_response.create(
        model=body["model"], messages=body["messages"], extra_body={"video": body["video"]}
    )
    return answer.headers.get("x-task-id")


def stream(client, body):
    task = None
    chunks = client.chat.completions.create(
        model=body["model"], messages=body["messages"], stream=True, extra_body={"video": body["video"]}
    )
    for chunk in chunks:
        task = chunk.id.removeprefix("chatcmpl-")
    return task


def videos(client, body):
    fields = {name: body[name] for name in ("model", "prompt", "size") if body.get(name)}
    if body.get("seconds"):
        fields["seconds"] = str(body["seconds"])
    answer = client.videos.with_raw_response.create(**fields)
    return answer.headers.get("x-task-id")


KINDS = {"Chat": chat, "Stream": stream, "Videos": videos}

if __name__ == "__main__":
    main()
