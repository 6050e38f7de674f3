package labs

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// examples is the folder of the examples, from this package's.
const examples = "../../examples"

// block is one fenced block of commands of a README.
type block struct {
	// line is the line of its first command, 1 for the first line of the file.
	line int
	text string
}

// up reports whether a block starts Berth.
func (b block) up() bool { return strings.HasPrefix(b.text, "berth up") }

// fleet reports whether a block starts Berth as separate processes.
func (b block) fleet() bool { return strings.HasPrefix(b.text, "../../fleet.sh up") }

// blocks are the fenced blocks without a language, in order. Others are output or excerpts.
func blocks(readme string) []block {
	const fence = "```"
	var found []block
	var open *block
	foreign := false
	for i, line := range strings.Split(readme, "\n") {
		switch {
		case !strings.HasPrefix(line, fence):
			if open != nil {
				open.text += line + "\n"
			}
		case open != nil:
			found = append(found, *open)
			open = nil
		case foreign:
			foreign = false
		case line == fence:
			open = &block{line: i + 2}
		default:
			foreign = true
		}
	}
	return found
}

func TestBlocksAreTheCommandsOfAReadme(t *testing.T) {
	got := blocks("# A\n```\none\ntwo\n```\ntext\n```text\nthree\n```\n```\nberth up --shards 1\n```\n")
	want := []block{{line: 3, text: "one\ntwo\n"}, {line: 11, text: "berth up --shards 1\n"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got[0].up() || !got[1].up() {
		t.Errorf("the second block starts Berth, the first does not: %+v", got)
	}
}

// folders are the names of all labs.
func folders(t *testing.T) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(examples, "labs"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func read(t *testing.T, path ...string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{examples}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// Who reads the list of labs finds every lab, and who reads a lab every file of it.
func TestLabsAreComplete(t *testing.T) {
	index := read(t, "README.md")
	for _, name := range folders(t) {
		if link := fmt.Sprintf("[%s](labs/%s/README.md)", name, name); !strings.Contains(index, link) {
			t.Errorf("examples/README.md has no %s", link)
		}
		all := blocks(read(t, "labs", name, "README.md"))
		if len(all) == 0 || !strings.HasPrefix(all[len(all)-1].text, "kubectl delete") {
			t.Errorf("%s: the last block of its README does not clean up", name)
		}
		used := filesIn(all)
		files, err := filepath.Glob(filepath.Join(examples, "labs", name, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		for _, file := range files {
			there[filepath.Base(file)] = true
		}
		if diff := cmp.Diff(used, there); diff != "" {
			t.Errorf("%s: the files that its README's commands use (-) are not those beside it (+):\n%s", name, diff)
		}
	}
}

var manifest = regexp.MustCompile(`[a-z0-9-]+\.yaml`)

// filesIn are the manifests that blocks mention.
func filesIn(all []block) map[string]bool {
	files := map[string]bool{}
	for _, b := range all {
		for _, file := range manifest.FindAllString(b.text, -1) {
			files[file] = true
		}
	}
	return files
}
