#!/usr/bin/env bash
# Format, vet, unit tests under the race detector; then the module is installed from a proxy of files into an empty project with a module
# cache of its own, and pushes and takes a job of the server at TARRY_URL.
set -euo pipefail
cd "$(dirname "$0")"
: "${TARRY_URL:?give the URL of a server}"
export GOFLAGS=-mod=mod GOTOOLCHAIN=local GOSUMDB=off
unformatted=$(gofmt -l . ../../examples/go)
[ -z "$unformatted" ] || { echo "gofmt would change: $unformatted" && exit 1; }
go vet ./...
go test -race -count=1 ./...

version=v$(sed -n 's/^project(tarry VERSION \([0-9.]*\) .*/\1/p' ../../CMakeLists.txt)
module=$(sed -n 's/^module //p' go.mod)
place=$(mktemp -d)
trap 'chmod -R u+w "$place" && rm -rf "$place"' EXIT
proxy=$place/proxy/$module/@v
mkdir -p "$proxy" "$place/zip/$module@$version" "$place/empty"
cp -r ./*.go go.mod README.md cmd "$place/zip/$module@$version/"
(cd "$place/zip" && python3 -c 'import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1], "w") as made:
    [made.write(path) for path in sorted(pathlib.Path().rglob("*")) if path.is_file()]' "$proxy/$version.zip") # without entries for folders, which Go refuses
cp go.mod "$proxy/$version.mod"
echo "$version" >"$proxy/list"
echo "{\"Version\":\"$version\",\"Time\":\"2026-01-01T00:00:00Z\"}" >"$proxy/$version.info"

cd "$place/empty"
export GOPROXY=file://$place/proxy GOMODCACHE=$place/modules
go mod init empty 2>/dev/null
go get "$module@$version"
cat >main.go <<END
package main

import (
	"context"
	"log"

	tarry "$module"
)

func main() {
	client, err := tarry.New(tarry.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	pushed, err := client.Push(ctx, tarry.Push{Topic: "go-module", Body: map[string]int{"order": 1001}})
	if err != nil {
		log.Fatal(err)
	}
	var order struct{ Order int }
	handle := func(_ context.Context, job *tarry.Job) error {
		if err := job.JSON(&order); err != nil || job.ID != pushed.ID {
			log.Fatal("another job: ", job.ID, err)
		}
		stop()
		return nil
	}
	if err := tarry.NewWorker(client, []string{"go-module"}, handle, tarry.WorkerOptions{}).Run(ctx); err != nil || order.Order != 1001 {
		log.Fatal(order, err)
	}
}
END
go run .

mkdir worker # that of README.md
{
    printf 'package main\n\nimport (\n\t"context"\n\t"log"\n\t"os"\n\t"os/signal"\n\t"syscall"\n\n\ttarry "%s"\n)\n\n' "$module"
    sed -n '/^func main/,/^}/p' "$place/zip/$module@$version/README.md" | tee worker.txt
    printf '\nfunc closeOrder(ctx context.Context, job *tarry.Job) error { return nil }\n'
} >worker/main.go
[ "$(wc -l <worker.txt)" -le 10 ] || { echo "the worker of README.md has more than 10 lines" && exit 1; }
go vet ./worker
go list -m -f '{{.Path}} {{.Version}} works' "$module"
