//go:build e2e

package reverts_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	// within bounds one test.
	within = "5m"
	// parallel is how many subtests run at once: those that wait for what does not come wait together.
	parallel = "32"
)

// player runs tests of the repository, with and without fixes.
type player struct {
	top string
	// passed are the tests that pass as the code is; a package is asked once.
	passed map[failing]bool
	asked  map[string]bool
}

// Without its fix, each test of an entry fails. As the code is, it passes.
func TestReverts(t *testing.T) {
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	p := player{top: top, passed: map[failing]bool{}, asked: map[string]bool{}}
	for _, r := range reverts() {
		for _, f := range r.fails {
			t.Run(fmt.Sprintf("%d-%s", r.bug, f.name), func(t *testing.T) { p.play(t, r, f) })
		}
	}
}

// play runs one test as the code is, and without the fix.
func (p *player) play(t *testing.T, r revert, f failing) {
	began := time.Now()
	if !p.passes(t, f) {
		t.Fatalf("%s in %s does not pass as the code is", f.name, f.pkg)
	}
	output := p.run(t, f.pkg, f.name, "-failfast", "-overlay", p.overlay(t, r))
	if err := verdict(output, f.name); err != nil {
		t.Fatalf("%s\nWithout the fix: %v: %s in %s\n%.4000s", r.taken, err, f.name, f.pkg, output)
	}
	t.Logf("[%s] %s %s fails.", time.Since(began).Round(time.Second), r.taken, f.pkg)
}

// overlay writes the changed files, and what the go command has to know to compile them in place of those of the tree.
func (p *player) overlay(t *testing.T, r revert) (name string) {
	t.Helper()
	texts, err := r.texts()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range texts {
		at := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(p.top, filepath.FromSlash(name))] = at
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// passes reports whether a test passes as the code is. All tests of its package that any entry names are run with it.
func (p *player) passes(t *testing.T, asked failing) bool {
	t.Helper()
	if p.asked[asked.pkg] {
		return p.passed[asked]
	}
	p.asked[asked.pkg] = true
	names := testsOf(asked.pkg)
	output := p.run(t, asked.pkg, strings.Join(names, "|"), "-v")
	for _, name := range names {
		p.passed[failing{asked.pkg, name}] = ended("PASS", name, output)
	}
	if !p.passed[asked] {
		t.Log(output)
	}
	return p.passed[asked]
}

// testsOf are the tests of a package that any entry names.
func testsOf(pkg string) (names []string) {
	for _, r := range reverts() {
		for _, f := range r.fails {
			if f.pkg == pkg && !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	return names
}

// run returns what the go command says of some tests. Many that wait run beside each other. Random ones begin at their
// fixed seeds, do not spend their time on smaller failures, and write none down.
func (p *player) run(t *testing.T, pkg, names string, flags ...string) string {
	t.Helper()
	args := append([]string{
		"test", "-vet=off", "-count=1", "-parallel", parallel, "-timeout", within, "-run", "^(" + names + ")$",
	}, flags...)
	cmd := exec.CommandContext(t.Context(), "go", append(args, "./"+pkg)...)
	cmd.Dir = p.top
	cmd.Env = append(os.Environ(), "TEST_SEED=", "RAPID_NOFAILFILE=true", "RAPID_SHRINKTIME=1s")
	output, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(output)
}
