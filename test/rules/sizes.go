package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"unicode/utf8"
)

// The ceilings bound the tail, not the mean: nearly all code of the projects we admire lies below them, and readers
// of those projects complain about the code above.
const (
	maxFunctionLines    = 70
	maxFileLines        = 500
	maxTestFileLines    = 800
	maxInterfaceMethods = 5
	maxStructFields     = 20
	maxParameters       = 5
	maxNesting          = 3
	maxLineLength       = 120
)

func sizeRules() []Rule {
	return []Rule{
		{
			Name:  "funlen",
			Why:   fmt.Sprintf("a function fits one screen (%d lines): give its steps names", maxFunctionLines),
			Check: eachNode(functionLength),
		},
		{
			Name: "filesize",
			Why: fmt.Sprintf("a file is read in one go (%d lines, tests %d): split it by noun",
				maxFileLines, maxTestFileLines),
			Check: checkFileSize,
		},
		{
			Name: "interfacebloat",
			Why: fmt.Sprintf("an interface is a seam, not a mirror (%d methods): compose it of capabilities",
				maxInterfaceMethods),
			Check: eachNode(interfaceSize),
		},
		{
			Name:  "structsize",
			Why:   fmt.Sprintf("a struct has one job (%d fields): group the fields that change together", maxStructFields),
			Check: eachNode(structSize),
		},
		{
			Name:  "paramcount",
			Why:   fmt.Sprintf("a call reads without counting (%d parameters): take a Config or a Deps", maxParameters),
			Check: eachNode(parameterCount),
		},
		{
			Name:  "nesting",
			Why:   fmt.Sprintf("deep branches hide the main path (%d levels): return early or name the inner part", maxNesting),
			Check: checkNesting,
		},
		{
			Name:  "lll",
			Why:   fmt.Sprintf("lines stay comparable side by side (%d characters)", maxLineLength),
			Check: checkLineLength,
		},
	}
}

// eachNode lifts a check of one syntax node to a check of the repository. The check returns ""
// when the node is fine.
func eachNode(check func(*Repo, ast.Node) string) func(*Repo) []Finding {
	return func(repo *Repo) []Finding {
		var found []Finding
		for _, file := range repo.Go {
			ast.Inspect(file.AST, func(n ast.Node) bool {
				if n == nil {
					return false
				}
				if detail := check(repo, n); detail != "" {
					found = append(found, Finding{Path: file.Path, Line: repo.line(n.Pos()), Detail: detail})
				}
				return true
			})
		}
		return found
	}
}

func functionLength(repo *Repo, n ast.Node) string {
	decl, ok := n.(*ast.FuncDecl)
	if !ok || decl.Body == nil {
		return ""
	}
	// Counted as the linter does: without the line of the name and the closing brace.
	lines := repo.line(decl.End()) - repo.line(decl.Pos()) - 1
	if lines <= maxFunctionLines {
		return ""
	}
	return fmt.Sprintf("function %s has %d lines", decl.Name.Name, lines)
}

func interfaceSize(_ *Repo, n ast.Node) string {
	spec, ok := n.(*ast.TypeSpec)
	if !ok {
		return ""
	}
	contract, ok := spec.Type.(*ast.InterfaceType)
	if !ok {
		return ""
	}
	methods := 0
	for _, field := range contract.Methods.List {
		methods += len(field.Names)
	}
	if methods <= maxInterfaceMethods {
		return ""
	}
	return fmt.Sprintf("interface %s has %d methods", spec.Name.Name, methods)
}

func structSize(_ *Repo, n ast.Node) string {
	spec, ok := n.(*ast.TypeSpec)
	if !ok {
		return ""
	}
	record, ok := spec.Type.(*ast.StructType)
	if !ok {
		return ""
	}
	if fields := record.Fields.NumFields(); fields > maxStructFields {
		return fmt.Sprintf("struct %s has %d fields", spec.Name.Name, fields)
	}
	return ""
}

func parameterCount(_ *Repo, n ast.Node) string {
	decl, ok := n.(*ast.FuncDecl)
	if !ok {
		return ""
	}
	if params := decl.Type.Params.NumFields(); params > maxParameters {
		return fmt.Sprintf("function %s has %d parameters", decl.Name.Name, params)
	}
	return ""
}

func checkFileSize(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		limit := maxFileLines
		if supportsTests(file) {
			limit = maxTestFileLines
		}
		if lines := len(file.Lines); lines > limit {
			found = append(found, Finding{Path: file.Path, Line: 1, Detail: fmt.Sprintf("file has %d lines", lines)})
		}
	}
	return found
}

func checkLineLength(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		for i, line := range file.Lines {
			if length := utf8.RuneCountInString(line); length > maxLineLength {
				found = append(found, Finding{
					Path: file.Path, Line: i + 1, Detail: fmt.Sprintf("line has %d characters", length),
				})
			}
		}
	}
	return found
}

func checkNesting(repo *Repo) []Finding {
	var found []Finding
	for _, file := range repo.Go {
		depth := nesting{limit: maxNesting}
		ast.Walk(&depth, file.AST)
		for _, pos := range depth.deep {
			found = append(found, Finding{
				Path: file.Path, Line: repo.line(pos), Detail: fmt.Sprintf("nested deeper than %d levels", maxNesting),
			})
		}
	}
	return found
}

// nesting walks a file and collects the statements that lie too deep. A function literal starts
// again from zero: it is a function of its own. An else-if chain is one level, and so is a
// select that is the body of a loop: an event loop is one idiom.
type nesting struct {
	limit, level int
	// free are statements that open no level.
	free map[ast.Node]bool
	deep []token.Pos
}

// Visit implements ast.Visitor for the top of a file and between levels.
func (v *nesting) Visit(n ast.Node) ast.Visitor {
	if n == nil {
		return nil
	}
	switch n := n.(type) {
	case *ast.FuncDecl, *ast.FuncLit:
		v.sub(n, 0)
		return nil
	case *ast.IfStmt:
		v.markFree(n.Else)
	case *ast.ForStmt:
		v.markLoop(n.Body)
	case *ast.RangeStmt:
		v.markLoop(n.Body)
	case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt:
	default:
		return v
	}
	if v.free[n] {
		return v
	}
	if v.level == v.limit {
		v.deep = append(v.deep, n.Pos())
	}
	v.sub(n, v.level+1)
	return nil
}

// sub walks the children of n at a level and brings back what it found.
func (v *nesting) sub(n ast.Node, level int) {
	inner := nesting{limit: v.limit, level: level, free: v.free}
	for _, child := range children(n) {
		ast.Walk(&inner, child)
	}
	v.free = inner.free
	v.deep = append(v.deep, inner.deep...)
}

func (v *nesting) markFree(n ast.Node) {
	if next, ok := n.(*ast.IfStmt); ok {
		v.mark(next)
	}
}

func (v *nesting) markLoop(body *ast.BlockStmt) {
	if len(body.List) == 1 {
		if loop, ok := body.List[0].(*ast.SelectStmt); ok {
			v.mark(loop)
		}
	}
}

func (v *nesting) mark(n ast.Node) {
	if v.free == nil {
		v.free = map[ast.Node]bool{}
	}
	v.free[n] = true
}

// children lists the direct children of a node.
func children(n ast.Node) []ast.Node {
	var found []ast.Node
	ast.Inspect(n, func(child ast.Node) bool {
		if child == n {
			return true
		}
		if child != nil {
			found = append(found, child)
		}
		return false
	})
	return found
}
