# What tools/setup and tools/freethreaded share: to be sourced, from the project's root.

say() { echo "${0##*/}: $*"; }
die() { echo "${0##*/}: $*" >&2 && exit 1; }

is_installed() {
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# Install those of "$@" that are missing. Asks nothing of the network if none is.
debian_packages() {
    local missing=() package as_root=()
    command -v dpkg-query >/dev/null || return 0
    for package in "$@"; do
        is_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || die "these Debian packages are missing, and" \
            "installing them needs root or sudo; as root run:" \
            "apt-get install ${missing[*]}"
        as_root=(sudo)
        [ -t 0 ] || as_root=(sudo -n)
    fi
    say "installing ${missing[*]} with apt-get"
    "${as_root[@]}" apt-get -q -o DPkg::Lock::Timeout=300 update
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y \
        -o DPkg::Lock::Timeout=300 install --no-install-recommends "${missing[@]}" ||
        die "apt-get could not install: ${missing[*]}"
}
