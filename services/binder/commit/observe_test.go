package commit

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// Every reason (Why) that the core gives a transaction has the protocol's name for it in the metrics.
func TestTransactionsHaveTheirNames(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../decide/*.go", "../decide/*/*.go"} {
		matches, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, matches...)
	}
	labels := map[string]bool{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr: // c.tidy(d, change, "sweep"), c.amend(p, change, "evict-mark"), r.amend(c, change, err, "…")
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && (f.Sel.Name == "tidy" || f.Sel.Name == "amend") {
					add(labels, n.Args[len(n.Args)-1])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Why" {
					add(labels, n.Value)
				}
			}
			return true
		})
	}
	if len(labels) < 9 {
		t.Fatalf("only the words %v are found", labels)
	}
	for label := range labels {
		if txnNames[label] == "" {
			t.Errorf("%q has no name", label)
		}
	}
}

func add(labels map[string]bool, e ast.Expr) {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if label, err := strconv.Unquote(lit.Value); err == nil {
			labels[label] = true
		}
	}
}
