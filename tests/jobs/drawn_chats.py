"""Conversations drawn from a seed, each in all forms in which tables keep it: as lists, or as the JSON texts of these.

A conversation comes of the seed and its own number alone; its first form is the one of lists.
"""
import copy
import json

from drawn_jobs import draw_of

WORDS = ("whale ship don't 你好 👋🏽 42 3.14 {'a': \"b\"} [1, 2] [{\"a\": 1}] \\n \n \t é `code` C:\\dir # NaN null True \u2028 [{'role' role:".split(" "))
TOOL = {"type": "function", "function": {"name": "look", "description": "looks at \"things\"", "parameters": {
    "type": "object", "properties": {"at": {"type": "string", "description": "a thing"}}, "required": ["at"]}}}
SPEAKERS = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


def says(draw):
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 8)))


def arguments(draw):
    values = (says, lambda draw: draw.randint(-5, 1 << 40), lambda draw: draw.choice([True, False, None, [], {}, 0.5, -1e-9]),
              lambda draw: [says(draw), {"deep": says(draw)}])
    return {key: draw.choice(values)(draw) for key in draw.sample(["at", "z", "é", "a b", "10"], draw.randint(0, 3))}


def turn(draw, has_calls):
    made = [{"role": "user", "content": says(draw)}]
    if has_calls and draw.random() < 0.7:
        calls = [{"id": f"call{number:05}", "type": "function", "function": {"name": "look", "arguments": arguments(draw)}}
                 for number in range(draw.randint(1, 2))]
        made.append({"role": "assistant", "content": draw.choice(["", says(draw)]), "tool_calls": calls})
        made += [{"role": "tool", "content": says(draw)} for _ in calls]
    made.append({"role": "assistant", "content": says(draw)} | ({"reasoning_content": says(draw)} if draw.random() < 0.3 else {}))
    return made


def in_parts(draw, message):
    """Some contents in two parts."""
    cut = draw.randint(0, len(message["content"]))
    parts = [{"type": "text", "text": text} for text in (message["content"][:cut], message["content"][cut:])]
    return message | {"content": parts} if draw.random() < 0.3 else message


def of_speaker(message):
    """A message as ShareGPT has it; the one call that it may have is a message of its own there."""
    calls = message.get("tool_calls")
    if calls:
        return {"from": "function_call", "value": json.dumps(calls[0]["function"])}
    return {"from": SPEAKERS[message["role"]], "value": message["content"]}


def row(draw):
    """(the keys that hold messages, the row)"""
    form = draw.choice(["messages", "messages", "conversations", "completion", "chosen", "whole", "behind"])
    messages = [{"role": "system", "content": says(draw)}] if draw.random() < 0.4 else []
    for _ in range(draw.randint(1, 3)):
        messages += turn(draw, has_calls=form != "behind")
    if form == "conversations":
        for message in messages:
            message.pop("reasoning_content", None)
            message["tool_calls"] = message.get("tool_calls", [])[:1]
        return {"conversations": [of_speaker(message) for message in messages]}
    messages = [in_parts(draw, message) for message in messages]
    tools = {"tools": [TOOL]} if any("tool_calls" in message for message in messages) else {}
    if form == "messages":
        return {"messages": messages, **tools}
    if form == "whole":
        return {"chosen": messages, "rejected": messages[:-1], **tools}
    if form == "behind":
        return {"messages": messages[:-1], "chosen": messages[-1:]}
    return {"prompt": messages[:-1], form: messages[-1:], **tools}


LISTS = ("messages", "conversations", "prompt", "completion", "chosen", "tools")


def messages_in(made):
    return [message for key in LISTS[:-1] for message in made.get(key, [])]


def with_text_arguments(draw, made):
    for message in messages_in(made):
        for call in message.get("tool_calls", []):
            call["function"]["arguments"] = json.dumps(call["function"]["arguments"], ensure_ascii=False)
        if message.get("from") == "function_call":
            function = json.loads(message["value"])
            message["value"] = json.dumps(function | {"arguments": json.dumps(function["arguments"], ensure_ascii=False)})


def as_text(draw, value):
    text = json.dumps(value, ensure_ascii=draw.random() < 0.5, indent=draw.choice([None, None, 2]), separators=draw.choice([None, (",", ":")]))
    return draw.choice(["", "", " \n"]) + text + draw.choice(["", "", "\n"])


def with_text_calls(draw, made):
    for message in messages_in(made):
        if "tool_calls" in message:
            message["tool_calls"] = as_text(draw, message["tool_calls"])


def with_text_parts(draw, made):
    for message in messages_in(made):
        if isinstance(message.get("content"), list):
            message["content"] = as_text(draw, message["content"])


def as_texts(draw, made):
    for key in LISTS:
        if key in made:
            made[key] = as_text(draw, made[key])


FORMS = ((), (as_texts,), (with_text_arguments,), (with_text_arguments, as_texts), (with_text_calls,), (with_text_parts,),
         (with_text_arguments, with_text_calls, with_text_parts, as_texts))


def forms_of(seed, number):
    """A conversation in each of FORMS."""
    draw = draw_of(seed, "chat", number)
    listed = row(draw)
    made = []
    for changes in FORMS:
        made.append(copy.deepcopy(listed))
        for change in changes:
            change(draw, made[-1])
    return made
