package main

import (
	"os"
	"slices"
	"testing"

	"github.com/dop251/goja"
)

// record is one of the search's index.
type record struct {
	Href  string `json:"href"`
	Title string `json:"title"`
	Page  string `json:"page"`
	Text  string `json:"text"`
}

// find returns the results of the site's own script, run as a browser would.
func find(t *testing.T, records []record, words ...string) []string {
	t.Helper()
	var hrefs []string
	run(t, "score.js", "found(Array.from(records).map(prepared), Array.from(words)).map((part) => part.href)",
		map[string]any{"records": records, "words": words}, &hrefs)
	return hrefs
}

// run sets out to an expression's value after one of the site's scripts.
func run(t *testing.T, script, expression string, with map[string]any, out any) {
	t.Helper()
	source, err := os.ReadFile("assets/" + script)
	if err != nil {
		t.Fatal(err)
	}
	vm := goja.New()
	vm.SetFieldNameMapper(goja.TagFieldNameMapper("json", true))
	for name, value := range with {
		if err := vm.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	value, err := vm.RunScript(script, string(source)+"\n"+expression)
	if err != nil {
		t.Fatal(err)
	}
	if err := vm.ExportTo(value, out); err != nil {
		t.Fatal(err)
	}
}

func TestSearchOrder(t *testing.T) {
	const install, stores, upgrade, values = "/docs/install/", "/docs/install/#stores", "/docs/upgrade/", "/docs/values/"
	records := []record{
		{Href: stores, Title: "Install the stores, install", Page: "Install", Text: "Install etcd, install NATS: install."},
		{Href: upgrade, Title: "Upgrade", Text: "Who can install can upgrade; reinstall nothing."},
		{Href: install, Title: "Install", Text: "With Helm."},
		{Href: values, Title: "Settings of the chart", Text: "The values, and each one's default."},
		{Href: "/docs/metrics/", Title: "Values", Page: "Values, values and values", Text: "values values values"},
		{Href: "/docs/fail-over/", Title: "When a member dies", Text: "Fail and over."},
		{Href: "/docs/chaos/", Title: "Chaos", Text: "A fail-over is a fail over."},
	}
	for _, c := range []struct {
		name  string
		words []string
		want  []string
	}{
		{"a page by its title, then titles before texts", []string{"install"}, []string{install, stores, upgrade}},
		{"a page by its address", []string{"values"}, []string{values, "/docs/metrics/"}},
		{"an address of several words", []string{"fail", "over"}, []string{"/docs/fail-over/", "/docs/chaos/"}},
		{"parts of words", []string{"stall"}, []string{stores, install, upgrade}},
		{"every word has to be there", []string{"install", "etcd"}, []string{stores}},
		{"nothing", []string{"volcano"}, nil},
		{"no word", nil, nil},
	} {
		if got := find(t, records, c.words...); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q: got %q, want %q", c.name, c.words, got, c.want)
		}
	}
}

func TestWhatIsCopied(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"commands", "make demo\nmake e2e\n", "make demo\nmake e2e"},
		{"a session", "$ berth explain\nnode a\n  $ no prompt\n$ ls\n", "berth explain\nls"},
		{"a command of two lines", "$ berth \\\n    explain\nnode \\\na\n", "berth \\\n    explain"},
	} {
		var got string
		run(t, "copy.js", "copied(text)", map[string]any{"text": c.text}, &got)
		if got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
