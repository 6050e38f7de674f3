package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const source = `syntax = "proto3";
package example;
option go_package = "github.com/berth-scheduler/berth/pkg/example";
message Thing { string name = 1; }
`

// write1 stores one file below root.
func write1(t *testing.T, root, name, content string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// check runs protogen and checks what its error says; "" for none.
func check(t *testing.T, root string, only bool, want string) {
	t.Helper()
	err := run(t.Context(), root, only, io.Discard)
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("check %t: %v, want %q", only, err, want)
	}
}

func TestRun(t *testing.T) {
	root := t.TempDir()
	write1(t, root, "pkg/example/thing.proto", source)
	check(t, root, true, "stale, run GOWORK=off go run -C tools/protogen . : pkg/example/thing.pb.go")
	check(t, root, false, "")
	check(t, root, true, "")
	code, err := os.ReadFile(filepath.Join(root, "pkg/example/thing.pb.go"))
	if err != nil || !strings.Contains(string(code), "type Thing struct") {
		t.Errorf("generated %d bytes, %v", len(code), err)
	}

	write1(t, root, "pkg/example/thing.proto", strings.Replace(source, "name", "title", 1))
	check(t, root, true, "pkg/example/thing.pb.go")
	check(t, root, false, "")
	write1(t, root, "pkg/gone/old.pb.go", "package gone\n")
	check(t, root, true, "its .proto file no longer exists: pkg/gone/old.pb.go")
}

func TestRunErrors(t *testing.T) {
	for want, content := range map[string]string{
		`go_package is "` + goPackageRoot + `pkg/example", want "` + goPackageRoot + `pkg/other"`: source,
		"pkg/other/thing.proto:1": "syntax = nonsense;",
	} {
		root := t.TempDir()
		write1(t, root, "pkg/other/thing.proto", content)
		check(t, root, false, want)
	}
	root := t.TempDir()
	if err := os.Mkdir(filepath.Join(root, "pkg"), 0o755); err != nil {
		t.Fatal(err)
	}
	check(t, root, false, "no .proto file")
}
