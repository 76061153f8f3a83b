#!/bin/sh
# Install the systems Tailrace is measured beside, each into a venv of its own: .venv-peers/<name>. Safe to run again.
# What cannot be had is said and left out; benchmarks then skip it. Arguments: the peers wanted (all, if none).
set -u
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PIP_NO_CACHE_DIR="${PIP_NO_CACHE_DIR:-1}" # nothing is left in the home directory

packages() {
    case $1 in
    duckdb) echo "duckdb pyarrow numpy" ;;
    pathway) echo "pathway pyarrow numpy" ;;
    flink) echo "apache-flink>=2,<3" ;; # brings the pyarrow it can work with
    deephaven) echo "deephaven-server pyarrow numpy" ;;
    *) return 1 ;;
    esac
}

for peer in ${*:-duckdb pathway flink deephaven}; do
    wanted=$(packages "$peer") || {
        echo "peers: there is no peer $peer (duckdb, pathway, flink, deephaven)" >&2
        exit 1
    }
    venv=.venv-peers/$peer
    if [ -e "$venv/.ready" ]; then
        echo "peers: $peer is there"
        continue
    fi
    echo "peers: installing $peer"
    rm -rf "$venv"
    mkdir -p .venv-peers
    # shellcheck disable=SC2086 # several packages
    if "$python" -m venv "$venv" && "$venv/bin/python" -m pip install --quiet $wanted >"$venv/install.log" 2>&1; then
        touch "$venv/.ready"
    else
        echo "peers: $peer could not be had, so it is left out:" >&2
        tail -n 3 "$venv/install.log" >&2 || true
    fi
done
