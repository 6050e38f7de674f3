package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// TestEveryPageIsInTheIndexOnce: docs/README.md lists the pages of docs, and folders of pages by their own index.
func TestEveryPageIsInTheIndexOnce(t *testing.T) {
	for _, problems := range checkIndex(t, os.DirFS("../..")) {
		t.Error(problems)
	}
}

func TestMissingPagesOfTheIndexAreFound(t *testing.T) {
	page := &fstest.MapFile{}
	got := checkIndex(t, fstest.MapFS{
		"docs/README.md": {Data: []byte("# Index\n- [a](a.md): a\n- [b](b.md): b\n- [b](b.md#part), again\n" +
			"[up](../README.md)\n")},
		"docs/a.md": page, "docs/b.md": page, "docs/c.md": page,
		"docs/more/README.md": page, "docs/more/0001.md": page, "docs/plots/p.svg": page,
	})
	want := []string{
		"docs/README.md: b.md is listed 2 times, want once",
		"docs/README.md: c.md is listed 0 times, want once",
		"docs/README.md: more/README.md is listed 0 times, want once",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// checkIndex returns the problems of the index, by page.
func checkIndex(t *testing.T, top fs.FS) (problems []string) {
	t.Helper()
	times := map[string]int{}
	for _, line := range lines(t, top, "docs/README.md") {
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			name, _, _ := strings.Cut(found[1], "#")
			times[name]++
		}
	}
	for _, pattern := range []string{"docs/*.md", "docs/*/README.md"} {
		names, err := fs.Glob(top, pattern)
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(names)
		for _, name := range names {
			page := strings.TrimPrefix(name, "docs/")
			if n := times[page]; page != "README.md" && n != 1 {
				problems = append(problems, fmt.Sprintf("docs/README.md: %s is listed %d times, want once", page, n))
			}
		}
	}
	return problems
}
