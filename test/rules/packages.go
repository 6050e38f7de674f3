package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"slices"
	"strings"
)

// Ceilings of packages and types. They are for the code that is shipped.
const (
	maxMethods      = 40
	maxPackageLines = 4000
	maxExports      = 100
	// maxBack is the share of the arrows between a package's files that may run back up, in percent.
	maxBack = 20
	// maxWide is how many variables one assignment gives a value each.
	maxWide = 2
)

// debt counts the excesses that still exist, by kind. It may only shrink (PaidDebts).
type debt map[string]int

func packageRules() []Rule {
	return []Rule{
		{
			Name: "methodcount",
			Why: fmt.Sprintf("a type has one job (%d methods): give a part of its state to a type of its own",
				maxMethods),
			Check: func(r *Repo) []Finding { return measured(methodsByType(r), maxMethods, methodDebt, "methods") },
		},
		{
			Name: "pkgsize",
			Why: fmt.Sprintf("a package is learnt in an afternoon (%d lines without tests): split it where few names cross",
				maxPackageLines),
			Check: func(r *Repo) []Finding { return measured(linesByPackage(r), maxPackageLines, lineDebt, "lines") },
		},
		{
			Name: "exports",
			Why: fmt.Sprintf("an API is read from top to bottom (%d exported names): split it, or export less",
				maxExports),
			Check: func(r *Repo) []Finding {
				return measured(exportsByPackage(r), maxExports, exportDebt, "exported names")
			},
		},
		{
			Name: "backup",
			Why: fmt.Sprintf("a package is read from top to bottom (%d of 100 arrows may run back up): cut its circles",
				maxBack),
			Check: func(r *Repo) []Finding {
				return measured(backByPackage(r), maxBack, backDebt, "of 100 arrows that run back up")
			},
		},
		{
			Name: "wideassign",
			Why: fmt.Sprintf("an assignment is read at a glance (%d variables): one line each, or a struct",
				maxWide),
			Check: func(r *Repo) []Finding { return measured(wideByPackage(r), 0, nil, "wide assignments") },
		},
	}
}

// quantity is a number of something in the code, and where that begins.
type quantity struct {
	path string
	line int
	n    int
}

// measured finds the quantities above a ceiling, or above their debt.
func measured(all map[string]quantity, most int, owed debt, what string) []Finding {
	var found []Finding
	for _, of := range slices.Sorted(maps.Keys(all)) {
		q, allowed := all[of], max(owed[of], most)
		if q.n > allowed {
			detail := fmt.Sprintf("%s has %d %s, %d are allowed", of, q.n, what, allowed)
			found = append(found, Finding{Path: q.path, Line: q.line, Detail: detail})
		}
	}
	return found
}

// PaidDebts lists debts that debts.go allows and that no longer exist: a debt may only shrink, and is lowered when a
// tenth of it has been paid.
func PaidDebts(repo *Repo) (paid []string) {
	for _, d := range []struct {
		owed debt
		all  map[string]quantity
		most int
	}{
		{methodDebt, methodsByType(repo), maxMethods},
		{lineDebt, linesByPackage(repo), maxPackageLines},
		{exportDebt, exportsByPackage(repo), maxExports},
		{backDebt, backByPackage(repo), maxBack},
	} {
		for _, of := range slices.Sorted(maps.Keys(d.owed)) {
			if n := d.all[of].n; n <= d.most || n*10 <= d.owed[of]*9 {
				paid = append(paid, fmt.Sprintf("%s: %d are allowed, it has %d", of, d.owed[of], n))
			}
		}
	}
	return paid
}

// shipped reports whether a file is part of the product: neither a test, nor what tests are made of, nor a tool.
func shipped(f *GoFile) bool {
	return !supportsTests(f) && (within(f.Dir, "pkg") || within(f.Dir, "services") || within(f.Dir, "cmd"))
}

func methodsByType(repo *Repo) map[string]quantity {
	all := map[string]quantity{}
	for _, f := range repo.Go {
		if !shipped(f) {
			continue
		}
		for _, decl := range f.AST.Decls {
			method, ok := decl.(*ast.FuncDecl)
			if !ok || method.Recv == nil || len(method.Recv.List) != 1 {
				continue
			}
			add(all, f.Dir+"."+receiver(method.Recv.List[0].Type), f, repo.line(decl.Pos()), 1)
		}
	}
	return all
}

// receiver is the name of a method's type.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

func add(all map[string]quantity, of string, f *GoFile, line, n int) {
	q, known := all[of]
	if !known {
		q = quantity{path: f.Path, line: line}
	}
	q.n += n
	all[of] = q
}

func linesByPackage(repo *Repo) map[string]quantity {
	all := map[string]quantity{}
	for _, f := range repo.Go {
		if shipped(f) {
			add(all, f.Dir, f, 1, len(f.Lines))
		}
	}
	return all
}

// exportsByPackage counts exported functions, types, variables and constants, as a package's index lists them: without
// methods and fields.
func exportsByPackage(repo *Repo) map[string]quantity {
	all := map[string]quantity{}
	for _, f := range repo.Go {
		if !shipped(f) {
			continue
		}
		for _, name := range topNames(f.AST) {
			if name.IsExported() {
				add(all, f.Dir, f, 1, 1)
			}
		}
	}
	return all
}

func topNames(file *ast.File) (names []*ast.Ident) {
	for _, decl := range file.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				names = append(names, d.Name)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				names = append(names, specNames(spec)...)
			}
		}
	}
	return names
}

func specNames(spec ast.Spec) []*ast.Ident {
	switch s := spec.(type) {
	case *ast.TypeSpec:
		return []*ast.Ident{s.Name}
	case *ast.ValueSpec:
		return s.Names
	}
	return nil
}

// wideByPackage counts assignments of more than maxWide variables that get a value each.
func wideByPackage(repo *Repo) map[string]quantity {
	all := map[string]quantity{}
	for _, f := range repo.Go {
		if !shipped(f) {
			continue
		}
		ast.Inspect(f.AST, func(n ast.Node) bool {
			if a, ok := n.(*ast.AssignStmt); ok && a.Tok != token.ILLEGAL && len(a.Rhs) > maxWide {
				add(all, strings.TrimSuffix(f.Dir, "/"), f, repo.line(a.Pos()), 1)
			}
			return true
		})
	}
	return all
}
