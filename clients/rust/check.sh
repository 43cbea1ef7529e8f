#!/usr/bin/env bash
# Format, clippy, unit tests, tests of the documentation. Then the crate is packaged, and an empty project with the package runs the worker of
# README.md against the server at TARRY_URL, until a SIGTERM comes while a handler works.
set -euo pipefail
cd "$(dirname "$0")"
: "${TARRY_URL:?give the URL of a server}"
export CARGO_TARGET_DIR=$PWD/target CARGO_TERM_QUIET=true
cargo fmt --check
cargo clippy --locked --all-targets --all-features -- -D warnings
cargo clippy --locked -- -D warnings
cargo test --locked --all-features
RUSTDOCFLAGS="-D warnings" cargo doc --locked --no-deps --all-features

version=$(sed -n 's/^project(tarry VERSION \([0-9.]*\) .*/\1/p' ../../CMakeLists.txt)
cargo package --locked --allow-dirty --quiet
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
tar -xzf "target/package/tarry-$version.crate" -C "$place"
mkdir -p "$place/empty/src"
cp Cargo.lock "$place/empty/" # the same versions, which are built already
cat >"$place/empty/Cargo.toml" <<END
[package]
name = "empty"
version = "0.0.0"
edition = "2021"

[dependencies]
tarry = { path = "$place/tarry-$version" }
END
worker=$(sed -n '/^fn main/,/^}/p' README.md)
[ "$(wc -l <<<"$worker")" -le 10 ] || { echo "the worker of README.md has more than 10 lines" && exit 1; }
# A handler that works for a while when the signal comes.
sed 's|println!(\(.*\));|println!(\1); std::thread::sleep(std::time::Duration::from_secs(1)); println!("closed");|' <<<"$worker" >"$place/empty/src/main.rs"
cd "$place/empty"
cargo build
jobs=$TARRY_URL/v1/topics/orders
curl -sfS -X PUT "$jobs/jobs/1001" -H 'Content-Type: application/json' -d '{"order":1001}' >/dev/null
"$CARGO_TARGET_DIR/debug/empty" >output &
pid=$!
until grep -q '^closing 1001: {"order":1001}$' output; do
    kill -0 $pid || { echo "the worker has ended" && exit 1; }
    sleep 0.05
done
kill -TERM $pid
wait $pid
grep -q '^closed$' output || { echo "the worker has not waited for its handler" && exit 1; }
curl -sfS "$jobs" | grep -q '"acked": *1' || { echo "the job is not acked" && exit 1; }
echo "tarry $version works"
