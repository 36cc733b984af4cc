# The set-up half of `./x`: functions that make sure that something is there, and say what they install and
# why. Sourced by `x` in the project's root, with `root` set and errexit on.
# shellcheck shell=bash

: "${root:?is set by x}"

# The pinned release of Rust, and the name under which rustup knows Debian's package of it.
rust=$(sed -n 's/^channel = "\(.*\)"$/\1/p' rust-toolchain.toml)
debian_rust=debian-$rust
# CUDA's programs and a libcuda to link with, laid out as in a CUDA toolkit. build.rs and .cargo/config.toml
# look here.
cuda=$root/.tools/cuda

say() { printf 'x: %s\n' "$*" >&2; }

die() {
    say "$*"
    exit 1
}

has() { command -v "$1" >/dev/null; }

# link TARGET NAME: makes NAME a symbolic link to TARGET. One that is there is left alone, because build.rs runs
# again when anything in .tools is newer than its last run.
link() {
    [[ $(readlink "$2") != "$1" ]] || return 0
    mkdir -p "$(dirname "$2")"
    ln -sfn "$1" "$2"
}

# ------------------------------------------------------------------------------------------------- packages

on_debian() { has apt-get && grep -q '^ID=debian$' /etc/os-release; }

# apt_install WHY PACKAGE...: installs Debian packages. Fails where that is not possible: not Debian, not root,
# a version that is not offered, or a package that would take the place of another.
apt_install() {
    local why=$1 log
    shift
    on_debian || return 1
    if ((EUID != 0)); then
        say "root could install $why with apt: $*"
        return 1
    fi
    say "installing $why with apt: $*"
    log=$(mktemp)
    if apt-get update >"$log" 2>&1 && DEBIAN_FRONTEND=noninteractive \
        apt-get install --yes --no-install-recommends --no-remove "$@" >>"$log" 2>&1; then
        rm "$log"
    else
        say "apt refuses; the end of $log:"
        tail -n 5 "$log" >&2
        return 1
    fi
}

# wheels NAME WHY: what tools/NAME.txt pins, from PyPI into .tools/NAME. Python's own packages are not touched.
wheels() {
    local pins=tools/$1.txt why=$2 into=.tools/$1
    ! cmp --silent "$pins" "$into/pins" || return 0
    python3 -m pip --version >/dev/null 2>&1 || apt_install "pip, which fetches pinned tools," python3-pip ||
        die "python3 with pip is needed to install $why"
    say "installing $why with pip into $into: $(sed -n 's/^\([a-z-]*==[^ ]*\).*/\1/p' "$pins" | xargs)"
    rm -rf "$into"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore \
        --no-deps --require-hashes --only-binary :all: --target "$into" --requirement "$pins"
    cp "$pins" "$into/pins" # last, so that an interrupted installation is not taken for a whole one
}

# ----------------------------------------------------------------------------------------------------- Rust

# Whether the rustc and cargo on PATH are the pinned release, with clippy, rustfmt and the source of Rust's
# core library, which the kernels need compiled for the GPU.
rust_fits() {
    local sysroot
    [[ $(rustc --version 2>/dev/null) == "rustc $rust "* ]] &&
        [[ $(cargo --version 2>/dev/null) == "cargo $rust "* ]] &&
        sysroot=$(rustc --print sysroot) &&
        [[ -f $sysroot/lib/rustlib/src/rust/library/core/src/lib.rs ]] &&
        [[ -x $sysroot/bin/clippy-driver && -x $sysroot/bin/rustfmt ]]
}

setup_rust() {
    # An override of the caller's would hide the pinned release. And rustup must not start a download merely
    # because it is asked for its version.
    unset RUSTUP_TOOLCHAIN
    export RUSTUP_AUTO_INSTALL=0

    local path=$PATH
    if ! rust_fits; then
        PATH=/usr/bin:$path
        if rust_fits || apt_install "Rust $rust (the kernels are compiled by exactly this release)" \
            "rustc-web=$rust*" "cargo-web=$rust*" "rust-web-src=$rust*" "rustfmt-web=$rust*" "rust-web-clippy=$rust*"; then
            :
        elif has rustup; then
            PATH=$path
            say "installing Rust $rust with rustup (the kernels are compiled by exactly this release)"
            timeout 600 rustup toolchain install "$rust" --no-self-update --profile minimal \
                --component rust-src --component rustfmt --component clippy ||
                say "rustup cannot install it, or not within ten minutes"
        fi
        rust_fits || die "Rust $rust with rust-src, rustfmt and clippy is needed: install rustup, or run ./x as root on Debian 12"
    fi

    if [[ $(rustc --print sysroot) == /usr ]]; then
        link_into_rustup
        PATH=$path
        if ! rust_fits; then
            PATH=/usr/bin:$path
            say "plain cargo needs /usr/bin first on PATH: $(PATH=$path command -v cargo) is another release"
        fi
    fi
    has cc || apt_install "the linker that rustc calls" gcc libc6-dev || die "a C compiler is needed to link: install gcc"
}

