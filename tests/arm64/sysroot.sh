#!/usr/bin/env bash
# sysroot.sh FOLDER: unpacks the arm64 packages that heed needs into FOLDER, on Debian or Ubuntu. It installs nothing on this
# machine: apt gets an empty package database, in FOLDER.apt.
set -euo pipefail
mkdir -p "$1"
root=$(cd "$1" && pwd)
apt=$root.apt
mkdir -p "$apt/lists/partial" "$apt/archives/partial"
touch "$apt/status"
export APT_CONFIG=$apt/apt.conf
cat > "$APT_CONFIG" << END
APT { Architecture "arm64"; Architectures { "arm64"; }; Install-Recommends "false"; Sandbox::User ""; };
Dir { State "$apt"; State::status "$apt/status"; Cache "$apt"; Log "$apt"; };
END
apt-get update -qq
apt-get install -qq --yes --download-only libc6-dev libstdc++6 libgomp1 libfmt-dev libhwy-dev libcli11-dev \
  libboost-dev nlohmann-json3-dev libtomlplusplus-dev libpcre2-dev libhdf5-dev libsentencepiece-dev libgtest-dev
for package in "$apt"/archives/*.deb; do dpkg-deb -x "$package" "$root"; done
ln -sf hdf5-serial.pc "$root/usr/lib/aarch64-linux-gnu/pkgconfig/hdf5.pc"  # as the installation script of libhdf5-dev does
# Absolute links, such as to /lib, would point out of the folder: make them relative.
find "$root" -lname '/*' | while read -r link; do
  ln -sfn "$(realpath -m --relative-to="$(dirname "$link")" "$root$(readlink "$link")")" "$link"
done
