package main

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// top is a page's beginning, with the menu of a site of two pages.
const top = `<head><meta http-equiv="Content-Security-Policy" content="default-src 'self'">
<link rel="canonical" href="https://example.com/berth/"><link rel="stylesheet" href="/berth/site.css"></head>
<nav id="menu"><a href="/berth/">Berth</a> <a href="/berth/docs/install/">Install</a></nav>`

func checked(t *testing.T, pages map[string]string) []string {
	t.Helper()
	base, err := url.Parse("https://example.com/berth/")
	if err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{"site.css": {}, "docs/plots/a.svg": {}}
	for name, content := range pages {
		files[name] = &fstest.MapFile{Data: []byte(content)}
	}
	root := fstest.MapFS{"pkg/state/doc.go": {}, "deploy/helm/Chart.yaml": {}}
	problems, err := Site{Files: files, Base: base, Root: root, Repository: "https://github.com/o/r"}.Check()
	if err != nil {
		t.Fatal(err)
	}
	return problems
}

func TestValidSiteHasNoProblems(t *testing.T) {
	problems := checked(t, map[string]string{
		"index.html": top + `<a href="docs/install/#stores">x</a> <a href="https://example.org/none">y</a>
			<a href="https://github.com/o/r/blob/main/pkg/state/doc.go#L1">z</a> <a href="mailto:a@example.com">m</a>
			<a href="https://github.com/o/r/tree/main/deploy/helm/">h</a> <a href="https://github.com/o/r/issues">i</a>`,
		"docs/install/index.html": top + `<h2 id="stores">Stores <a href="#stores">#</a></h2>
			<img src="../plots/a.svg"> <a href="../../">up</a> <button popovertarget="menu">Menu</button>`,
		"404.html": top,
	})
	if len(problems) > 0 {
		t.Errorf("got\n%s\nwant none", strings.Join(problems, "\n"))
	}
}

func TestProblemsAreFound(t *testing.T) {
	problems := checked(t, map[string]string{
		"index.html": top + `<a href="/berth/docs/none/">a</a> <a href="/docs/install/">b</a> <a href="#none">c</a>
			<a href="docs/install/#none">d</a> <a href="/berth/docs">e</a> <a href="/berth/docs/lost/">menu only</a>
			<a href="https://github.com/o/r/blob/main/pkg/gone.go">f</a> <a href="http://[">g</a>
			<button popovertarget="contents">h</button>`,
		"docs/install/index.html": `<script src="https://example.org/x.js"></script>
			<link rel="stylesheet" href="//example.org/x.css"> <img src="/berth/docs/plots/none.svg">`,
		"docs/lost/index.html": top,
	})
	want := []string{
		"docs/install/index.html: /berth/docs/plots/none.svg: no such file: docs/plots/none.svg",
		"docs/install/index.html: //example.org/x.css: loaded from another host",
		"docs/install/index.html: https://example.org/x.js: loaded from another host",
		"docs/install/index.html: no Content-Security-Policy",
		"docs/lost/index.html: not in the menu: want it in docs/README.md",
		"index.html: #contents: no element #contents in index.html",
		"index.html: #none: no element #none in index.html",
		"index.html: /berth/docs/none/: no such file: docs/none/index.html",
		"index.html: /berth/docs: no such file: docs",
		"index.html: /docs/install/: outside of the site: want a path under /berth/",
		"index.html: docs/install/#none: no element #none in docs/install/index.html",
		`index.html: http://[: parse "http://[": missing ']' in host`,
		"index.html: https://github.com/o/r/blob/main/pkg/gone.go: no such file in the repository: pkg/gone.go",
	}
	slices.Sort(want)
	if !slices.Equal(problems, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
}

func TestFolderWithoutASiteIsNamed(t *testing.T) {
	dir := t.TempDir()
	err := mainErr([]string{"--site", dir, "--base", "https://example.com/", "--root", dir})
	if err == nil || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), "index.html") {
		t.Errorf("got %v, want the folder and index.html named", err)
	}
	if err := mainErr([]string{"--base", "/berth"}); err == nil || !strings.Contains(err.Error(), "--base") {
		t.Errorf("got %v, want --base named", err)
	}
}