# Makes plain `cargo` work in this folder where rustup's proxies come first on PATH: rustup learns of Debian's
# toolchain under a name of its own, and to use it here. (With a link under the name of the pinned release,
# rustup would take the toolchain for its own, and might write into /usr.)
link_into_rustup() {
    has rustup || return 0
    [[ $(rustup show active-toolchain 2>/dev/null) != "$debian_rust "* ]] || return 0
    say "telling rustup to use Debian's Rust $rust in this folder (rustup override)"
    rustup --quiet toolchain link "$debian_rust" /usr
    rustup --quiet override set "$debian_rust" --path "$root"
}

# ---------------------------------------------------------------------------------------------------- tools

setup_shellcheck() {
    has shellcheck || wheels shellcheck "shellcheck"
}

# ptxas and nvdisasm, with which build.rs assembles and judges the kernels.
setup_ptxas() {
    local home
    for home in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
        if [[ -x $home/bin/ptxas && -x $home/bin/nvdisasm ]]; then return; fi
    done
    if has ptxas && has nvdisasm; then return; fi
    wheels cuda-tools "ptxas and nvdisasm (they check the kernels' machine code)"
    link ../cuda-tools/nvidia/cu13/bin "$cuda/bin"
}

# -------------------------------------------------------------------------------------------------- libcuda

# Prints where the driver's libcuda.so.1 is; fails where there is no driver.
driver_library() {
    local folder IFS=:
    PATH=$PATH:/usr/sbin:/sbin ldconfig -p 2>/dev/null |
        awk '!found && /libcuda\.so\.1 .*64/ { print $NF; found = 1 } END { exit !found }' && return
    for folder in ${LD_LIBRARY_PATH:-}; do
        if [[ -e $folder/libcuda.so.1 && ! $folder -ef $cuda/lib64 ]]; then
            echo "$folder/libcuda.so.1"
            return
        fi
    done
    return 1
}

# A libcuda to link `--features cuda` with: the caller's, a toolkit's, the driver's, or else Debian's.
setup_libcuda() {
    local folder library
    [[ -z ${CUDA_LIBRARY_PATH:-} ]] || return 0
    for folder in /usr/local/cuda*/lib64 /opt/cuda/lib64; do
        if [[ -e $folder/libcuda.so || -e $folder/stubs/libcuda.so ]]; then return; fi
    done
    if library=$(driver_library); then
        link "$library" "$cuda/lib64/libcuda.so"
    elif [[ ! -e $cuda/lib64/libcuda.so ]]; then
        debian_libcuda ||
            die "--features cuda needs a libcuda.so to link with: install a CUDA toolkit or NVIDIA's driver"
    fi
}

# Unpacks Debian's libcuda1 into .tools. It is in the component non-free, which is asked for by lists kept
# apart from the system's, so that those stay as they are.
debian_libcuda() {
    on_debian || return 1
    local suite repository scratch=$root/.tools/libcuda
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    # shellcheck disable=SC2016 # the fields are for apt to fill in
    repository=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' |
        sed -n "s/ $suite main\$//p" | head -n 1)
    [[ -n $repository ]] || return 1
    say "unpacking Debian's libcuda1 into .tools (--features cuda links with it)"
    rm -rf "$scratch"
    mkdir -p "$scratch"/{lists,cache/archives}/partial
    echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $repository $suite non-free" \
        >"$scratch/sources.list"
    local apt=(apt-get --quiet=2 -o "APT::Sandbox::User=$(id -un)" -o "Dir::Etc::SourceList=$scratch/sources.list"
        -o Dir::Etc::SourceParts=/dev/null -o "Dir::State::Lists=$scratch/lists" -o "Dir::Cache=$scratch/cache")
    "${apt[@]}" update >&2 && (cd "$scratch" && "${apt[@]}" download libcuda1 >&2) || return 1
    dpkg-deb --extract "$scratch"/libcuda1_*.deb "$scratch/unpacked" || return 1
    mkdir -p "$cuda/lib64"
    mv "$scratch"/unpacked/usr/lib/*/nvidia/current/libcuda.so* "$cuda/lib64/" || return 1
    rm -r "$scratch"
}

# Runs a command whose programs were built with `--features cuda`. Where there is no driver, they get Debian's
# libcuda, which finds no device.
with_libcuda() {
    if driver_library >/dev/null; then
        "$@"
    else
        LD_LIBRARY_PATH=${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$cuda/lib64 "$@"
    fi
}
