package rules

import (
	"fmt"
	"go/ast"
	"slices"
)

// pureImports are imports that decision code must not reach.
var pureImports = []string{
	"context", "crypto/rand", "hash/maphash", "io/fs", "log", "log/slog", "math/rand",
	"math/rand/v2", "net", "net/http", "os", "os/exec", "sync", "sync/atomic", "testing",
}

// clockNames are the names of package time that read or wait for a clock; its value types are
// welcome everywhere.
var clockNames = []string{
	"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
}

// silentLogging are the names of klog that upstream's pure functions ask for as an argument; the
// zero Logger discards everything.
var silentLogging = []string{"Logger"}

// pureArea is a part of the repository whose code only computes.
type pureArea struct {
	// name is how messages call it.
	name string
	// has reports whether a file belongs to it.
	has func(*GoFile) bool
	// may lists imports of pureImports that it is allowed after all, and why is in the comment.
	may []string
}

// decisionDirs match the folders of the services that decide: services/*/decide and the folders below them.
const decisionDirs = "services/*/decide"

// pureAreas are the decision cores. Test files may do anything.
var pureAreas = []pureArea{
	{
		name: "decide",
		has:  func(f *GoFile) bool { return withinPattern(f.Dir, decisionDirs) },
	},
	{
		name: "pkg/placement",
		has: func(f *GoFile) bool {
			// The configuration is read from a file.
			return within(f.Dir, "pkg/placement") && !within(f.Dir, "pkg/placement/config")
		},
	},
	{
		name: "pkg/state",
		has:  func(f *GoFile) bool { return slices.Contains(statePackages, f.Dir) },
		// One goroutine applies, any may take a snapshot or ask for the position.
		may: []string{"sync", "sync/atomic"},
	},
	{
		name: "the ledger's protocol",
		has: func(f *GoFile) bool {
			return slices.Contains(protocolPackages, f.Dir) && !slices.Contains(ledgerSeams, f.Path)
		},
	},
}

// statePackages are the packages of the state that only compute.
var statePackages = []string{"pkg/state", "pkg/state/reduce", "pkg/state/resources", "pkg/state/strip"}

// protocolPackages are the packages of the ledger that only compute.
var protocolPackages = []string{
	"pkg/ledger", "pkg/ledger/codec", "pkg/ledger/identity", "pkg/ledger/invariant", "pkg/ledger/registry",
	"pkg/ledger/replica", "pkg/ledger/roster", "pkg/ledger/txns",
}

// ledgerSeams are their files that declare or drive the seam to a real store.
var ledgerSeams = []string{"pkg/ledger/identity/cluster.go", "pkg/ledger/replica/follow.go", "pkg/ledger/store.go"}

func pureRules() []Rule {
	return []Rule{{
		Name: "pure",
		Why: "a decision must come out the same in production, in what-if, in replay and in simulation: " +
			"time, seed and ids are arguments, effects are the return value",
		Check: checkPure,
	}}
}

func checkPure(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		area := areaOf(file)
		if area == nil {
			continue
		}
		add := func(line int, detail string) {
			found = append(found, Finding{Path: file.Path, Line: line, Detail: detail})
		}
		for _, imp := range repo.imports(file) {
			if slices.Contains(pureImports, imp.path) && !slices.Contains(area.may, imp.path) {
				add(imp.line, fmt.Sprintf("%s is pure and imports %s", area.name, imp.path))
			}
		}
		for _, call := range repo.calls(file, "time") {
			if slices.Contains(clockNames, call.name) {
				add(call.line, fmt.Sprintf("%s is pure and uses time.%s", area.name, call.name))
			}
		}
		for _, call := range repo.calls(file, "k8s.io/klog/v2") {
			if !slices.Contains(silentLogging, call.name) {
				add(call.line, fmt.Sprintf("%s is pure and uses klog.%s", area.name, call.name))
			}
		}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt:
				add(repo.line(n.Pos()), area.name+" is pure and starts a goroutine")
			case *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				add(repo.line(n.Pos()), area.name+" is pure and uses a channel")
			}
			return true
		})
	}
	return found
}

func areaOf(f *GoFile) *pureArea {
	if supportsTests(f) {
		return nil
	}
	for i, area := range pureAreas {
		if area.has(f) {
			return &pureAreas[i]
		}
	}
	return nil
}
