#!/usr/bin/env bash
# Installs the Debian 12 packages that are missing, saying which; with --test the browser that tests
# open the report in, the PyTorch that models are compared with (with a BLAS that is eight times as
# fast as Debian's default), what drops packets between processes, what the style is checked with,
# what prints Grafana's dashboards and what renders Kubernetes' manifests (where there is no kubectl),
# with --fuzz what the fuzz preset needs. Where nothing is missing it only looks.
set -euo pipefail

packages=(build-essential g++ cmake ninja-build ccache pkg-config git python3
  libzmq3-dev cppzmq-dev libprotobuf-dev protobuf-compiler libabsl-dev libgoogle-glog-dev
  libgtest-dev libgmock-dev libdnnl-dev zlib1g-dev libpng-dev libssl-dev nlohmann-json3-dev
  libcli11-dev libmicrohttpd-dev libxxhash-dev prometheus-cpp-dev libcurl4-openssl-dev)
for option in "$@"; do
  case $option in
    --test)
      packages+=(chromium python3-torch libopenblas0-pthread nftables iproute2 clang-14
        clang-format-14 clang-tidy-14 python3-yaml jsonnet)
      if ! command -v kubectl >/dev/null; then packages+=(kubernetes-client); fi
      ;;
    --fuzz) packages+=(clang-14 libclang-rt-14-dev) ;;
    *)
      echo "setup: unknown option $option" >&2
      exit 78
      ;;
  esac
done

if ! command -v dpkg-query >/dev/null; then
  echo "setup: not a Debian system; these packages (or their like) are needed: ${packages[*]}" >&2
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  if ! dpkg-query -W -f='${db:Status-Abbrev}' "$package" 2>/dev/null | grep -q '^ii'; then
    missing+=("$package")
  fi
done
if [[ ${#missing[@]} -eq 0 ]]; then
  exit 0
fi

as_root=()
if [[ $(id -u) -ne 0 ]]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: missing packages, and neither root nor sudo to install them: ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  "${missing[@]}" >/dev/null
echo "setup: installed ${#missing[@]} packages"
