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
	files, err := filepath.Glob("../decide/*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	words := map[string]bool{}
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
					add(words, n.Args[len(n.Args)-1])
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Why" {
					add(words, n.Value)
				}
			}
			return true
		})
	}
	if len(words) < 9 {
		t.Fatalf("only the words %v are found", words)
	}
	for word := range words {
		if txnNames[word] == "" {
			t.Errorf("%q has no name", word)
		}
	}
}

func add(words map[string]bool, e ast.Expr) {
	if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		if word, err := strconv.Unquote(lit.Value); err == nil {
			words[word] = true
		}
	}
}
