"""Tests `krafla chat` on a pseudo terminal, with scripted answers and simulated typing.

Needs KRAFLA (the program's path) in the environment; ctest sets it.
"""
import json
import os
import pty
import re
import select
import signal
import subprocess
import tempfile
import termios
import time
import unittest
from pathlib import Path

import scripted_model

KRAFLA = os.environ["KRAFLA"]
UP, LEFT, HOME, BACKSPACE, CTRL_C, CTRL_D, CTRL_U = "\x1b[A", "\x1b[D", "\x01", "\x7f", "\x03", "\x04", "\x15"
PASTE, PASTED = "\x1b[200~", "\x1b[201~"
WAIT = 60  # seconds until a test gives up


class Terminal:
    """The program on a pseudo terminal."""

    def __init__(self, *args):
        ready, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.read(ready, 1)  # until the modes are known that the program must restore
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.execv(KRAFLA, [KRAFLA, *map(str, args)])
        self.text, self.seen, self.code = "", 0, None
        self.modes = termios.tcgetattr(self.fd)
        os.write(go, b"x")
        os.close(go)
        os.close(ready)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        if not select.select([self.fd], [], [], seconds)[0]:
            return False
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is closed
            data = b""
        self.text += data.decode()
        return bool(data)

    def expect(self, pattern):
        """Waits for a match. Returns the output since the last match, up to the end of this one."""
        end = time.monotonic() + WAIT
        while not (match := re.search(pattern, self.text[self.seen :], re.DOTALL)):
            if time.monotonic() > end or not self.read(1) and self.is_over():
                raise AssertionError(
                    f"{pattern!r} does not come; the end of what came is {self.text[-1500:]!r}"
                )
        before = self.text[self.seen : self.seen + match.end()]
        self.seen += match.end()
        return before

    def is_over(self):
        if self.code is None and os.waitpid(self.pid, os.WNOHANG)[0]:
            self.code = 0
        return self.code is not None

    def wait(self):
        """Waits for the end of the program and returns its status. The terminal's modes must be restored."""
        self.after = self.modes
        end = time.monotonic() + WAIT
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                break
            self.read(0.05)
            assert time.monotonic() < end, f"it does not end: {self.text[-500:]!r}"
        self.code = status
        while self.read(0):
            pass
        self.after = termios.tcgetattr(self.fd)
        return os.waitstatus_to_exitcode(status)

    def close(self):
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        os.close(self.fd)


PROMPT = r"> \x1b\[K|> "
SPEED = r"\[prompt [^]]*\]"


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.brief = scripted_model.write(cls.folder, "brief", ["Yes"], [("\n", "Yes")])
        cls.endless = scripted_model.write(
            cls.folder,
            "endless",
            ["again ", "and "],
            [("\n", "again "), ("again ", "and "), ("and ", "again ")],
        )
        cls.thinker = scripted_model.write(
            cls.folder,
            "thinker",
            ["<think>", "hm", "</think>", "Done\x1b[31m\u009b"],
            control=["<think>", "</think>"],
            follows=[
                ("\n", "<think>"),
                ("<think>", "hm"),
                ("hm", "</think>"),
                ("</think>", "Done\x1b[31m\u009b"),
            ],
            info={"reasoning": {"open": "<think>", "close": "</think>"}},
        )

    def chat(self, model, *options):
        terminal = Terminal("chat", model, "--temp", 0, "-t", 1, *options)
        self.addCleanup(terminal.close)
        terminal.expect("/help tells.*> ")
        return terminal

    def leave(self, terminal, keys=CTRL_D, code=0):
        """Types ahead: the terminal keeps the keys until the program reads them."""
        terminal.type(keys)
        self.assertEqual(terminal.wait(), code, terminal.text[-300:])
        self.assertEqual(terminal.after, terminal.modes)
        self.assertEqual(terminal.text.count("\x1b[?2004h"), terminal.text.count("\x1b[?2004l"))

    def messages(self, terminal):
        path = self.folder / "saved.json"
        path.unlink(missing_ok=True)
        terminal.type(f"/save {path}\r")
        terminal.expect("/save.*> ")
        end = time.monotonic() + WAIT
        while not path.exists() and time.monotonic() < end:
            time.sleep(0.01)
        return json.loads(path.read_text())["messages"]

    def said(self, terminal):
        return [m["content"] for m in self.messages(terminal) if m["role"] == "user"]

    def say(self, terminal, keys):
        terminal.type(keys + "\r")
        terminal.expect(SPEED + ".*> ")


class Editing(Case):
    def test_keys(self):
        t = self.chat(self.brief)
        self.say(t, "held" + LEFT * 2 + "l" + BACKSPACE + "l" + LEFT + BACKSPACE + "a" + HOME + "W")
        self.say(t, "second")
        self.say(t, UP * 2 + "!")
        self.say(t, "rubbish" + CTRL_U + "grüße 日本")
        said = self.said(t)
        self.assertEqual(said[1], "second")
        self.assertEqual(said[2], said[0] + "!")
        self.assertEqual(said[3], "grüße 日本")
        self.assertEqual(said[0], "Whalld")
        self.leave(t)

    def test_what_is_pasted_is_one_message(self):
        t = self.chat(self.brief)
        long = "\n".join(f"line {i} of many" for i in range(300))
        for text in ("one\ntwo\n\nthree", long, "/etc\nis text"):
            t.type(PASTE + text.replace("\n", "\r") + PASTED)
            t.type(" end\r")
            t.expect("there is no such command.*> " if text.startswith("/") else SPEED + ".*> ")
        self.assertEqual(self.said(t), ["one\ntwo\n\nthree end", long + " end"])
        self.leave(t)


