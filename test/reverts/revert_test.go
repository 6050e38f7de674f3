package reverts_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the top of the repository.
const root = "../.."

// revert is a fix that is taken away.
type revert struct {
	// bug is its number in docs/bugs.md.
	bug int
	// taken says what is taken away.
	taken string
	edits []edit
	// fails are the tests that fail without the fix.
	fails []failing
}

// edit replaces the only place in a file that has the old text. The file's name begins at the root.
type edit struct{ file, old, new string }

// failing is a test in the folder of a package.
type failing struct{ pkg, name string }

// reverts are all entries.
func reverts() []revert { return slices.Concat(ledger, stores, shards, binders, queues, others) }

// apply makes the edit in the text of its file.
func (e edit) apply(text string) (string, error) {
	if n := strings.Count(text, e.old); n != 1 {
		return "", fmt.Errorf("the entry is stale: %s has this text %d times, want once:\n%s", e.file, n, e.old)
	}
	return strings.Replace(text, e.old, e.new, 1), nil
}

// texts are those of the changed files, by name.
func (r revert) texts() (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range r.edits {
		text, known := changed[e.file]
		if !known {
			data, err := os.ReadFile(filepath.Join(root, e.file))
			if err != nil {
				return nil, err
			}
			text = string(data)
		}
		text, err := e.apply(text)
		if err != nil {
			return nil, err
		}
		changed[e.file] = text
	}
	return changed, nil
}

// verdict says what is wrong with the output of a test that ran without its fix; nil if the test failed.
func verdict(output, name string) error {
	switch {
	case strings.Contains(output, "[build failed]"), strings.Contains(output, "[setup failed]"):
		return errors.New("it does not compile")
	case strings.Contains(output, "panic: test timed out"):
		return errors.New("the test runs out of time")
	case strings.Contains(output, "no tests to run"):
		return errors.New("there is no such test")
	case !ended("FAIL", name, output):
		return errors.New("the test does not fail")
	}
	return nil
}

// ended reports whether a test of the top level ended like that.
func ended(how, name, output string) bool {
	return regexp.MustCompile(`(?m)^--- ` + how + `: ` + name + ` \(`).MatchString(output)
}

func TestVerdicts(t *testing.T) {
	for name, c := range map[string]struct{ output, want string }{
		"fails":           {"--- FAIL: TestA (0.00s)\n    a_test.go:7: no\nFAIL\nFAIL\tp\t0.1s\nFAIL\n", ""},
		"panics":          {"--- FAIL: TestA (0.00s)\npanic: no [recovered]\nFAIL\tp\t0.1s\nFAIL\n", ""},
		"passes":          {"ok  \tp\t0.1s\n", "does not fail"},
		"another fails":   {"--- FAIL: TestAB (0.00s)\nFAIL\tp\t0.1s\nFAIL\n", "does not fail"},
		"a subtest alone": {"    --- FAIL: TestA (0.00s)\nFAIL\n", "does not fail"},
		"the process dies": {
			"panic: in another goroutine\n\ngoroutine 7 [running]:\nFAIL\tp\t0.1s\nFAIL\n", "does not fail"},
		"no such test": {"testing: warning: no tests to run\nok  \tp\t0.1s [no tests to run]\n", "no such test"},
		"no compiling": {"# p\n./a.go:3:1: declared and not used: x\nFAIL\tp [build failed]\nFAIL\n", "does not compile"},
		"no package":   {"FAIL\tp [setup failed]\nFAIL\n", "does not compile"},
		"no time": {
			"--- FAIL: TestA (60.00s)\npanic: test timed out after 1m0s\nFAIL\tp\t60.1s\nFAIL\n", "out of time"},
	} {
		err := verdict(c.output, "TestA")
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// Every entry finds its text, and tests that exist.
func TestEntriesAreCurrent(t *testing.T) {
	for _, r := range reverts() {
		if _, err := r.texts(); err != nil {
			t.Errorf("bug %d: %v", r.bug, err)
		}
		if len(r.edits) == 0 || len(r.fails) == 0 || !strings.HasSuffix(r.taken, ".") {
			t.Errorf("bug %d: %q: want a sentence, an edit and a test", r.bug, r.taken)
		}
		for _, f := range r.fails {
			if !has(t, f) {
				t.Errorf("bug %d: no %s in %s", r.bug, f.name, f.pkg)
			}
		}
	}
}

// has reports whether a test is in its package.
func has(t *testing.T, f failing) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, f.pkg, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(name string) bool {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(string(text), "\nfunc "+f.name+"(t *testing.T)")
	})
}

// replayed is a pattern of tests in a row of docs/bugs.md.
var replayed = regexp.MustCompile("-run '?([^' `/]+)")

// Each bug has a row in docs/bugs.md, whose line to replay it runs a test of one of the bug's entries.
func TestEntriesAreOfKnownBugs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "docs", "bugs.md"))
	if err != nil {
		t.Fatal(err)
	}
	patterns, found := map[int][]string{}, map[int]bool{}
	for line := range strings.Lines(string(data)) {
		bug, err := strconv.Atoi(strings.TrimSpace(strings.SplitN(line+"||", "|", 3)[1]))
		if err != nil {
			continue // no row
		}
		for _, m := range replayed.FindAllStringSubmatch(line, -1) {
			patterns[bug] = append(patterns[bug], strings.ReplaceAll(m[1], `\|`, "|"))
		}
	}
	for _, r := range reverts() {
		found[r.bug] = found[r.bug] || slices.ContainsFunc(r.fails, func(f failing) bool {
			return slices.ContainsFunc(patterns[r.bug], func(p string) bool {
				return regexp.MustCompile(p).MatchString(f.name)
			})
		})
	}
	for bug, runs := range found {
		if !runs {
			t.Errorf("bug %d: docs/bugs.md runs %q, none of which is a test of its entries", bug, patterns[bug])
		}
	}
}
