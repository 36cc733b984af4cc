#!/usr/bin/env bash
# Runs what `./x bundle` built, on a machine with a Hopper GPU and its driver; Rust and the sources are not
# needed. cuBLAS is looked for in a CUDA toolkit and in Python's packages (torch, nvidia-cublas).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# Where the archive is unpacked while a command runs.
files=$(mktemp -d)
trap 'rm -rf "$files"' EXIT
# A kernel that hangs would hang its caller: every program is ended after this many seconds.
limit=${LIMIT:-540}

usage() {
    cat <<'EOF'
Usage: run.sh COMMAND [ARGUMENTS]

  info                   what driver, devices and libraries the program finds
  matmul [ARGUMENTS]     multiply the digits example and check it; with ARGUMENTS, `hopper-gemm matmul ARGUMENTS`
  test [ARGUMENTS]       the GPU tests; ARGUMENTS as for a Rust test program: a filter, --list, --test-threads 1
  bench [ARGUMENTS]      the criterion benchmarks beside cuBLAS; ARGUMENTS as for criterion: a filter, --quick
  sanitize [ARGUMENTS]   compute-sanitizer's memcheck, racecheck and synccheck on a small ragged product with every
                         kernel; with ARGUMENTS, on `hopper-gemm ARGUMENTS`
  program ARGUMENTS      `hopper-gemm ARGUMENTS`

LIMIT is the number of seconds after which a program is ended (540). Criterion writes to CRITERION_HOME.
EOF
}

# Prints the first folder with a library whose name starts with $1, out of those where the loader does not look.
library_folder() {
    python3 - "$1" <<'EOF'
import glob, site, sys

folders = ["/usr/local/cuda/lib64", "/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
for base in dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()]):
    for pattern in ("nvidia/*/lib", "torch/lib"):
        folders += sorted(glob.glob(f"{glob.escape(base)}/{pattern}"))
print(next((folder for folder in folders if glob.glob(f"{folder}/{sys.argv[1]}*")), ""))
EOF
}

# Makes the loader find the driver's library and cuBLAS.
find_libraries() {
    local name folder known
    known=$(PATH=$PATH:/usr/sbin:/sbin ldconfig -p)
    for name in libcuda.so.1 libcublasLt.so libcublas.so; do
        [[ $known != *"$name"* ]] || continue
        folder=$(library_folder "$name")
        if [[ -n $folder && :${LD_LIBRARY_PATH:-}: != *:"$folder":* ]]; then
            export LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$folder
        fi
    done
}

limited() { timeout --kill-after=10 "$limit" "$@"; }

sanitizer() {
    local folder
    for folder in "" /usr/local/cuda/bin/ /usr/local/cuda/compute-sanitizer/; do
        if command -v "${folder}compute-sanitizer"; then return; fi
    done
    echo "run.sh: no compute-sanitizer on PATH or under /usr/local/cuda" >&2
    return 1
}

# The kernels that `sanitize` runs, with the options that make blocks of a cluster meet, and clusters.
sanitized=(v0 v1 v2 v3 v4 v5 gemv "split --splits 2" "split --tile 16x64x64 --stages 10 --splits 2 --parts 2"
    "parts --cluster 1x1 --parts 2" "parts --cluster 2x1 --parts 2" "persistent --cluster 2x1" "wide --tile 256x160x64 --stages 4 --cluster 1x2"
    "pingpong --cluster 2x1")

sanitize() {
    local kernel
    if (($#)); then
        sanitize_one "$@"
        return
    fi
    for kernel in "${sanitized[@]}"; do
        # shellcheck disable=SC2086 # a kernel and its options
        sanitize_one matmul --random 300x520x136 --device cuda:0 --check --kernel $kernel
    done
    # Few rows, and several rounds of a ragged K.
    sanitize_one matmul --random 5x70x3003 --device cuda:0 --check --kernel gemv
}

sanitize_one() {
    local sanitizer tool
    sanitizer=$(sanitizer)
    for tool in memcheck racecheck synccheck; do
        echo "run.sh: $tool of hopper-gemm $*"
        limited "$sanitizer" --tool "$tool" --error-exitcode 9 "$files/bin/hopper-gemm" "$@"
    done
}

bench() {
    local program
    export CRITERION_HOME=${CRITERION_HOME:-$PWD/criterion}
    for program in "$files"/benches/*; do
        limited "$program" --bench "$@"
    done
}

command=${1:-help}
shift || true
tar --extract --gzip --file "$here/files.tar.gz" --directory "$files"
find_libraries
case $command in
    info) limited "$files/bin/hopper-gemm" info "$@" ;;
    matmul)
        (($#)) || set -- --a "$files/examples/digits/digits.npy" --b "$files/examples/digits/axes.npy" --check
        limited "$files/bin/hopper-gemm" matmul "$@"
        ;;
    test)
        for program in "$files"/tests/*; do limited "$program" "$@"; done
        ;;
    bench) bench "$@" ;;
    sanitize) sanitize "$@" ;;
    program) limited "$files/bin/hopper-gemm" "$@" ;;
    help | -h | --help) usage ;;
    *)
        usage >&2
        exit 2
        ;;
esac
