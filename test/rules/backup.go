package rules

import (
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// minFiles is how many files a package must have for its arrows to be measured: a small one is read whole.
const minFiles = 10

// backByPackage returns the share of each package's arrows that runs back up, in percent. An arrow runs from a file to
// another of the same package of which it uses a name. The files are put in the order that has the fewest arrows back
// that is found.
func backByPackage(repo *Repo) map[string]quantity {
	all := map[string]quantity{}
	_, byDir := packages(repo)
	for dir, files := range byDir {
		files = slices.DeleteFunc(slices.Clone(files), func(f *GoFile) bool { return !shipped(f) })
		if len(files) >= minFiles {
			all[dir] = quantity{path: files[0].Path, line: 1, n: int(backShare(files))}
		}
	}
	return all
}

// backShare returns the share of a package's arrows that runs back up, in percent.
func backShare(files []*GoFile) float64 {
	g := dependencies(files)
	total := 0
	for _, to := range g {
		total += len(to)
	}
	return share100(back(g, order(g)), total)
}

// dependencies returns for each file the files of which it uses a top-level name, or a method of which only one type of
// the package has that name.
func dependencies(files []*GoFile) []map[int]bool {
	names, methods := definitions(files)
	g := make([]map[int]bool, len(files))
	for i, f := range files {
		g[i] = map[int]bool{}
		use := func(to int, known bool) {
			if known && to >= 0 && to != i {
				g[i][to] = true
			}
		}
		for name, selected := range usedNames(f.AST) {
			to, known := names[name]
			if selected {
				to, known = methods[name]
			}
			use(to, known)
		}
	}
	return g
}

// definitions maps each top-level name and each method to the index of its file; -1 for methods of several types.
func definitions(files []*GoFile) (names, methods map[string]int) {
	names, methods = map[string]int{}, map[string]int{}
	for i, f := range files {
		for _, name := range topNames(f.AST) {
			names[name.Name] = i
		}
		for _, decl := range f.AST.Decls {
			d, ok := decl.(*ast.FuncDecl)
			if !ok || d.Recv == nil {
				continue
			}
			at := i
			if _, twice := methods[d.Name.Name]; twice {
				at = -1
			}
			methods[d.Name.Name] = at
		}
	}
	return names, methods
}

// usedNames visits the names that a file uses, and whether as a selector's (a method or a field); those of names that
// functions declare are left out.
func usedNames(file *ast.File) func(yield func(string, bool) bool) {
	return func(yield func(string, bool) bool) {
		local, imported := localNames(file), map[string]bool{}
		for _, spec := range file.Imports {
			imported[localName(spec, strings.Trim(spec.Path.Value, `"`))] = true
		}
		selected, foreign := map[*ast.Ident]bool{}, map[*ast.Ident]bool{}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				x, named := s.X.(*ast.Ident)
				selected[s.Sel] = true
				foreign[s.Sel] = named && imported[x.Name]
			}
			return true
		})
		more := true
		ast.Inspect(file, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && more && !foreign[id] && (selected[id] || !local[id.Name]) {
				more = yield(id.Name, selected[id])
			}
			return more
		})
	}
}

// localNames returns the names that functions of a file declare.
func localNames(file *ast.File) map[string]bool {
	local := map[string]bool{}
	note := func(e ast.Expr) {
		if id, ok := e.(*ast.Ident); ok {
			local[id.Name] = true
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			for _, e := range n.Lhs {
				note(e)
			}
		case *ast.RangeStmt:
			note(n.Key)
			note(n.Value)
		case *ast.Field:
			for _, name := range n.Names {
				local[name.Name] = true
			}
		}
		return true
	})
	return local
}

// order returns the files in an order with few arrows back: first the greedy order of Eades, Lin and Smyth (A fast and
// effective heuristic for the feedback arc set problem, 1993), then each file at its best place until none moves.
func order(g []map[int]bool) []int {
	list := greedy(g)
	for moved := true; moved; {
		moved = false
		for _, v := range slices.Clone(list) {
			moved = moveFile(g, list, v) || moved
		}
	}
	return list
}

func greedy(g []map[int]bool) []int {
	left := map[int]bool{}
	for i := range g {
		left[i] = true
	}
	var first, last []int
	for len(left) > 0 {
		best, bestScore, sink := -1, 0, false
		for _, v := range slices.Sorted(maps.Keys(left)) {
			out, in := degrees(g, left, v)
			switch {
			case out == 0:
				best, sink = v, true
			case best < 0 || !sink && out-in > bestScore:
				best, bestScore = v, out-in
			}
			if sink {
				break
			}
		}
		delete(left, best)
		if sink {
			last = append(last, best)
			continue
		}
		first = append(first, best)
	}
	slices.Reverse(last)
	return append(first, last...)
}

func degrees(g []map[int]bool, among map[int]bool, v int) (out, in int) {
	for to := range g[v] {
		if among[to] {
			out++
		}
	}
	for from := range among {
		if g[from][v] {
			in++
		}
	}
	return out, in
}

// moveFile moves a file to its best place; false if that is where it is.
func moveFile(g []map[int]bool, list []int, v int) bool {
	at := slices.Index(list, v)
	rest := slices.Delete(slices.Clone(list), at, at+1)
	best, bestCost, cost := at, 0, 0
	costs := make([]int, len(rest)+1)
	for i, w := range rest { // relative to standing first: passing w turns v's arrow to it back
		if g[v][w] {
			cost++
		}
		if g[w][v] {
			cost--
		}
		costs[i+1] = cost
	}
	bestCost = costs[at]
	for i, c := range costs {
		if c < bestCost {
			best, bestCost = i, c
		}
	}
	copy(list, slices.Insert(rest, best, v))
	return best != at
}

// back counts the arrows from a file to an earlier one.
func back(g []map[int]bool, list []int) (n int) {
	place := make([]int, len(list))
	for i, v := range list {
		place[v] = i
	}
	for from, to := range g {
		for t := range to {
			if place[t] < place[from] {
				n++
			}
		}
	}
	return n
}
