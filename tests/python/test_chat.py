"""`krafla chat` through a pipe, with a tiny model.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

DATA = Path(__file__).resolve().parents[1] / "data"
KRAFLA = os.environ["KRAFLA"]
GREEDY = ["--temp", "0", "-n", "6", "-t", "1", "--chat-template", "chatml"]


class Chat(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        subprocess.run([KRAFLA, "convert", DATA / "gguf/llama_f32.gguf", cls.folder / "m", "-t", "1"], check=True, capture_output=True, timeout=60)

    def chat(self, text, *options, code=0):
        done = subprocess.run([KRAFLA, "chat", self.folder / "m", *GREEDY, *map(str, options)], input=text.encode(), capture_output=True, timeout=60)
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
        self.chat(f"Hi\n/system Be brief.\n/save {self.folder / 's.json'}\n/reset\nHi\n/set max_tokens 1\n", "--system", "x")
        self.assertEqual(json.loads((self.folder / "s.json").read_text())["messages"], [{"role": "system", "content": "Be brief."}])

    def test_what_is_wrong_ends_a_pipe_with_one_line(self):
        for text, code in (("/frob\n", 2), ("/set seed x\n", 2), ("/set top_k 1.5\n", 2), ("/load /nowhere.json\n", 4), ("/regen\n", 2)):
            done = self.chat(text, code=code)
            self.assertEqual(len(done.stderr.decode().splitlines()), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
