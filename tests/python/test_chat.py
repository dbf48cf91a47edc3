"""`krafla chat` through a pipe and `krafla run` with conversations, with tiny models.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

import mlb
import mlt
import scripted_model

DATA = Path(__file__).resolve().parents[1] / "data"
KRAFLA = os.environ["KRAFLA"]
GREEDY = ["--temp", "0", "-n", "6", "-t", "1", "--chat-template", "chatml"]


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run(
            [KRAFLA, "convert", DATA / "gguf/llama_f32.gguf", cls.folder / "m", "-t", "1"],
            check=True,
            capture_output=True,
            timeout=60,
        )

    def chat(self, text, *options, code=0):
        done = subprocess.run(
            [KRAFLA, "chat", self.folder / "m", *GREEDY, *map(str, options)],
            input=text.encode(),
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, code, done.stderr.decode())
        self.assertNotIn(b"\x1b", done.stdout)
        return done

    def test_each_line_is_a_message_and_the_end_of_input_ends(self):
        self.assertEqual(self.chat("").stdout, b"")
        report = self.chat("Hi\nMore\n", "-v").stderr.decode().splitlines()
        self.assertEqual(len(report), 2, report)
        self.assertIn(" 0 of them known", report[0])
        self.assertNotIn(" 0 of them known", report[1])

    def test_the_state_that_is_kept_changes_nothing(self):
        self.chat(f"Hi\nMore\n/save {self.folder / 'all.json'}\n")
        messages = json.loads((self.folder / "all.json").read_text())["messages"]
        self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user", "assistant"])
        first = {"messages": messages[:2]}
        (self.folder / "first.json").write_text(json.dumps(first))
        self.chat(f"/load {self.folder / 'first.json'}\nMore\n/save {self.folder / 'again.json'}\n")
        self.assertEqual(json.loads((self.folder / "again.json").read_text())["messages"], messages)
        self.chat(f"Hi\nMore\n/regen\n/save {self.folder / 'regen.json'}\n")
        self.assertEqual(json.loads((self.folder / "regen.json").read_text())["messages"], messages)

    def test_reset_and_system(self):
        self.chat(
            f"Hi\n/system Be brief.\n/save {self.folder / 's.json'}\n/reset\nHi\n/set max_tokens 1\n",
            "--system",
            "x",
        )
        self.assertEqual(
            json.loads((self.folder / "s.json").read_text())["messages"],
            [{"role": "system", "content": "Be brief."}],
        )

    def test_what_is_wrong_ends_a_pipe_with_one_line(self):
        for text, code in (
            ("/frob\n", 2),
            ("/set seed x\n", 2),
            ("/set top_k 1.5\n", 2),
            ("/load /nowhere.json\n", 4),
            ("/regen\n", 2),
            ("/reset x\n", 2),
            ("/save\n", 2),
            ("/tool x\n", 2),
        ):
            done = self.chat(text, code=code)
            self.assertEqual(len(done.stderr.decode().splitlines()), 1, done.stderr)


TOOLS = [
    {
        "type": "function",
        "function": {"name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    }
]
PLAIN = "{% for m in messages %}{{ m.role }}:{{ m.content }}\n{% endfor %}#"
TOOL_USE = (
    "{{ tools | tojson }}{% for m in messages %}{{ m.role }}:{{ m.content }}{% for c in m.tool_calls or [] "
    "%}{{ c.function | tojson }}{% endfor %}\n"
    "{% endfor %}{{ '!' if messages[-1].role == 'tool' else '?' }}"
)
CALL = {"name": "f", "arguments": {"x": 1}}
CALLS = {
    "hermes": ["<tool_call>", json.dumps(CALL), "</tool_call>"],
    "xml": ["<tool_call>", "<function=f><parameter=x>1</parameter></function>", "</tool_call>"],
    "llama3": ["<|python_tag|>", json.dumps({"name": "f", "parameters": {"x": 1}})],
    "mistral": ["[TOOL_CALLS]", "f", "[ARGS]", '{"x": 1}'],
}


def is_control(word):
    return word[0] in "<[" and not word.startswith("<function")


class ControlMarkers(unittest.TestCase):
    """The markers of calls and of reasoning are control tokens, as in the families' vocabularies."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        (cls.folder / "tools.json").write_text(json.dumps(TOOLS))
        for name, call in CALLS.items():
            texts = ["<think>", "hm", "</think>", *call]
            follows = [
                ("?", "<think>"),
                *zip(texts, texts[1:]),
                ("!", "Fine"),
                ("Fine", "<odd>"),
                ("#", "Plain"),
                ("Plain", call[0]),
            ]
            words = [*texts, "Fine", "<odd>", "Plain"]
            scripted_model.write(
                cls.folder,
                name,
                words,
                follows,
                list(filter(is_control, words)),
                {
                    "chat_template": {"default": PLAIN, "tool_use": TOOL_USE},
                    "reasoning": {"open": "<think>", "close": "</think>"},
                    "tools": name,
                },
            )

    def krafla(self, command, *options, text=""):
        done = subprocess.run(
            [KRAFLA, command, *map(str, options), "--temp", "0", "-t", "1"],
            input=text.encode(),
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return done.stdout.decode()

    def test_chat_parses_calls_and_takes_their_results(self):
        for name, call in CALLS.items():
            with self.subTest(name):
                saved = self.folder / f"{name}.saved"
                out = self.krafla(
                    "chat",
                    self.folder / name,
                    "--tools",
                    self.folder / "tools.json",
                    text=f"Go\n/tool 7\n/save {saved}\n",
                )
                self.assertEqual(out, "<think>hm</think>" + "".join(call) + "\nFine\n")
                user, answer, result, last = json.loads(saved.read_text())["messages"]
                self.assertEqual((answer["content"], answer["reasoning_content"]), ("", "hm"))
                self.assertEqual([c["function"] for c in answer["tool_calls"]], [CALL])
                self.assertEqual(
                    result,
                    {
                        "role": "tool",
                        "tool_call_id": answer["tool_calls"][0]["id"],
                        "name": "f",
                        "content": "7",
                    },
                )
                self.assertRegex(result["tool_call_id"], "^[a-zA-Z0-9]{9}$")
                self.assertEqual(last, {"role": "assistant", "content": "Fine"})

    def test_run_shows_the_markers_that_can_be_parsed_and_no_others(self):
        for name, call in CALLS.items():
            model = self.folder / name
            self.assertEqual(
                self.krafla("run", model, "-p", "Go", "--tools", self.folder / "tools.json"),
                "<think>hm</think>" + "".join(call) + "\n",
            )
            self.assertEqual(
                self.krafla("run", model, "-p", "Go"),
                "".join(["Plain", *(w for w in call if not is_control(w)), "\n"]),
            )

    def test_run_goes_on_with_a_conversation(self):
        messages = [
            {"role": "user", "content": "Go"},
            {"role": "assistant", "content": "", "tool_calls": [{"id": "call00001", "function": CALL}]},
            {"role": "tool", "content": "7"},
        ]
        (self.folder / "m.json").write_text(json.dumps({"messages": messages}))
        self.assertEqual(
            self.krafla(
                "run",
                self.folder / "hermes",
                "--messages",
                self.folder / "m.json",
                "--tools",
                self.folder / "tools.json",
            ),
            "Fine\n",
        )

    def test_a_message_that_is_wrong_is_named_with_its_field(self):
        good, bad = {"role": "user", "content": "Go"}, self.folder / "bad.json"
        for message, mention in (
            (3, "messages[1] is 3; it must be an object"),
            ({"content": "x"}, "messages[1].role is missing; it must be a text"),
            ({"role": ["user"], "content": "x"}, 'messages[1].role is ["user"]; it must be a text'),
            ({"role": "", "content": "x"}, 'messages[1].role is "";'),
            (
                {"role": "user", "content": 7},
                "messages[1].content is 7; it must be a text or an array of parts",
            ),
            ({"role": "user", "content": ["x"]}, 'messages[1].content[0] is "x"; it must be an object'),
            (
                {"role": "user", "content": [{"text": "x"}]},
                'messages[1].content[0].type is missing; it must be "text"',
            ),
            (
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "x"},
                        {"type": "image_url", "image_url": {"url": "u"}},
                    ],
                },
                'messages[1].content[1].type is "image_url"; it must be "text"',
            ),
            (
                {"role": "user", "content": [{"type": "text", "text": 1}]},
                "messages[1].content[0].text is 1; it must be a text",
            ),
            ({"role": "assistant", "tool_calls": {}}, "messages[1].tool_calls is {}; it must be an array"),
            (
                {"role": "assistant", "tool_calls": [1]},
                "messages[1].tool_calls[0] is 1; it must be an object",
            ),
            (
                {"role": "assistant", "tool_calls": [{"function": "f"}]},
                'messages[1].tool_calls[0].function is "f"; it must be an object',
            ),
            (
                {"role": "tool", "content": "x", "tool_call_id": 1},
                "messages[1].tool_call_id is 1; it must be a text",
            ),
            ({"role": "user", "content": list(range(1000))}, "messages[1].content[0] is 0;"),
        ):
            with self.subTest(mention):
                bad.write_text(json.dumps({"messages": [good, message]}))
                done = subprocess.run(
                    [KRAFLA, "run", self.folder / "hermes", "--messages", bad],
                    capture_output=True,
                    timeout=60,
                )
                self.assertEqual((done.returncode, len(done.stderr.splitlines())), (5, 1), done.stderr)
                self.assertIn(f"{bad}: {mention}", done.stderr.decode())
                done = subprocess.run(
                    [KRAFLA, "chat", self.folder / "hermes"],
                    input=f"/load {bad}\n".encode(),
                    capture_output=True,
                    timeout=60,
                )
                self.assertIn(f"{bad}: {mention}", done.stderr.decode())
        for conversation, mention in (
            ({"messages": 1}, "messages is 1; it must be an array"),
            ({}, "messages is missing; it must be an array"),
            ({"messages": []}, "messages is empty"),
        ):
            bad.write_text(json.dumps(conversation))
            done = subprocess.run(
                [KRAFLA, "run", self.folder / "hermes", "--messages", bad], capture_output=True, timeout=60
            )
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn(f"{bad}: {mention}", done.stderr.decode())

    def test_contents_in_parts_are_texts_whether_or_not_the_template_knows_parts(self):
        """The model answers the last letter of the prompt: "!" if the template went through the parts, "b" if
        it received a text. For a list printed as Python prints it, there is no answer."""
        knows = (
            "{% for m in messages %}{% if m.content is string %}{{ m.content }}{% else %}"
            "{% for p in m.content %}{{ p.text }}{{ '!' if loop.last }}{% endfor %}{% endif %}{% endfor %}"
        )
        prints, adds = (
            "{% for m in messages %}{{ m.content }}{% endfor %}",
            "{% for m in messages %}{{ m.role + m.content }}{% endfor %}",
        )
        conversation = self.folder / "in_parts.json"
        conversation.write_text(
            json.dumps(
                {
                    "messages": [
                        {
                            "role": "user",
                            "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}],
                        }
                    ]
                }
            )
        )
        model = scripted_model.write(self.folder, "parts", ["Parts", "Text"], [("!", "Parts"), ("b", "Text")])
        for template, want in ((knows, "Parts"), (prints, "Text"), (adds, "Text")):
            (self.folder / "t.jinja").write_text(template)
            out = self.krafla(
                "run", model, "--chat-template", self.folder / "t.jinja", "--messages", conversation
            )
            self.assertEqual(out, want + "\n")

    def test_tools_that_the_template_would_leave_out_are_refused(self):
        for command in ("run", "chat"):
            done = subprocess.run(
                [
                    KRAFLA,
                    command,
                    self.folder / "hermes",
                    "--chat-template",
                    "chatml",
                    "--tools",
                    self.folder / "tools.json",
                ],
                input=b"x",
                capture_output=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("takes no tools", done.stderr.decode())

    def test_what_is_no_such_file_is_named(self):
        bad = self.folder / "bad.json"
        for command, option, text, reason in (
            ("run", "--tools", "{}", "not a JSON array"),
            ("chat", "--tools", "[1]", "not a JSON array"),
            ("run", "--tools", "[]", "not a JSON array"),
            ("run", "--messages", "[]", "not a conversation"),
            ("run", "--messages", '{"messages":\n [}', "not valid JSON: line 2, column 3"),
            ("run", "--messages", "[" * 300, "not valid JSON: it nests deeper than 200"),
        ):
            bad.write_text(text)
            done = subprocess.run(
                [KRAFLA, command, self.folder / "hermes", option, bad],
                input=b"x",
                capture_output=True,
                timeout=60,
            )
            self.assertEqual(done.returncode, 5, done.stderr)
            self.assertIn(f"{bad}: is {reason}", done.stderr.decode())


KINDS = {
    "full": dict(),
    "windows": dict(sliding_window=37),
    "gemma 3": dict(sliding_window=37, rope_local_theta=1e4, qk_norm=1, post_norms=1, act=1),
    "linear": dict(
        lin_k_heads=2, lin_v_heads=4, lin_k_dim=16, lin_v_dim=16, lin_conv=4, attn_gate=1, qk_norm=1
    ),
}
FLAGS = {"full": None, "windows": [1, 1, 1], "gemma 3": [5, 5, 0], "linear": [8, 8, 0]}


class Kept(unittest.TestCase):
    """State kept between turns never changes an answer, with any kind of layer."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        texts = [bytes([i]) for i in (10, *range(32, 127))] + [f"<{i}>".encode() for i in range(96)]
        for name, fields in KINDS.items():
            header = mlb.Header(
                **(
                    dict(
                        dim=64,
                        n_layers=3,
                        n_heads=2,
                        n_kv_heads=1,
                        head_dim=32,
                        hidden_dim=64,
                        vocab=192,
                        max_seq=2048,
                        rope_theta=1e4,
                        norm_eps=1e-5,
                        wtype=1,
                        scale_f16=1,
                    )
                    | fields
                )
            )
            header, flags = mlb.canonical(header, FLAGS[name])
            mlb.write(cls.folder / f"{name}.mlb", header, flags, mlb.random_tensors(header, flags, 5))
            mlt.write_mlt(
                cls.folder / f"{name}.mlt",
                mlt.Tokenizer(mlt.BYTE_LEVEL, 0, -1, -1, [(0, t) for t in texts], []),
            )
            (cls.folder / f"{name}.json").write_text(json.dumps({"format": 1, "chat_template": "chatml"}))

    def chat(self, name, lines):
        saved = self.folder / "saved.json"
        done = subprocess.run(
            [KRAFLA, "chat", self.folder / name, "-t", "1", "-n", "40", "--temp", "1.5", "-v"],
            input="\n".join([*lines, f"/save {saved}", ""]).encode(),
            capture_output=True,
            timeout=60,
        )
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        return json.loads(saved.read_text())["messages"], done.stderr.decode().splitlines()

    def afresh(self, name, messages, seed):
        """The last answer, computed by a new process."""
        (self.folder / "given.json").write_text(json.dumps({"messages": messages[:-2]}))
        return self.chat(
            name, [f"/load {self.folder / 'given.json'}", f"/set seed {seed}", messages[-2]["content"]]
        )[0]

    def test_every_kind_of_layer(self):
        long = "A text that is longer than a window is wide. " * 4
        for name in KINDS:
            with self.subTest(name):
                first = [long, "Short.", "/regen", "/regen", "More of it, please: " + long]
                said, report = self.chat(name, first)
                self.assertEqual([m["role"] for m in said], ["user", "assistant"] * 3)
                self.assertTrue(
                    all(" 0 of them known" not in line for line in report[1:]), report
                )  # otherwise the test would be empty
                self.assertEqual(len({m["content"] for m in said}), 6)
                self.assertEqual(self.afresh(name, said, 2), said)
                self.assertEqual(self.afresh(name, said[:4], 2), said[:4])
                # An earlier turn is edited: the kept state is useless from there on.
                edited = [said[0], {"role": "assistant", "content": "Something else"}, *said[2:4]]
                (self.folder / "edited.json").write_text(json.dumps({"messages": edited}))
                (self.folder / "all.json").write_text(json.dumps({"messages": said}))
                back = self.chat(
                    name,
                    [
                        long,
                        "Short.",
                        f"/load {self.folder / 'edited.json'}",
                        "And?",
                        f"/load {self.folder / 'all.json'}",
                        "/regen",
                    ],
                )[0]
                self.assertEqual(self.afresh(name, back, 1), back)
                both = self.chat(name, [long, "Short.", f"/load {self.folder / 'edited.json'}", "And?"])[0]
                self.assertEqual(self.afresh(name, both, 0), both)


if __name__ == "__main__":
    unittest.main()
