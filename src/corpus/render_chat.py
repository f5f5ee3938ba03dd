"""Lays conversations out by a model's chat template; `sluice tokenize` starts it and speaks JSON lines with it.

First line in: {"template": text, "tokens": {"bos_token": text, ...}}; out: {} or an error.
Then for each {"messages": [...], "tools": [...] or null, "wants_spans": bool, "is_prompt": bool}: {"text": text, "spans": [[begin, end, message], ...]}, the bytes of text
that each assistant message is answerable for. An error is {"error": text, "line": line of the template or 0}.

The environment is the one that transformers gives to templates, which are untrusted: sandboxed, with its filters, functions
and the tag `generation`.
"""
import datetime
import json
import resource
import sys

import jinja2
import jinja2.ext
import jinja2.sandbox

REASONING = ("reasoning_content", "thinking", "reasoning")
MEMORY_BYTES = 4 << 30


class Generation(jinja2.ext.Extension):
    """{% generation %}...{% endgeneration %} marks what an assistant says: here by characters that no text has."""
    tags = {"generation"}
    begin, end = "\ue0f0\udbff", "\ue0f1\udbff"

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("mark"), [], [], body).set_lineno(line)

    def mark(self, caller):
        return self.begin + caller() + self.end


class Mapping:
    """The function `dict`, and nothing else of the class."""

    def __call__(self, *args, **kwargs):
        return dict(*args, **kwargs)

    def fromkeys(self, *args, **kwargs):
        return dict.fromkeys(*args, **kwargs)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = to_json
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = lambda pattern: datetime.datetime.now().strftime(pattern)
    made.globals["dict"] = Mapping()
    return made


def with_reasoning_names(message):
    """Reasoning under all the names that templates read."""
    reasoning = next((message[key] for key in REASONING if message.get(key) is not None), None)
    return message if reasoning is None else {"thinking": reasoning, **message, "reasoning_content": reasoning}


def cut_marks(text):
    """The text without marks, and what lay between them as [begin, end) in bytes."""
    parts, spans, size, begin = [], [], 0, None
    while True:
        places = [place for place in (text.find(Generation.begin), text.find(Generation.end)) if place >= 0]
        place = min(places, default=len(text))
        parts.append(text[:place])
        size += len(text[:place].encode())
        if not places:
            return "".join(parts), spans
        if text.startswith(Generation.begin, place):
            begin = size
        else:
            spans.append([begin, size])
        text = text[place + len(Generation.begin):]


class Layout:
    def __init__(self, settings):
        self.template = environment().from_string(settings["template"])
        self.tokens = settings["tokens"]

    def render(self, messages, tools, prompt=False):
        return self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, **self.tokens)

    def lay_out(self, conversation):
        messages = [with_reasoning_names(message) for message in conversation["messages"]]
        tools = conversation["tools"]
        text, marked = cut_marks(self.render(messages, tools, conversation["is_prompt"]))
        if not conversation["wants_spans"]:
            return {"text": text, "spans": []}
        answers = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        if not marked:
            return {"text": text, "spans": [self.span(text, messages, tools, index) for index in answers]}
        if len(marked) != len(answers):  # which message each is of is not known
            return {"text": text, "spans": [[*span, -1] for span in marked]}
        return {"text": text, "spans": [[*span, index] for span, index in zip(marked, answers)]}

    def span(self, text, messages, tools, index):
        """What a message adds behind the prompt for it. For templates that do not mark it."""
        prompt = self.render(messages[:index], tools, prompt=True)
        through = self.render(messages[:index + 1], tools)
        if not (through.startswith(prompt) and text.startswith(through)):
            raise ValueError(f"the template has no {{% generation %}} tags, and lays message {index + 1} out in another way when others "
                             "follow or when it is asked for, so what the assistant says cannot be told apart; use the model's training template")
        return [len(prompt.encode()), len(through.encode()), index]


def line_of(error):
    """The line of the template at which it failed, or 0."""
    if getattr(error, "lineno", None):
        return error.lineno
    trace, line = error.__traceback__, 0
    while trace:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def answer(make):
    try:
        reply = json.dumps(make())
    except RecursionError:
        reply = json.dumps({"error": "the template calls itself without end", "line": 0})
    except Exception as error:  # whatever a template does
        reply = json.dumps({"error": f"{type(error).__name__}: {error}"[:500], "line": line_of(error)})
    sys.stdout.write(reply + "\n")
    sys.stdout.flush()


def main():
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    layout = None

    def start(settings):
        nonlocal layout
        layout = Layout(settings)
        return {}

    for line in sys.stdin:
        request = json.loads(line)
        answer(lambda: start(request) if layout is None else layout.lay_out(request))


main()
