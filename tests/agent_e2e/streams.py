"""Clients that send completions from threads of their own and note how each ended."""
import json
import threading
import urllib.error
import urllib.request

from processes import PATIENCE_S, stream_events


class Requests:
    """Of one gateway. Of each answer: whether it was streamed, how many events came before it ended, and how it ended."""

    def __init__(self, url: str, model: str):
        self.url, self.model = url, model
        self.threads: list[threading.Thread] = []
        self.answers: list[tuple[bool, int, str]] = []  # streamed; events; "done", "error", an HTTP status, or what broke it
        self.begun = 0

    def _one(self, stream: bool, tokens: int, prompt_tokens: int) -> None:
        body = {"model": self.model, "prompt": [7] * prompt_tokens, "max_tokens": tokens, "ignore_eos": True, "stream": stream}
        request = urllib.request.Request(self.url + "/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
        events, end = 0, "cut"
        try:
            with urllib.request.urlopen(request, timeout=2 * PATIENCE_S) as answer:
                if not stream:
                    end = "done" if json.loads(answer.read())["usage"]["completion_tokens"] == tokens else "short"
                for what in stream_events(answer) if stream else ():
                    if what == "event":
                        self.begun += events == 0
                        events += 1
                    else:
                        end = what
        except urllib.error.HTTPError as error:
            end = str(error.code)
        except OSError as error:
            end = repr(error)
        self.answers.append((stream, events, end))

    def send(self, tokens: int, prompt_tokens: int, stream: bool = True) -> None:
        self.threads.append(threading.Thread(target=self._one, args=(stream, tokens, prompt_tokens)))
        self.threads[-1].start()

    def settle(self) -> None:
        for thread in self.threads:
            thread.join()
