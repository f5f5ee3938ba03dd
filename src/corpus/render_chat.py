"""Lays conversations out by a model's chat template; `sluice tokenize` starts it and speaks JSON lines with it.

First line in: {"template": text, "tokens": {"bos_token": text, ...}}; out: {} or an error.
Then for each {"messages": [...], "tools": [...] or null, "wants": "text", "prompt", "spans", "spans that can be found" or "turn"}: {"text": text, "spans": [[begin, end, message], ...]},
the bytes of text that each assistant message is answerable for; for "turn" the text that would lie between the last message and a user's next one.
An error is {"error": text, "line": line of the template or 0}.

The environment is the one that transformers gives to templates, which are untrusted: sandboxed, with its filters, functions
and the tag `generation`.
"""
import datetime
import functools
import itertools
import json
import os
import re
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


def functions_in(messages):
    """The functions that messages call, each an object that may have "arguments"."""
    for message in messages:
        calls = message.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            function = call.get("function", call) if isinstance(call, dict) else None
            if isinstance(function, dict):
                yield function


def object_of(arguments):
    """Arguments of a call as an object, which they are or are the JSON text of; None if they are neither."""
    try:
        made = json.loads(arguments, parse_constant=lambda name: None) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return None
    return made if isinstance(made, dict) else None


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


def says(message, text, keeps=()):
    """The message saying `text` alone, in the form of its content, with what it has at the keys `keeps`; reasoning says `text`, too."""
    parts = isinstance(message.get("content"), list)
    made = {key: value for key, value in message.items() if key not in ("tool_calls", *REASONING) or key in keeps}
    made.update({key: text for key in REASONING if key in made})
    made["content"] = [{"type": "text", "text": text}] if parts else text
    return made


def within_tags(content, word):
    """The content with a word before the tags that it ends with: some templates look at the tags around it."""
    tags = re.search(r"(<[^<>]*>\s*)*$", content[-200:])[0] if isinstance(content, str) else ""
    return content[:len(content) - len(tags)] + word + tags if tags else word


def is_whole_markup(text, size):
    """Whether text[:size] ends within no tag and no word."""
    splits_word = 0 < size < len(text) and text[size - 1].isalnum() and text[size].isalnum()
    return size == len(text) or not (splits_word or re.search(r"[<\[][^<>\[\]]*$", text[max(0, size - 100):size]))


class Layout:
    def __init__(self, settings):
        self.template = environment().from_string(settings["template"])
        self.tokens = settings["tokens"]
        self.calls = CallForm(self)

    def render(self, messages, tools, prompt=False):
        return self.template.render(messages=messages, tools=tools, documents=None, add_generation_prompt=prompt, **self.tokens)

    def lay_out(self, conversation):
        messages = [with_reasoning_names(message) for message in conversation["messages"]]
        self.calls.fit(messages)
        tools, wants = conversation["tools"], conversation["wants"]
        text, marked = cut_marks(self.render(messages, tools, wants == "prompt"))
        if wants == "turn":
            return {"text": SpanFinder(self, text, messages, tools).turn(), "spans": []}
        if wants in ("text", "prompt"):
            return {"text": text, "spans": []}
        answers = [index for index, message in enumerate(messages) if message.get("role") == "assistant"]
        if not marked:
            finder = SpanFinder(self, text, messages, tools)
            found = [finder.span(index) for index in answers]
            if wants == "spans" and None in found:
                finder.refuse(answers[found.index(None)])
            return {"text": text, "spans": [span for span in found if span]}
        if len(marked) != len(answers):  # which message each is of is not known
            return {"text": text, "spans": [[*span, -1] for span in marked]}
        return {"text": text, "spans": [[*span, index] for span, index in zip(marked, answers)]}


class CallForm:
    """The form in which a template wants the arguments of calls: an object, or its JSON text."""

    ARGUMENTS = {"sluicekey": "sluicevalue"}
    TOOL = {"type": "function", "function": {"name": "sluicename", "description": "", "parameters": {
        "type": "object", "properties": {"sluicekey": {"type": "string", "description": ""}}, "required": []}}}

    def __init__(self, layout):
        self.layout = layout

    def fit(self, messages):
        """Gives the arguments of all calls the wanted form; those that are no object, nor the text of one, stay."""
        for function in functions_in(messages):
            arguments = object_of(function.get("arguments"))
            if arguments is not None and self.wanted and not isinstance(function["arguments"], self.wanted):
                function["arguments"] = self.in_form(arguments, self.wanted)

    def in_form(self, arguments, form):
        return arguments if form is dict else to_json(arguments)

    @functools.cached_property
    def wanted(self):
        """`dict` or `str`, the one form that is laid out right; None if both are, or neither."""
        for shape in itertools.product((False, True), (False, True), ("", None), (None, [self.TOOL]), (True, False)):
            right = [form for form in (dict, str) if self.is_right(form, *shape)]
            if right:
                return right[0] if len(right) == 1 else None
        return None

    def is_right(self, form, has_system, has_result, content, tools, is_wrapped):
        """Whether the template lays out a call with arguments of this form, and does not quote them twice. Some templates want a system message
        before it, or its result behind it."""
        function = {"name": "sluicename", "arguments": self.in_form(self.ARGUMENTS, form)}
        call = {"id": "sluice123", "type": "function", **({"function": function} if is_wrapped else function)}
        messages = [{"role": "system", "content": "sluice"}] * has_system
        messages += [{"role": "user", "content": "sluice"}, {"role": "assistant", "content": content, "tool_calls": [call]}]
        messages += [{"role": "tool", "tool_call_id": "sluice123", "name": "sluicename", "content": "sluice"}] * has_result
        try:
            text = self.layout.render(messages, tools)
        except Exception:  # whatever a template does
            return False
        return "sluicevalue" in text and '\\"sluicevalue' not in text


