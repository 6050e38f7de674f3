package rules

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Repo is one checkout, parsed.
type Repo struct {
	// Fset resolves the positions of every Go file.
	Fset *token.FileSet
	// Go holds the hand-written Go files by path. Generated files are left out: no author could follow a rule in
	// them.
	Go []*GoFile
	// Text holds every text file, Go and generated ones included, by path.
	Text []*TextFile
}

// GoFile is one hand-written Go file.
type GoFile struct {
	// Path is relative to the top of the repository, with forward slashes.
	Path string
	// Dir is the folder of Path, "." for the top.
	Dir string
	// Test marks a _test.go file.
	Test bool
	// Lines are the file's lines without their line ends.
	Lines []string
	// AST has its comments.
	AST *ast.File

	waivers []waiver
	used    []bool
}

// TextFile is one file as lines.
type TextFile struct {
	// Path is relative to the top of the repository, with forward slashes.
	Path string
	// Lines are without their line ends.
	Lines []string
}

// textSuffixes are the suffixes of the files that the word rules read. Others (images, checksums) have no prose.
var textSuffixes = []string{
	".go", ".md", ".proto", ".yaml", ".yml", ".toml", ".json", ".sh", ".txt", ".mod", ".ts", ".svelte", ".tpl",
	"Makefile", "Dockerfile", "run",
}

// ignoredDirs are never read: build output, the history, what package managers fetch.
var ignoredDirs = []string{".build", ".git", "berth-data", "node_modules", "testdata", "vendor"}

// Load reads and parses the files under the top of a checkout. A Go file that does not parse is
// an error: nothing can be said about it.
func Load(top fs.FS) (*Repo, error) {
	repo := &Repo{Fset: token.NewFileSet()}
	err := fs.WalkDir(top, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains(ignoredDirs, entry.Name()):
			return fs.SkipDir
		case entry.Type().IsRegular() && hasTextSuffix(name):
			return repo.read(top, name)
		}
		return nil
	})
	return repo, err
}

func hasTextSuffix(name string) bool {
	return slices.ContainsFunc(textSuffixes, func(s string) bool { return strings.HasSuffix(name, s) })
}

func (r *Repo) read(top fs.FS, name string) error {
	data, err := fs.ReadFile(top, name)
	if errors.Is(err, fs.ErrNotExist) {
		// An editor's or a compiler's temporary file came and went during the walk.
		return nil
	}
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	r.Text = append(r.Text, &TextFile{Path: filepath.ToSlash(name), Lines: lines})
	if !strings.HasSuffix(name, ".go") {
		return nil
	}
	return r.parse(name, data, lines)
}

func (r *Repo) parse(name string, data []byte, lines []string) error {
	tree, err := parser.ParseFile(r.Fset, name, data, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("parse %s: %w", name, err)
	}
	if ast.IsGenerated(tree) || bytes.HasPrefix(data, []byte("// Code generated")) {
		return nil
	}
	file := &GoFile{
		Path:  filepath.ToSlash(name),
		Dir:   path.Dir(filepath.ToSlash(name)),
		Test:  strings.HasSuffix(name, "_test.go"),
		Lines: lines,
		AST:   tree,
	}
	file.waivers = waiversOf(r.Fset, file)
	file.used = make([]bool, len(file.waivers))
	r.Go = append(r.Go, file)
	return nil
}

// line is the line of a position.
func (r *Repo) line(pos token.Pos) int { return r.Fset.Position(pos).Line }

// imports lists a file's import paths with their lines, in source order.
func (r *Repo) imports(f *GoFile) []importLine {
	found := make([]importLine, 0, len(f.AST.Imports))
	for _, spec := range f.AST.Imports {
		// The parser accepts only string literals here.
		if value, err := strconv.Unquote(spec.Path.Value); err == nil {
			found = append(found, importLine{path: value, name: localName(spec, value), line: r.line(spec.Pos())})
		}
	}
	return found
}

type importLine struct {
	path string
	// name is the package's name in this file; "." and "_" included.
	name string
	line int
}

// localName guesses a package's name from its path as people do: the last element that is not
// a major version.
func localName(spec *ast.ImportSpec, importPath string) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	base := path.Base(importPath)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(importPath))
	}
	return base
}

// within reports whether a folder is root or lies below it.
func within(dir, root string) bool {
	return dir == root || strings.HasPrefix(dir, root+"/")
}

// withinAny reports whether a folder lies in one of roots.
func withinAny(dir string, roots []string) bool {
	return slices.ContainsFunc(roots, func(root string) bool { return within(dir, root) })
}

// withinPattern reports whether a folder matches a pattern of path.Match, or is below a folder that does.
func withinPattern(dir, pattern string) bool {
	parts := strings.Split(dir, "/")
	depth := strings.Count(pattern, "/") + 1
	matched, err := path.Match(pattern, strings.Join(parts[:min(depth, len(parts))], "/"))
	return err == nil && matched
}

// calls returns the calls of pkg.Func in a file, where pkg is an import path. Dot imports are
// not followed; the linter rejects them.
func (r *Repo) calls(f *GoFile, importPath string) []callSite {
	names := map[string]bool{}
	for _, imp := range r.imports(f) {
		if imp.path == importPath {
			names[imp.name] = true
		}
	}
	if len(names) == 0 {
		return nil
	}
	var found []callSite
	ast.Inspect(f.AST, func(n ast.Node) bool {
		// Any mention counts, not only calls: time.Now passed as a value is a clock too.
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && names[id.Name] {
			found = append(found, callSite{name: sel.Sel.Name, pos: sel.Pos(), line: r.line(sel.Pos())})
		}
		return true
	})
	return found
}

type callSite struct {
	name string
	pos  token.Pos
	line int
}
