package rules

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Measure is one figure of the shipped code, and the standard for it.
type Measure struct {
	// Name names the measured quantity, with its unit.
	Name string
	// Value is the figure, Where the place that has it (empty if it is one of the whole).
	Value float64
	Where string
	// Standard is the figure that the code must not exceed, or must reach with AtLeast.
	Standard float64
	AtLeast  bool
	// Debt is the figure that is allowed until the standard is met; 0 for none. It may only get better.
	Debt float64
}

// Bound returns the figure that the code has to keep today: the standard, or the debt until that is paid.
func (m Measure) Bound() float64 {
	if m.Debt != 0 {
		return m.Debt
	}
	return m.Standard
}

// Holds reports whether the figure keeps its bound.
func (m Measure) Holds() bool {
	if m.AtLeast {
		return m.Value >= m.Bound()
	}
	return m.Value <= m.Bound()
}

// Paid reports whether a debt is allowed that is owed no longer.
func (m Measure) Paid() bool {
	if m.Debt == 0 {
		return false
	}
	m.Debt = 0
	return m.Holds()
}

// House measures the shipped code of a repository: products of pkg, services and cmd, without tests and what tests are
// made of.
func House(repo *Repo) []Measure {
	h := &house{repo: repo}
	for _, f := range repo.Go {
		if shipped(f) {
			h.read(f)
		}
	}
	slices.Sort(h.lengths)
	slices.Sort(h.branches)
	return append(h.functions(), append(h.packages(), h.comments()...)...)
}

func (h *house) functions() []Measure {
	wide := 1000 * float64(h.wide) / float64(max(1, len(h.lengths)))
	lines := func(share float64) float64 { return float64(quantile(h.lengths, share)) }
	branches := func(share float64) float64 { return float64(quantile(h.branches, share)) }
	return []Measure{
		{Name: "functions: lines, median", Value: lines(0.5), Standard: 12},
		{Name: "functions: lines, 99 of 100", Value: lines(0.99), Standard: 45},
		{Name: "functions: lines, longest", Value: lines(1), Standard: maxFunctionLines},
		{Name: "functions: cyclomatic complexity, 99 of 100", Value: branches(0.99), Standard: 15},
		{Name: "functions: cyclomatic complexity, highest", Value: branches(1), Standard: 24},
		{Name: "assignments wider than two, per 1,000 functions", Value: wide, Standard: 2},
	}
}

func (h *house) packages() []Measure {
	embedded := share100(h.embedded, h.structs)
	return []Measure{
		{Name: "embedded unexported structs, per 100 structs", Value: embedded, Standard: 6},
		largest("methods of one type", methodsByType(h.repo), maxMethods, methodDebt),
		largest("lines of one package", linesByPackage(h.repo), maxPackageLines, lineDebt),
		largest("exported names of one package", exportsByPackage(h.repo), maxExports, exportDebt),
		largest("arrows of one package that run back up, per 100", backByPackage(h.repo), maxBack, backDebt),
	}
}

func (h *house) comments() []Measure {
	share, documented := share100(h.commented, h.lines), share100(h.documented, h.exported)
	m := []Measure{
		{Name: "comment lines, per 100 lines", Value: share, Standard: 18, AtLeast: true},
		{Name: "exported names with a comment, per 100", Value: documented, Standard: 98, AtLeast: true},
	}
	for _, p := range phrases {
		m = append(m, Measure{
			Name:  p.name + ", per 1,000 comment lines",
			Value: 1000 * float64(h.phraseCounts[p.name]) / float64(max(1, h.commented)), Standard: p.standard,
			AtLeast: p.atLeast, Debt: p.debt,
		})
	}
	return m
}

// largest returns the highest of some quantities; its debt is that of its own entry.
func largest(name string, all map[string]quantity, standard int, owed debt) Measure {
	m := Measure{Name: name, Standard: float64(standard)}
	for _, of := range slices.Sorted(maps.Keys(all)) {
		if n := float64(all[of].n); n > m.Value {
			m.Value, m.Where, m.Debt = n, of, float64(owed[of])
		}
	}
	return m
}