class SpanFinder:
    """What assistants say in a conversation whose template does not mark it: from behind the prompt for an answer, or as much of
    this prompt as the template puts before the answer, to the end of what the template puts behind it."""

    def __init__(self, layout, text, messages, tools):
        self.layout, self.text, self.messages, self.tools = layout, text, messages, tools
        self.word = next(word for word in (f"sluice{number}word" for number in itertools.count()) if word not in text)

    def render(self, messages, prompt=False):
        """The text, or None if the template refuses these messages, which are not the conversation as it is."""
        try:
            return cut_marks(self.layout.render(messages, self.tools, prompt))[0]
        except Exception:  # whatever a template does
            return None

    def refuse(self, index):
        raise ValueError(f"the template has no {{% generation %}} tags, and what the assistant says in message {index + 1} cannot be told "
                         "apart from what the template adds; give the model's training template, which has such tags (--template FILE)")

    def span(self, index):
        """[begin, end, index] of an answer; None if it cannot be told apart."""
        found = self.by_prefixes(index) or self.by_words(index)
        return found and [*(len(self.text[:place].encode()) for place in found), index]

    def turn(self):
        """The template's text between the last message and a user's next one; empty if it cannot be told apart."""
        longer = self.around(self.messages + [self.question()], self.word + "q")
        if longer and longer[0].startswith(self.text):
            return longer[0][len(self.text):]
        word = self.word + "a"
        probe = says(self.messages[-1], word, ("tool_calls", *REASONING))
        ending = self.around(self.messages[:-1] + [probe], word)
        going_on = self.around(self.messages[:-1] + [probe, self.question()], word)
        if not ending or not going_on or self.word + "q" not in going_on[1]:
            return ""
        behind = going_on[1][:going_on[1].index(self.word + "q")]
        return behind.removeprefix(ending[1]) if behind.startswith(ending[1]) or not ending[1].strip() else ""

    def by_prefixes(self, index):
        """What a message adds behind the prompt for it, where it is laid out alike if others follow it."""
        through = self.render(self.messages[:index + 1])
        if through is None or not self.text.startswith(through):
            return None
        prompt = self.render(self.messages[:index], prompt=True)
        return (len(prompt), len(through)) if prompt is not None and through.startswith(prompt) else None

    def by_words(self, index):
        """Lays out the conversation with a word that no text has in the message's place. What then lies before the word and behind it
        is the template's and the other messages', whatever the message says."""
        message, word = self.messages[index], self.word + "a"
        for keeps in ((), ("tool_calls",), ("tool_calls", *REASONING)):
            probe = says(message, word, keeps)
            parts = self.around(self.messages[:index] + [probe] + self.messages[index + 1:], word)
            own = parts and self.own_behind(index, probe, word, parts[1])
            begin = None if own is None else self.begin(index, probe, *parts)
            if begin is None:
                continue
            rest = parts[1][len(own):]
            end = len(self.text) - len(rest)
            if begin <= end and self.text.endswith(rest):
                return begin, end
        return None

    def around(self, messages, word, prompt=False):
        """What lies before the word's first place and behind its last."""
        text = self.render(messages, prompt)
        if text is None or word not in text:
            return None
        return text[:text.index(word)], text[text.rindex(word) + len(word):]

    def question(self):
        return {"role": "user", "content": self.word + "q"}

    def own_behind(self, index, probe, word, behind):
        """As much of `behind`, what lies behind the word in the message `probe`, as the template puts there when nothing follows, or
        a prompt for an answer."""
        for earlier in (self.messages[:index], [self.question()]):
            for prompt in (False, True):
                parts = self.around(earlier + [probe], word, prompt)
                own = parts and parts[1].removesuffix(self.prompt_behind(earlier) or "" if prompt else "")
                if own is not None and behind.startswith(own):
                    return own
        return None

    def prompt_behind(self, messages):
        """What asks for an answer behind these messages, in place of what ends a conversation; None if they are refused."""
        plain, asking = self.render(messages), self.render(messages, prompt=True)
        if plain is None or asking is None:
            return None
        size = len(os.path.commonprefix([plain, asking]))
        while not (is_whole_markup(plain, size) and is_whole_markup(asking, size)):
            size -= 1
        return asking[size:]

    def begin(self, index, probe, before, behind):
        """Where in `before`, with which the text then begins up to there, the answer begins; None where that is not certain."""
        between = self.between(index, probe, before, behind)
        if between is None:
            return None
        candidates = (self.messages[:index], self.messages, [self.question()])
        prompt = next((found for found in map(self.prompt_behind, candidates) if found is not None), "")
        start = len(before) - len(between)
        if not prompt and index > 0:
            word = self.word + "b"
            own = self.own_behind(index - 1, says(self.messages[index - 1], word), word, between)
            return start + len(own) if own is not None and self.text.startswith(before[:start + len(own)]) else None
        for size in range(len(prompt), 0, -1):
            if prompt[:size].strip() and prompt[:size] in between and is_whole_markup(prompt, size):
                begin = start + between.rindex(prompt[:size]) + size
                if self.text.startswith(before[:begin]):
                    return begin
        return None

    def between(self, index, probe, before, behind):
        """The template's text between the message before and the answer."""
        if index == 0:
            return before
        message, word = self.messages[index - 1], self.word + "b"
        for text in (word, within_tags(message.get("content"), word)):
            earlier = self.messages[:index - 1] + [says(message, text)]
            parts = self.around(earlier + [probe] + self.messages[index + 1:], self.word + "a")
            if parts and parts[1] == behind and word in parts[0]:
                found = parts[0][parts[0].rindex(word) + len(word):]
                if before.endswith(found):
                    return found
        return None


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
