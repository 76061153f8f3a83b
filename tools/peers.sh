#!/bin/sh
# Installs the systems that Tailrace is compared with, each into its own venv .venv-peers/<name>. Safe to run again.
# A peer that cannot be installed is reported and skipped, here and by the benchmarks. Arguments: peers (default: all).
set -u
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PIP_NO_CACHE_DIR="${PIP_NO_CACHE_DIR:-1}" # keep the home directory clean

packages() {
    case $1 in
    duckdb) echo "duckdb pyarrow numpy" ;;
    pathway) echo "pathway pyarrow numpy" ;;
    flink) echo "apache-flink>=2,<3" ;; # installs a compatible pyarrow
    deephaven) echo "deephaven-server pyarrow numpy" ;;
    *) return 1 ;;
    esac
}

for peer in ${*:-duckdb pathway flink deephaven}; do
    requirements=$(packages "$peer") || {
        echo "peers: unknown peer $peer; known peers: duckdb, pathway, flink, deephaven" >&2
        exit 1
    }
    venv=.venv-peers/$peer
    if [ -e "$venv/.ready" ]; then
        echo "peers: $peer is already installed"
        continue
    fi
    echo "peers: installing $peer"
    rm -rf "$venv"
    mkdir -p .venv-peers
    # shellcheck disable=SC2086 # several packages
    if "$python" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet $requirements >"$venv/install.log" 2>&1; then
        touch "$venv/.ready"
    else
        echo "peers: could not install $peer, so benchmarks will skip it; the end of $venv/install.log:" >&2
        tail -n 3 "$venv/install.log" >&2 || true
    fi
done
