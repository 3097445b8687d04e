"""Runs a command on a pseudo-terminal and plays its output on a model of a screen.

The model knows what heed may write: text with automatic wrapping, carriage return, line feed and ESC [ K (erase to the
end of the line). Any other control character or sequence is an error. As in xterm, a line that is wider than the
terminal after a resize is cut.

By hand, to look at a run:  screen.py COLUMNS COMMAND [ARGUMENT …]
"""

import codecs
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
import unicodedata


def columns_of(character):
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


class Screen:
    def __init__(self, columns):
        self.columns = columns
        self.lines = [[]]  # of cells; the second cell of a wide character is empty
        self.column = 0
        self.pending_wrap = False
        self.wraps = 0  # in all, and since the last carriage return
        self.wrapped = False
        self.frames = []  # the current line at each ESC [ K, so each state of a line that is redrawn
        self.widest_frame = 0
        self.too_wide = []  # frames that wrapped
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.rest = ""

    def text(self):
        return ["".join(line).rstrip() for line in self.lines]

    def resize(self, columns):
        self.columns = columns
        self.lines = [line[:columns] for line in self.lines]
        self.column = min(self.column, columns - 1)
        self.pending_wrap = False

    def new_line(self):
        self.lines.append([])
        self.pending_wrap = False

    def put(self, character):
        width = columns_of(character)
        if width == 0:
            return
        if self.pending_wrap or self.column + width > self.columns:
            self.new_line()
            self.wraps += 1
            self.wrapped = True
            self.column = 0
        line = self.lines[-1]
        line += [" "] * (self.column + width - len(line))
        line[self.column:self.column + width] = [character] + [""] * (width - 1)
        self.column += width
        self.pending_wrap = self.column == self.columns
        self.column = min(self.column, self.columns - 1)

    def erase_to_the_end(self):
        line = self.lines[-1]
        del line[self.column + (1 if self.pending_wrap else 0):]
        self.frames.append("".join(line).rstrip())
        self.widest_frame = max(self.widest_frame, len(line))
        if self.wrapped:
            self.too_wide.append(self.frames[-1])

    def feed(self, data):
        text = self.rest + self.decoder.decode(data)
        self.rest = ""
        place = 0
        while place < len(text):
            character = text[place]
            if character == "\x1b":
                if len(text) - place < 3:
                    self.rest = text[place:]
                    return
                assert text[place:place + 3] == "\x1b[K", f"the screen does not know {text[place:place + 8]!r}"
                self.erase_to_the_end()
                place += 3
                continue
            if character == "\r":
                self.column, self.pending_wrap, self.wrapped = 0, False, False
            elif character == "\n":
                self.new_line()
            else:
                assert ord(character) >= 32 and not 0x7F <= ord(character) < 0xA0, f"control character {character!r}"
                self.put(character)
            place += 1


class Result:
    def __init__(self, screen, raw, code):
        self.screen, self.raw, self.code = screen, raw, code

    @property
    def lines(self):
        """Those that have anything on them, but for the end."""
        text = self.screen.text()
        return text[:-1] if text and not text[-1] else text


def set_size(terminal, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))


def run(command, columns, term="xterm", cwd=None, env=None, on_output=None, timeout=120):
    """on_output(screen, process, resize) is called after each piece of output; resize(columns) resizes the terminal."""
    environment = {**os.environ, **(env or {})}
    environment.pop("TERM", None)
    if term is not None:
        environment["TERM"] = term
    ready_read, ready_write = os.pipe()  # the command starts when the terminal has its size
    process, terminal = pty.fork()
    if process == 0:
        try:
            os.close(ready_write)
            os.read(ready_read, 1)
            os.close(ready_read)
            if cwd is not None:
                os.chdir(cwd)
            os.execvpe(str(command[0]), [str(part) for part in command], environment)
        finally:
            os._exit(127)
    os.close(ready_read)
    if columns is not None:
        set_size(terminal, columns)
    os.close(ready_write)
    screen = Screen(columns or 80)
    raw = b""

    def resize(new_columns):
        """While the process is stopped, after all that it wrote for the old width."""
        nonlocal raw
        os.kill(process, signal.SIGSTOP)
        os.waitpid(process, os.WUNTRACED)
        while select.select([terminal], [], [], 0)[0]:
            data = os.read(terminal, 65536)
            raw += data
            screen.feed(data)
        set_size(terminal, new_columns)
        screen.resize(new_columns)
        os.kill(process, signal.SIGCONT)

    end = time.monotonic() + timeout
    try:
        while True:
            if not select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
                os.kill(process, signal.SIGKILL)
                raise TimeoutError(f"{command} on a terminal: no end after {timeout} s")
            try:
                data = os.read(terminal, 65536)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            raw += data
            screen.feed(data)
            if on_output is not None:
                on_output(screen, process, resize)
    finally:
        os.close(terminal)
        status = os.waitpid(process, 0)[1]
    return Result(screen, raw.decode("utf-8", "replace"), os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    result = run(sys.argv[2:], int(sys.argv[1]), term=os.environ.get("TERM", "xterm"), timeout=3600)
    print("\n".join(result.screen.text()))
    print(f"exit {result.code}, {len(result.lines)} lines, {len(result.screen.frames)} redraws, frames:")
    seen = result.screen.frames
    print("\n".join(seen[:: max(1, len(seen) // 12)]))
