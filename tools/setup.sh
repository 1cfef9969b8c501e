#!/bin/sh
# Make .venv with the newest suitable Python and install the project with an extra:
#     tools/setup.sh dev
set -eu
cd "$(dirname "$0")/.."
extra=${1:-dev}

# It has to run (a pyenv shim may not), and be able to make a venv and open SQLite >= 3.37.
suitable() {
    "$1" -c '
import ensurepip, sqlite3, sys, venv
sys.exit(sys.version_info < (3, 11) or sqlite3.sqlite_version_info < (3, 37))
' >/dev/null 2>&1
}

candidates() {
    versions=
    if command -v pyenv >/dev/null 2>&1; then
        versions=$(pyenv root)/versions
    fi
    for minor in 3.13 3.12 3.11; do
        echo "python$minor"
        if [ -n "$versions" ]; then
            ls -d "$versions/$minor".*/bin/python 2>/dev/null || true
        fi
    done
    echo python3
    echo python
}

choose() {
    candidates | while read -r python; do
        if suitable "$python"; then
            echo "$python"
            break
        fi
    done
}

if ! suitable .venv/bin/python; then
    python=$(choose)
    if [ -z "$python" ]; then
        echo "No suitable Python found: it takes Python 3.11 or newer with the venv and sqlite3" >&2
        echo "modules (on Debian and Ubuntu: apt-get install python3-venv)." >&2
        exit 1
    fi
    echo "==> Making .venv with $("$python" --version) ($python)"
    rm -rf .venv
    "$python" -m venv .venv
fi

echo "==> Installing django-claimq[$extra] and what it needs into .venv (a minute the first time)"
.venv/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[$extra]"
