package rules

import (
	"fmt"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// vagueNames do not describe the purpose of a package.
var vagueNames = []string{
	"base", "common", "helper", "helpers", "misc", "shared", "structs", "types", "util", "utils",
}

func shapeRules() []Rule {
	return []Rule{
		{
			Name:  "packagename",
			Why:   "a package is named by the noun it is about; what has no noun belongs where it is used",
			Check: checkPackageNames,
		},
		{
			Name:  "doc",
			Why:   "a reader enters a package through doc.go: its role, its invariants, where to start reading",
			Check: checkDocs,
		},
		{
			Name:  "goroutine",
			Why:   "goroutines start in Run alone, under one errgroup, so that Run returns only when all have ended",
			Check: checkGoroutines,
		},
		{
			Name:  "mu",
			Why:   "what a lock guards is visible when both sit in one field: mu struct { sync.Mutex; … }",
			Check: checkLocks,
		},
		{
			Name:  "leak",
			Why:   "a package that starts goroutines proves in its tests that they end: goleak.VerifyTestMain or VerifyNone",
			Check: checkLeakTests,
		},
	}
}

// packages groups the hand-written files by folder, folders in order of first sight.
func packages(repo *Repo) ([]string, map[string][]*GoFile) {
	var dirs []string
	byDir := map[string][]*GoFile{}
	for _, file := range repo.Go {
		if byDir[file.Dir] == nil {
			dirs = append(dirs, file.Dir)
		}
		byDir[file.Dir] = append(byDir[file.Dir], file)
	}
	return dirs, byDir
}

func checkPackageNames(repo *Repo) []Finding {
	var found []Finding
	dirs, byDir := packages(repo)
	for _, dir := range dirs {
		file := byDir[dir][0]
		name := strings.TrimSuffix(file.AST.Name.Name, "_test")
		if slices.Contains(vagueNames, name) || slices.Contains(vagueNames, path.Base(dir)) {
			found = append(found, Finding{
				Path: file.Path, Line: repo.line(file.AST.Package), Detail: fmt.Sprintf("package %s in %s", name, dir),
			})
		}
	}
	return found
}

// checkDocs wants a package comment in doc.go, or for a command in any of its files.
func checkDocs(repo *Repo) []Finding {
	var found []Finding
	dirs, byDir := packages(repo)
	for _, dir := range dirs {
		files := byDir[dir]
		documented := slices.ContainsFunc(files, func(f *GoFile) bool {
			inPlace := path.Base(f.Path) == "doc.go" || f.AST.Name.Name == "main"
			return inPlace && f.AST.Doc != nil && !f.Test
		})
		if !documented {
			found = append(found, Finding{Path: files[0].Path, Line: 1, Detail: dir + " has no doc.go with a package comment"})
		}
	}
	return found
}

func checkGoroutines(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		if !inProduct(file) {
			continue
		}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			if _, ok := n.(*ast.GoStmt); ok {
				found = append(found, Finding{Path: file.Path, Line: repo.line(n.Pos()), Detail: "go statement"})
			}
			return true
		})
	}
	return found
}

func checkLocks(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		if file.Test {
			continue
		}
		guarded := map[*ast.StructType]bool{}
		ast.Inspect(file.AST, func(n ast.Node) bool {
			field, ok := n.(*ast.Field)
			if !ok {
				return true
			}
			if inner, ok := field.Type.(*ast.StructType); ok && namedMu(field) {
				guarded[inner] = true
			}
			return true
		})
		ast.Inspect(file.AST, func(n ast.Node) bool {
			record, ok := n.(*ast.StructType)
			if !ok || guarded[record] {
				return true
			}
			for _, field := range record.Fields.List {
				if isLock(field.Type) {
					found = append(found, Finding{
						Path: file.Path, Line: repo.line(field.Pos()), Detail: "lock outside a mu struct",
					})
				}
			}
			return true
		})
	}
	return found
}

func namedMu(field *ast.Field) bool {
	return slices.ContainsFunc(field.Names, func(id *ast.Ident) bool {
		return id.Name == "mu" || strings.HasSuffix(id.Name, "Mu")
	})
}

func isLock(t ast.Expr) bool {
	sel, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, ok := sel.X.(*ast.Ident)
	return ok && pkg.Name == "sync" && (sel.Sel.Name == "Mutex" || sel.Sel.Name == "RWMutex")
}

func checkLeakTests(repo *Repo) []Finding {
	var found []Finding
	dirs, byDir := packages(repo)
	for _, dir := range dirs {
		var starter *GoFile
		checked := false
		for _, file := range byDir[dir] {
			if inProduct(file) && starter == nil && startsGoroutines(repo, file) {
				starter = file
			}
			checked = checked || file.Test && importsAny(repo, file, "go.uber.org/goleak")
		}
		if starter != nil && !checked {
			found = append(found, Finding{
				Path: starter.Path, Line: 1, Detail: dir + " starts goroutines and has no leak check",
			})
		}
	}
	return found
}

func startsGoroutines(repo *Repo, f *GoFile) bool {
	starts := importsAny(repo, f, "golang.org/x/sync/errgroup")
	ast.Inspect(f.AST, func(n ast.Node) bool {
		if _, ok := n.(*ast.GoStmt); ok {
			starts = true
		}
		return !starts
	})
	return starts
}

func importsAny(repo *Repo, f *GoFile, importPath string) bool {
	return slices.ContainsFunc(repo.imports(f), func(imp importLine) bool { return imp.path == importPath })
}
