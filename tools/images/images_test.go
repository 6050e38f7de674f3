package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/tools/images/internal/oci"
	"github.com/berth-scheduler/berth/tools/images/internal/verify"
)

// standIn is a program that answers as berth does to the requests of the check, and links nothing.
const standIn = `package main

import (
	"fmt"
	"os"
	"runtime"
)

var version string

func main() {
	if len(os.Args) == 2 && os.Args[1] == "version" {
		fmt.Println("stand-in", version, runtime.GOOS+"/"+runtime.GOARCH, os.Getuid())
		return
	}
	fmt.Fprintln(os.Stderr, "stand-in: nats-url is missing")
	os.Exit(1)
}
`

// newTree writes a repository that contains only the stand-in.
func newTree(t *testing.T, program string) string {
	t.Helper()
	root := t.TempDir()
	for name, content := range map[string]string{
		"go.work":           "go 1.26.0\n\nuse ./cmd/berth\n",
		"cmd/berth/go.mod":  "module example.com/berth\n\ngo 1.26.0\n",
		"cmd/berth/main.go": program,
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func build(t *testing.T, root string) string {
	t.Helper()
	f := flags{root: root, out: filepath.Join(root, "out"), version: "v1.2.3", created: 1_700_000_000}
	if err := f.build(t.Context()); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(f.out, oci.LayoutDir)
}

// TestTheSameSourceGivesTheSameDigest: in every folder, and another source gives another digest.
func TestTheSameSourceGivesTheSameDigest(t *testing.T) {
	first, reports, err := verify.Layout(build(t, newTree(t, standIn)))
	if err != nil {
		t.Fatal(err)
	}
	if len(reports) != len(architectures) {
		t.Errorf("%d images: want %d", len(reports), len(architectures))
	}
	for _, r := range reports {
		if r.Output != "" && !strings.Contains(r.Output, "65532") {
			t.Errorf("the program ran as another user: %q", r.Output)
		}
	}
	second, _, err := verify.Layout(build(t, newTree(t, standIn)))
	if err != nil {
		t.Fatal(err)
	}
	if first != second {
		t.Errorf("two folders give %s and %s", first, second)
	}
	other, _, err := verify.Layout(build(t, newTree(t, strings.Replace(standIn, "missing", "absent", 1))))
	if err != nil {
		t.Fatal(err)
	}
	if first == other {
		t.Error("another program gives the same digest")
	}
}

// TestWhatIsWrongIsFound plants one fault after the other.
func TestWhatIsWrongIsFound(t *testing.T) {
	t.Run("a changed blob", func(t *testing.T) {
		layout := build(t, newTree(t, standIn))
		blobs, err := filepath.Glob(filepath.Join(layout, "blobs", "sha256", "*"))
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, blob := range blobs {
			content, err := os.ReadFile(blob)
			if err != nil {
				t.Fatal(err)
			}
			changed := append([]byte{}, content...)
			changed[len(changed)/2] ^= 1
			if err := os.WriteFile(blob, changed, 0o644); err != nil {
				t.Fatal(err)
			}
			if _, _, err := verify.Layout(layout); err != nil {
				found++
			} else {
				t.Errorf("%s: nobody saw the change", filepath.Base(blob))
			}
			if err := os.WriteFile(blob, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if found < 9 { // index, two of image, config, layer, artifact and bill
			t.Errorf("%d blobs checked: want at least 9", found)
		}
	})
	t.Run("a program that does not know its version", func(t *testing.T) {
		_, _, err := verify.Layout(build(t, newTree(t, strings.Replace(standIn, "version,", "\"?\",", 1))))
		if err == nil || !strings.Contains(err.Error(), "v1.2.3") {
			t.Errorf("got %v, want an error that names the version", err)
		}
	})
}
