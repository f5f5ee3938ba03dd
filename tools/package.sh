#!/bin/bash
# Makes the Debian packages of a build and tries the program's in a bare Debian: installed by apt, the quickstart's job as an ordinary
# user, with the installation read-only and without HOME.
#   tools/package.sh [--set table.key=value]...     further words go to the quickstart's job
# Needs root and mmdebstrap. SUITE=trixie tries another Debian, of which BUILD must then be a build. What stays is build/package.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build/release}
suite=${SUITE:-bookworm}
packages=$PWD/build/package
root=$packages/root
sources=/etc/apt/sources.list.d/debian.sources
mirror=${MIRROR:-$(sed -n 's/^URIs: *//p' $sources 2>/dev/null | head -n 1)}

step() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
fail() { echo "package.sh: $*" >&2; exit 1; }

# The programs of the shells that these start are to read their own variables.
# shellcheck disable=SC2016

# inside COMMAND...: runs it in the root, in a namespace of its own whose mounts end with it. All but /srv and /tmp is read-only, if
# there are no packages to install.
inside() {
  root=$root writable=${writable:-} unshare -m --propagation private bash -c '
    set -e
    mount --bind "$root" "$root"
    for place in proc sys dev; do mount --rbind "/$place" "$root/$place"; done
    for place in srv tmp; do mount --bind "$root/$place" "$root/$place"; done
    [[ $writable ]] || mount -o remount,bind,ro "$root"
    exec chroot "$root" "$@"' bash "$@"
}
as_user() { inside setpriv --reuid=1000 --regid=1000 --clear-groups env -i PATH=/usr/bin:/bin bash -c "cd /srv/work && $1" bash "${@:2}"; }

((EUID == 0)) || fail "needs root, to make a root directory"
command -v mmdebstrap >/dev/null || fail "needs mmdebstrap: apt-get install mmdebstrap"
[[ -e $build/CPackConfig.cmake ]] || fail "there is no build in $build: cmake --preset release && cmake --build --preset release"

step "packages of $build"
mkdir -p "$packages"
rm -f "$packages"/*.deb
cpack --config "$build/CPackConfig.cmake" -G DEB -B "$packages"
package=$(ls "$packages"/sluice_*.deb)
dpkg-deb --info "$package"

step "a bare Debian: $suite${mirror:+ from $mirror}"
rm -rf "$root"
mmdebstrap --quiet --variant=apt --aptopt='Acquire::Check-Valid-Until "false"' --include=ca-certificates "$suite" "$root" ${mirror:+"$mirror"}
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
cp "$package" "$root/tmp/"
writable=yes inside apt-get -qq -o Acquire::Check-Valid-Until=false update
step "apt-get install $(basename "$package")"
writable=yes inside env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y -o Dpkg::Use-Pty=0 --no-install-recommends "/tmp/$(basename "$package")" >"$packages/install.log" 2>&1 ||
  { tail -n 30 "$packages/install.log" >&2; fail "apt could not install the package"; }
mkdir "$root/srv/work"
chown 1000:1000 "$root/srv/work"
chmod 1777 "$root/tmp"

step "the quickstart's job"
# shellcheck disable=SC2016  # the user's shell expands it
as_user 'sluice --version && ! touch /usr/bin/sluice.written 2>/dev/null && [[ -z ${HOME-} ]]'
as_user 'sluice synthesize /usr/share/sluice/configs/quickstart-model models/quickstart --seed 1'
as_user 'sluice tokenize models/quickstart /usr/share/sluice/configs/quickstart-model/moby-dick.txt --documents blank --holdout 0.05 -o models/quickstart/book.h5'
as_user 'sluice launch -n 3 /usr/share/sluice/configs/quickstart.toml "$@" -- --oversubscribe' "$@"
as_user 'sluice status runs/quickstart && sluice generate runs/quickstart --prompt "Call me Ishmael." --max-tokens 20'
step "done; the packages are $packages/*.deb"
