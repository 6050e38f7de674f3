package docs_test

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`^#{1,6} +(.+?) *#*$`)
	// mention is a make command in code: between backticks or as a line of a block.
	mention = regexp.MustCompile("(?:^|`|\\$ |&& )make ([a-z][a-z0-9-]*)")
	target  = regexp.MustCompile(`^([a-z][a-z0-9-]*):(?:[^=]|$)`)
	// testName is a test mentioned in code, testFunction one that exists.
	testName     = regexp.MustCompile(`\bTest[A-Z][A-Za-z0-9]+`)
	testFunction = regexp.MustCompile(`^func (Test[A-Z][A-Za-z0-9]+)\(`)
	// notInSlug is what GitHub leaves out of a heading's anchor.
	notInSlug = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

var ignoredDirs = []string{".build", ".git", "node_modules", "testdata"}

func TestDocumentsAgreeWithTheRepository(t *testing.T) {
	problems, read := check(t, os.DirFS("../.."))
	for _, w := range problems {
		t.Error(w)
	}
	if read < 5 {
		t.Errorf("only %d documents were read: is this the top of the repository?", read)
	}
}

func TestBrokenDocumentsAreFound(t *testing.T) {
	problems, _ := check(t, fstest.MapFS{
		"Makefile": {Data: []byte("VERSION := 1\nbuild:\n\tgo build\n")},
		"README.md": {Data: []byte("# Top\n[a](docs/a.md) [b](docs/b.md) [c](docs/a.md#second-part) [d](docs/a.md#third)\n" +
			"[e](#top) [f](#bottom) [g](https://example.com/x)\n`make build` and `make bread`, and make sense\n" +
			"`TestThere`, `TestGone/sub` and `go test -run TestThere`\n")},
		"a_test.go": {Data: []byte("package a\n\nfunc TestThere(t *testing.T) {}\n")},
		"docs/a.md": {Data: []byte("# First\n## Second `part`\n```\nmake cake\n[h](nowhere.md)\n```\n[i](../README.md)\n")},
	})
	want := []string{
		"README.md:2: no such file: docs/b.md",
		"README.md:2: no heading #third in docs/a.md",
		"README.md:3: no heading #bottom in README.md",
		"README.md:4: no such target: make bread",
		"README.md:5: no such test: TestGone",
		"docs/a.md:4: no such target: make cake",
	}
	if !slices.Equal(problems, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

// TestEveryAlertHasItsPlaceInTheRunbook: who is called at night finds a heading with the alert's name,
// and no heading of an alert that nothing raises.
func TestEveryAlertHasItsPlaceInTheRunbook(t *testing.T) {
	top := os.DirFS("../..")
	alerts := matches(t, top, "deploy/helm/berth/files/alerts.yaml", regexp.MustCompile(`^\s*- alert: (\S+)$`))
	headings := matches(t, top, "docs/runbook.md", regexp.MustCompile(`^## (Berth[A-Z]\S*)$`))
	if len(alerts) < 10 {
		t.Errorf("only %d alerts were found", len(alerts))
	}
	if diff := cmp.Diff(alerts, headings); diff != "" {
		t.Errorf("the chart's alerts (-) are not the headings of the runbook (+), in this order:\n%s", diff)
	}
}

// check returns what is wrong, by document and line, and how many documents it read.
func check(t *testing.T, top fs.FS) (problems []string, read int) {
	t.Helper()
	targets := matches(t, top, "Makefile", target)
	tests := testsOf(t, top)
	err := fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignoredDirs, entry.Name()):
			return fs.SkipDir
		case entry.IsDir() || path.Ext(name) != ".md":
			return nil
		}
		read++
		d := document{t: t, top: top, name: name, targets: targets, tests: tests}
		problems = append(problems, d.check()...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return problems, read
}

// document is one Markdown file under check.
type document struct {
	t       *testing.T
	top     fs.FS
	name    string
	targets []string
	tests   map[string]bool
}

// testsOf are the names of all tests there are.
func testsOf(t *testing.T, top fs.FS) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignoredDirs, entry.Name()):
			return fs.SkipDir
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		for _, found := range matches(t, top, name, testFunction) {
			all[found] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func (d document) check() []string {
	var problems []string
	block := false
	for i, line := range lines(d.t, d.top, d.name) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			block = !block
			continue
		}
		at := fmt.Sprintf("%s:%d: ", d.name, i+1)
		for _, found := range mention.FindAllStringSubmatch(line, -1) {
			inCode := block || !strings.HasPrefix(line, "make ")
			if inCode && !slices.Contains(d.targets, found[1]) {
				problems = append(problems, at+"no such target: make "+found[1])
			}
		}
		for _, found := range testName.FindAllString(line, -1) {
			if !d.tests[found] {
				problems = append(problems, at+"no such test: "+found)
			}
		}
		for _, found := range link.FindAllStringSubmatch(line, -1) {
			if broken := d.follow(found[1]); broken != "" && !block {
				problems = append(problems, at+broken)
			}
		}
	}
	return problems
}

// follow returns the problem of a link, empty for none. Links to other places are not followed: a test that needs the
// network fails for unrelated reasons.
func (d document) follow(to string) string {
	if strings.Contains(to, "://") || strings.HasPrefix(to, "mailto:") {
		return ""
	}
	file, anchor, _ := strings.Cut(to, "#")
	name := d.name
	if file != "" {
		name = path.Join(path.Dir(d.name), file)
		if _, err := fs.Stat(d.top, name); err != nil {
			return "no such file: " + name
		}
	}
	if anchor == "" || path.Ext(name) != ".md" {
		return ""
	}
	for _, title := range matches(d.t, d.top, name, heading) {
		if slug(title) == anchor {
			return ""
		}
	}
	return fmt.Sprintf("no heading #%s in %s", anchor, name)
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	return strings.ReplaceAll(notInSlug.ReplaceAllString(strings.ToLower(title), ""), " ", "-")
}

// matches collects the first group of a pattern over the lines of a file.
func matches(t *testing.T, top fs.FS, name string, pattern *regexp.Regexp) []string {
	t.Helper()
	var all []string
	for _, line := range lines(t, top, name) {
		if found := pattern.FindStringSubmatch(line); found != nil {
			all = append(all, found[1])
		}
	}
	return all
}

func lines(t *testing.T, top fs.FS, name string) []string {
	t.Helper()
	content, err := fs.ReadFile(top, name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(content), "\n"), "\n")
}
