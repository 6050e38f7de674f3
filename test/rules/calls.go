package rules

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// ban is a set of names of one package that may not be used in some places.
type ban struct {
	rule, why string
	// pkg is the import path; names are its names, none meaning every name but those in except.
	pkg           string
	names, except []string
	// applies reports whether the ban holds in a file.
	applies func(*GoFile) bool
	// exempt reports whether one use is fine after all. Optional.
	exempt func(*Repo, *GoFile, callSite) bool
}

var bans = []ban{
	{
		rule: "sleep", pkg: "time", names: []string{"Sleep"}, applies: everywhere, exempt: inBubble,
		why: "a sleep is too short on a slow machine and too long on a fast one: wait for the event " +
			"(channel, watch, wait.Poll*), or use the fake clock of testing/synctest",
	},
	{
		rule: "print", pkg: "fmt", names: []string{"Print", "Printf", "Println"}, applies: inProduct,
		why: "a service's output is its log, a library has none: use the logger or return the text",
	},
	{
		rule: "print", pkg: "log", except: nil, applies: inProduct,
		why: "one logger for all: use log/slog as set up by pkg/telemetry",
	},
	{
		rule: "background", pkg: "context", names: []string{"Background", "TO" + "DO"}, applies: inProduct,
		why: "a context made below main cannot be cancelled from above: take it as the first parameter",
	},
	{
		rule: "exit", pkg: "os", names: []string{"Exit"}, applies: outsideMain,
		why: "leaving the process skips every deferred clean-up: return an error to main",
	},
	{
		rule: "seed", pkg: "math/rand", names: globalRandom, applies: everywhere, exempt: drawsSeed, why: seedWhy,
	},
	{
		rule: "seed", pkg: "math/rand/v2", names: globalRandom, applies: everywhere, exempt: drawsSeed, why: seedWhy,
	},
}

// globalRandom are the functions of math/rand and its v2 that draw from the process's source.
var globalRandom = []string{
	"ExpFloat64", "Float32", "Float64", "Int", "Int31", "Int31n", "Int32", "Int32N", "Int63", "Int63n", "Int64",
	"Int64N", "IntN", "Intn", "N", "NormFloat64", "Perm", "Shuffle", "Uint", "Uint32", "Uint32N", "Uint64",
	"Uint64N", "UintN",
}

const seedWhy = "an unseeded draw cannot be repeated: make a rand.New from a seed that is an argument, " +
	"in a test one of pkg/seedtest"

func everywhere(*GoFile) bool { return true }

// inProduct reports whether f is hand-written code of services and libraries, other than tests.
func inProduct(f *GoFile) bool {
	return withinAny(f.Dir, []string{"pkg", "services"}) && !supportsTests(f)
}

func outsideMain(f *GoFile) bool {
	return f.AST.Name.Name != "main" && !f.Test
}

// inBubble reports whether a use is lexically inside the function given to synctest.Test, where the clock is fake and
// a sleep only moves it.
func inBubble(repo *Repo, f *GoFile, site callSite) bool {
	bubbles := repo.calls(f, "testing/synctest")
	inside := false
	ast.Inspect(f.AST, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return !inside
		}
		if slices.ContainsFunc(bubbles, func(b callSite) bool { return b.pos == call.Fun.Pos() && b.name == "Test" }) {
			inside = inside || call.Pos() <= site.pos && site.pos < call.End()
		}
		return !inside
	})
	return inside
}

// seeds is the package that draws the seeds of tests.
const seeds = "pkg/seedtest"

// drawsSeed reports whether f is in the only package that may draw without a seed: the one that draws the seeds.
func drawsSeed(_ *Repo, f *GoFile, _ callSite) bool { return f.Dir == seeds }

// checkRapid finds packages whose tests use rapid without its fixed seed.
func checkRapid(repo *Repo) []Finding {
	var found []Finding
	seeded, users := map[string]bool{seeds: true}, map[string]*GoFile{}
	for _, file := range repo.Go {
		if !supportsTests(file) {
			continue
		}
		if importsAny(repo, file, module+seeds) {
			seeded[file.Dir] = true
		}
		if _, known := users[file.Dir]; !known && importsAny(repo, file, rapid) {
			users[file.Dir] = file
		}
	}
	for dir, file := range users {
		if !seeded[dir] {
			found = append(found, Finding{Path: file.Path, Line: 1, Detail: "no import of " + seeds})
		}
	}
	return found
}

const rapid = "pgregory.net/rapid"

func callRules() []Rule {
	var rules []Rule
	for _, b := range bans {
		if !slices.ContainsFunc(rules, func(r Rule) bool { return r.Name == b.rule }) {
			rules = append(rules, Rule{Name: b.rule, Why: b.why, Check: checkBans(b.rule)})
		}
	}
	return append(rules,
		Rule{
			Name:  "skip",
			Why:   "a test that skips itself is a test nobody runs: fail and name the make target that builds what is missing",
			Check: checkSkips,
		},
		Rule{
			Name:  "rapid",
			Why:   "rapid draws its seed, so the test may fail by chance: import pkg/seedtest, which fixes it",
			Check: checkRapid,
		},
		Rule{
			Name:  "panic",
			Why:   "bad input is an error; a broken invariant is reported by a package named invariant",
			Check: checkPanics,
		},
	)
}

func checkBans(rule string) func(*Repo) []Finding {
	return func(repo *Repo) []Finding {
		var found []Finding
		for _, b := range bans {
			if b.rule == rule {
				found = append(found, b.check(repo)...)
			}
		}
		return found
	}
}

func (b ban) check(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		if !b.applies(file) {
			continue
		}
		for _, site := range repo.calls(file, b.pkg) {
			named := len(b.names) == 0 || slices.Contains(b.names, site.name)
			if named && (b.exempt == nil || !b.exempt(repo, file, site)) {
				found = append(found, Finding{
					Path: file.Path, Line: site.line, Detail: fmt.Sprintf("%s.%s", b.pkg, site.name),
				})
			}
		}
	}
	return found
}

func checkSkips(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		// In a rapid state machine Skip means that an action does not apply just now.
		if importsAny(repo, file, rapid) {
			continue
		}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			if name := skipCall(n); name != "" {
				found = append(found, Finding{Path: file.Path, Line: repo.line(n.Pos()), Detail: name})
			}
			return true
		})
	}
	return found
}

// skipCall names a call of Skip on something that is called like a test, empty for none.
func skipCall(n ast.Node) string {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return ""
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
		return ""
	}
	receiver, ok := sel.X.(*ast.Ident)
	if !ok || !slices.Contains([]string{"t", "b", "f", "tb"}, receiver.Name) {
		return ""
	}
	return receiver.Name + "." + sel.Sel.Name
}

func checkPanics(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		if supportsTests(file) || strings.HasPrefix(file.AST.Name.Name, "invariant") {
			continue
		}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				if id, ok := call.Fun.(*ast.Ident); ok && id.Name == "panic" {
					found = append(found, Finding{Path: file.Path, Line: repo.line(n.Pos()), Detail: "panic"})
				}
			}
			return true
		})
	}
	return found
}
