#!/usr/bin/env bash
# Sets up a container engine and base images on a Debian machine without a registry or an engine.
#
#   engine.sh start            make `docker info` work: use the engine that answers, or start one
#   engine.sh image [SUITE]    make schedprof-base:SUITE, and wheels for its Python in wheelhouse/
#                              (bookworm, the default, has Python 3.11; trixie has 3.13)
#   engine.sh root SUITE DIRECTORY PACKAGE...
#                              make a root directory of Debian, with packages; needs no engine
#   engine.sh host             print the DOCKER_HOST of that engine
#   engine.sh stop             stop the engine if this script started it
#   engine.sh run COMMAND...   run a command with an engine and both images, then stop what was started
#
# Missing programs are installed with apt-get. Images are kept in /var/lib/schedprof-docker.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
state=${SCHEDPROF_ENGINE_STATE:-/run/schedprof-docker} # short: a socket's path has 108 characters
data=${SCHEDPROF_ENGINE_DATA:-/var/lib/schedprof-docker}
socket=$state/docker.sock
wheels="distributed py-spy>=0.4.0 viztracer>=1.0"

say() { echo "engine: $*" >&2; }

host() {
    if [ -S "$socket" ]; then echo "unix://$socket"; else echo "${DOCKER_HOST:-}"; fi
}

answers() { docker info >/dev/null 2>&1; }

installed() { # PROGRAM PACKAGE...
    command -v "$1" >/dev/null && return
    say "installs ${*:2}"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${@:2}" >/dev/null
}

start() {
    if answers; then
        say "one answers already"
        return
    fi
    installed dockerd docker.io
    installed docker docker-cli # a package of its own from trixie on
    installed iptables iptables
    mkdir -p "$state" "$data"
    # vfs works on any file system, but copies the whole image for each layer and container.
    launched overlay2 || launched vfs || { tail -n 20 "$state/log" >&2; say "did not start"; return 1; }
    say "$(docker info --format '{{.ServerVersion}} with {{.Driver}}') at $DOCKER_HOST"
}

launched() { # DRIVER
    export DOCKER_HOST=unix://$socket
    setsid dockerd --storage-driver "$1" --data-root "$data" --exec-root "$state/exec" \
        --pidfile "$state/pid" --host "$DOCKER_HOST" >"$state/log" 2>&1 </dev/null &
    local pid=$!
    for _ in $(seq 300); do
        answers && return
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.1
    done
    kill "$pid"
    return 1
}

image() { # [SUITE]
    local suite=${1:-bookworm}
    local name=schedprof-base:$suite
    if ! docker image inspect "$name" >/dev/null 2>&1; then
        if mirror >/dev/null; then
            root "$suite" - python3 python3-venv | docker import - "$name" >/dev/null
        else
            pull "$suite" "$name"
        fi
    fi
    download "$(docker run --rm "$name" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
}

root() { # SUITE TARGET PACKAGE...: a root directory of Debian, or an archive of it where TARGET is -
    installed mmdebstrap mmdebstrap
    say "makes a root directory of Debian $1"
    # Of a mirror that keeps an old state, the date until which it is valid has passed.
    mmdebstrap --quiet --mode=root --variant=minbase --include="$(IFS=, && echo "${*:3}")" \
        --aptopt='Acquire::Check-Valid-Until "false"' \
        --dpkgopt='path-exclude=/usr/share/doc/*' --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' "$1" "$2" "$(mirror)"
}

pull() { # SUITE NAME: used where apt has no Debian packages; needs a registry
    local -A python=([bookworm]=3.11 [trixie]=3.13)
    docker pull --quiet "python:${python[$1]}-slim-$1" >&2
    docker tag "python:${python[$1]}-slim-$1" "$2"
}

# shellcheck disable=SC2016
mirror() { # print the mirror that this machine's Debian packages come from
    apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' |
        sed -n 1p | grep .
}

download() { # PYTHON
    local python=${PYTHON:-python3} platform platforms=()
    "$python" -m pip --version >/dev/null 2>&1 || installed pip3 python3-pip
    for platform in manylinux_2_28 manylinux_2_17 manylinux2014 manylinux1; do
        platforms+=(--platform "${platform}_$(uname -m)")
    done
    # shellcheck disable=SC2086
    "$python" -m pip download --quiet --disable-pip-version-check --only-binary :all: \
        --dest "$here/wheelhouse" --implementation cp --python-version "$1" "${platforms[@]}" $wheels
    say "has $(find "$here/wheelhouse" -name '*.whl' | wc -l) wheels, with those for Python $1"
}

stop() {
    [ -f "$state/pid" ] || return 0
    local pid
    pid=$(cat "$state/pid")
    if grep -qs dockerd "/proc/$pid/comm"; then
        kill "$pid"
        while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
    fi
    rm -rf "$state"
}

run() { # COMMAND...
    answers || { trap stop EXIT; start; }
    image bookworm
    image trixie
    BASE_IMAGE=schedprof-base:bookworm "$@"
}

export DOCKER_HOST
DOCKER_HOST=$(host)
[ -n "$DOCKER_HOST" ] || unset DOCKER_HOST
case ${1:-} in
    start | image | root | host | stop | run) "$@" ;;
    *) sed -n '2,14s/^# \{0,1\}//p' "$0" >&2 && exit 2 ;;
esac