// phrase is wording that is counted in comments.
type phrase struct {
	name     string
	form     *regexp.Regexp
	standard float64
	atLeast  bool
	debt     float64
}

// house counts.
type house struct {
	repo *Repo
	// lengths and branches are the lines and the cyclomatic complexity of each function.
	lengths, branches []int

	wide, structs, embedded int
	lines, commented        int
	exported, documented    int
	phraseCounts            map[string]int
}

func (h *house) read(f *GoFile) {
	h.lines += len(f.Lines)
	for _, group := range f.AST.Comments {
		h.commented += h.repo.line(group.End()) - h.repo.line(group.Pos()) + 1
		h.listen(group.Text())
	}
	for _, decl := range f.AST.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			h.function(d)
		case *ast.GenDecl:
			h.declaration(d)
		}
	}
	ast.Inspect(f.AST, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if len(n.Lhs) > maxWide && len(n.Lhs) == len(n.Rhs) {
				h.wide++
			}
		case *ast.StructType:
			h.structs++
			h.embedded += embeddedUnexported(n)
		}
		return true
	})
}

// listen counts phrases in a comment.
func (h *house) listen(text string) {
	if h.phraseCounts == nil {
		h.phraseCounts = map[string]int{}
	}
	text = strings.ReplaceAll(text, "\n", " ")
	for _, p := range phrases {
		h.phraseCounts[p.name] += len(p.form.FindAllString(text, -1))
	}
}

func (h *house) function(d *ast.FuncDecl) {
	method := d.Recv != nil && len(d.Recv.List) == 1
	if d.Name.IsExported() && (!method || ast.IsExported(receiver(d.Recv.List[0].Type))) {
		h.export(d.Doc != nil)
	}
	if d.Body == nil {
		return
	}
	h.lengths = append(h.lengths, max(0, h.repo.line(d.End())-h.repo.line(d.Pos())-1))
	h.branches = append(h.branches, cyclomatic(d.Body))
}

func (h *house) declaration(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		var doc *ast.CommentGroup
		switch s := spec.(type) {
		case *ast.TypeSpec:
			doc = s.Doc
		case *ast.ValueSpec:
			doc = s.Doc
			if doc == nil {
				doc = s.Comment
			}
		}
		for _, name := range specNames(spec) {
			if name.IsExported() {
				h.export(doc != nil || d.Doc != nil)
			}
		}
	}
}

func (h *house) export(documented bool) {
	h.exported++
	if documented {
		h.documented++
	}
}

// cyclomatic returns the number of independent paths through a body: one, and one more for each branch.
// Source: T. J. McCabe, A Complexity Measure, 1976.
func cyclomatic(body *ast.BlockStmt) int {
	n := 1
	ast.Inspect(body, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.IfStmt, *ast.ForStmt, *ast.RangeStmt:
			n++
		case *ast.CaseClause:
			if x.List != nil {
				n++
			}
		case *ast.CommClause:
			if x.Comm != nil {
				n++
			}
		case *ast.BinaryExpr:
			if x.Op == token.LAND || x.Op == token.LOR {
				n++
			}
		}
		return true
	})
	return n
}

// embeddedUnexported counts the unexported types of the same package that a struct embeds.
func embeddedUnexported(s *ast.StructType) (n int) {
	for _, field := range s.Fields.List {
		of := field.Type
		if star, ok := of.(*ast.StarExpr); ok {
			of = star.X
		}
		if id, ok := of.(*ast.Ident); ok && len(field.Names) == 0 && !id.IsExported() {
			n++
		}
	}
	return n
}

// quantile returns the value that a share of a sorted list does not exceed.
func quantile(sorted []int, share float64) int {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))]
}

func share100(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }

// String prints a measure as one line.
func (m Measure) String() string {
	sign := "at most"
	if m.AtLeast {
		sign = "at least"
	}
	line := fmt.Sprintf("%-62s %8.1f   %s %g", m.Name, m.Value, sign, m.Standard)
	if m.Debt != 0 {
		line += fmt.Sprintf(" (until then %g)", m.Debt)
	}
	if m.Where != "" {
		line += "   " + m.Where
	}
	return line
}