class CtrlC(Case):
    def test_stops_an_answer_and_the_chat_goes_on(self):
        t = self.chat(self.endless)
        for text in ("go", "once more"):
            t.type(text + "\r")
            t.expect("again and again ")
            t.type(CTRL_C)
            self.assertIn("; stopped]", t.expect(SPEED + ".*> "))
        messages = self.messages(t)
        self.assertEqual([m["content"] for m in messages[::2]], ["go", "once more"])
        self.assertTrue(messages[1]["content"].startswith("again and again "))
        self.leave(t)

    def test_clears_a_line_then_leaves(self):
        t = self.chat(self.brief)
        t.type("half a line")
        t.expect("half a line")
        t.type(CTRL_C)
        t.expect("> ")
        self.say(t, "whole")
        self.assertEqual(self.said(t), ["whole"])
        self.leave(t, CTRL_C)

    def test_ctrl_d_during_an_answer_leaves_after_it(self):
        t = self.chat(self.endless, "--max-tokens", 300)
        t.type("q\r")
        t.expect("again and again")
        self.leave(t)
        self.assertIn("answer 300 tokens", t.text)

    def test_signals_at_the_prompt_end_it_with_the_modes_restored(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            t = self.chat(self.brief)
            t.type("half a line")
            t.expect("half a line")
            os.kill(t.pid, number)
            self.assertEqual(t.wait(), -number)
            self.assertEqual(t.after, t.modes)
            self.assertTrue(t.text.endswith("\x1b[?2004l"), t.text[-100:])

    def test_leaves_at_once(self):
        self.leave(self.chat(self.brief), CTRL_C)


class Shown(Case):
    def test_reasoning_is_dim_and_control_characters_are_not_obeyed(self):
        t = self.chat(self.thinker)
        t.type("q\r")
        answer = t.expect(SPEED)
        self.assertIn("\x1b[2mhm\x1b[0m", answer)
        self.assertIn("Done\\x1b[31m\\x9b", answer)
        self.assertNotIn("think>", answer)
        self.assertRegex(answer, r"; answer 4 tokens, [\d.]+ tokens/s\]")
        self.leave(t)

    def test_one_token_is_no_tokens(self):
        t = self.chat(self.brief)
        t.type("q\r")
        self.assertRegex(t.expect(SPEED), r"; answer 1 token, [\d.]+ tokens/s\]")
        self.leave(t)


class Commands(Case):
    def test_what_they_do(self):
        t = self.chat(self.brief, "--system", "S")
        t.type("/help\r")
        help_text = t.expect("leaves.*> ")
        for name in ("/help", "/system", "/reset", "/save", "/load", "/regen", "/set", "/tool"):
            self.assertIn(name, help_text)
        self.say(t, "one")
        kept = self.messages(t)
        self.assertEqual(
            kept,
            [
                {"role": "system", "content": "S"},
                {"role": "user", "content": "one"},
                {"role": "assistant", "content": "Yes"},
            ],
        )
        (self.folder / "kept.json").write_text(json.dumps({"messages": kept}))
        t.type("/system T\r")
        t.expect("T.*> ")
        self.assertEqual(self.messages(t), [{"role": "system", "content": "T"}])
        self.say(t, "two")
        t.type("/reset\r")
        t.expect("reset.*> ")
        self.assertEqual(self.messages(t), [{"role": "system", "content": "T"}])
        t.type("/system\r")
        t.expect("system.*> ")
        self.assertEqual(self.messages(t), [])
        t.type(f"/load {self.folder / 'kept.json'}\r")
        t.expect("load.*> ")
        self.assertEqual(self.messages(t), kept)
        self.say(t, "/regen")
        self.assertEqual(self.messages(t), kept)
        t.type("/set max_tokens 2\r")
        t.expect("2.*> ")
        self.say(t, " /etc is a folder")
        self.assertEqual(self.said(t), ["one", " /etc is a folder"])
        self.leave(t)

    def test_what_is_wrong_is_said_and_changes_nothing(self):
        t = self.chat(self.brief)
        self.say(t, "one")
        broken = self.folder / "broken.json"
        broken.write_text('{"messages": 1}')
        for command, error in (
            ("/help me", "stands alone"),
            ("/reset all", "stands alone"),
            ("/regen 2", "stands alone"),
            ("/set", "missing"),
            ("/set seed", "missing"),
            ("/set seed x", "not a number"),
            ("/set seed -1", "whole number"),
            ("/set top_p 2", "top_p"),
            ("/set temperature -1", "temperature"),
            ("/set max_tokens 0", "whole number"),
            ("/save", "name is missing"),
            ("/save /nowhere/x.json", "/nowhere"),
            (f"/save {self.brief}.mlb", "is read"),
            ("/load", "name is missing"),
            ("/load /nowhere.json", "/nowhere.json"),
            (f"/load {broken}", "messages"),
            ("/tool x", "no call waits"),
            ("/frob", "no such command"),
        ):
            with self.subTest(command):
                t.type(command + "\r")
                t.expect(re.escape(command.split()[0]) + ".*" + error + ".*> ")
        self.assertEqual(self.said(t), ["one"])
        self.leave(t)


class Pipe(Case):
    def test_no_codes_every_line_a_message(self):
        done = subprocess.run(
            [KRAFLA, "chat", self.thinker, "--temp", "0", "-t", "1"],
            input=b"one\ntwo\r\nthree",
            capture_output=True,
            timeout=WAIT,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, b"<think>hm</think>Done\x1b[31m\xc2\x9b\n" * 3)
        self.assertEqual(done.stderr, b"")


if __name__ == "__main__":
    unittest.main()
